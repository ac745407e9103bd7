"""A sandbox engine made of files, for tests of leases and reapers: any process sees its boxes, and it does as told.

It keeps boxes as a container daemon does, by name and with labels, and whoever asked for them may be dead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import anyio

from swe_sdk.errors import CreateFailed, SandboxError
from swe_sdk.files import write_atomic
from swe_sdk.sandbox.leases import Lease, LeaseBook
from swe_sdk.sandbox.reaping import OwnedBox, ReapReport, labelled


class DirectoryEngine:
    """Each box is a file in ``directory``. There, ``<name>.box.stuck`` makes its removal fail, ``down`` everything.

    With ``slow_s`` a removal takes that long, and each is noted in the file ``removals``.
    """

    name = "directory"

    def __init__(self, directory: str, slow_s: float = 0.0) -> None:
        self.directory = Path(directory)
        self.slow_s = slow_s
        self.directory.mkdir(exist_ok=True)

    @property
    def settings(self) -> Mapping[str, object]:
        return {"directory": str(self.directory)}

    def create(self, name: str, labels: Mapping[str, str]) -> str:
        path = self.directory / f"{name}.box"
        if path.exists():
            raise CreateFailed(f"there is a box {name} already")
        write_atomic(path, json.dumps(dict(labels)).encode(), sync=False)
        return path.name

    def boxes(self) -> set[str]:
        return {path.name for path in self.directory.glob("*.box")}

    async def owned(self) -> list[OwnedBox]:
        if (self.directory / "down").exists():
            raise SandboxError("the engine does not answer")
        found = [labelled(path.name, labels) for path in self.directory.glob("*.box") if (labels := _labels(path))]
        return [box for box in found if box is not None]

    async def remove(self, handle: str) -> None:
        with (self.directory / "removals").open("a") as file:
            file.write(f"{handle} {os.getpid()}\n")
        await anyio.sleep(self.slow_s)
        if (self.directory / f"{handle}.stuck").exists():
            raise SandboxError(f"{handle} is stuck")
        (self.directory / handle).unlink(missing_ok=True)

    def removals(self) -> list[str]:
        path = self.directory / "removals"
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


def _labels(path: Path) -> dict[str, str]:
    try:
        return json.loads(path.read_text())  # type: ignore[no-any-return]
    except FileNotFoundError:
        return {}  # it has just been removed


def restore(name: str, settings: Mapping[str, str]) -> DirectoryEngine:
    """What the registry does for built-in providers."""
    assert name == DirectoryEngine.name
    return DirectoryEngine(**settings)


def make_box(book: LeaseBook, engine: DirectoryEngine) -> Lease:
    """A live box, made as a provider makes one."""
    lease = book.intend(engine.name, settings=engine.settings, task="t")
    return book.confirm(lease, engine.create(lease.id, lease.labels()))


def actions(report: ReapReport) -> dict[str | None, str]:
    """What became of which lease."""
    return {item.lease: item.action for item in report.items}
