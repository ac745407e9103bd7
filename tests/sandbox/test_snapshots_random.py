"""Snapshots and forks against a plain directory: after any changes, both hold the same files.

``SWE_SDK_EXAMPLES`` sets the number of examples.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swe_sdk.sandbox.contract import SandboxSpec, Snapshot
from swe_sdk.sandbox.providers.local import freezing
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import memory_folder, traces_of
from tests.sandbox.file_operations import FORMAT, Operation, Tree

EXAMPLES = int(os.environ.get("SWE_SDK_EXAMPLES", "60"))
PROGRAM = (Path(__file__).parent / "file_operations.py").read_text()
ROOT = "/data/tree"
KINDS = sorted(name.removeprefix("_do_") for name in vars(Tree) if name.startswith("_do_"))
NAMES = ["a", "b", "c", ".d", "-e", "sp ace", "new\nline", "\udcff\udcfe", "ünï", "*", "x" * 200]
SMALL = st.integers(0, 9)
OPERATIONS = st.builds(Operation, st.sampled_from(KINDS), SMALL, SMALL, st.sampled_from(NAMES), st.integers(0, 300))
ACTIONS = st.sampled_from(["", "seal", "seal", "copy", "seal and switch", "copy and switch", "close and switch"])
PHASES = st.lists(st.tuples(st.lists(OPERATIONS, max_size=10), ACTIONS), min_size=1, max_size=7)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A provider on a state of its own, and one event loop, for all examples."""
    with (
        tempfile.TemporaryDirectory(prefix="swe_sdk-random-", dir=memory_folder()) as folder,
        asyncio.Runner() as runner,
    ):
        lab = Lab(LocalProvider(Path(folder) / "state"), Path(folder), runner)
        yield lab
        owner = lab.provider.store.owner
        runner.run(lab.provider.aclose())
        assert traces_of(lab.provider.state, owner) == {}


@pytest.mark.timeout(120 + EXAMPLES)
@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(phases=PHASES)
def test_forks_hold_what_a_plain_directory_holds(lab: Lab, phases: list[tuple[list[Operation], str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(freezing, "MAX_DEPTH", 4)  # so that chains are merged all the time
        lab.runner.run(Walk(lab).along(phases))
    assert os.listdir(lab.provider.state / "layers") == [], "layers that nobody needs are still there"


class Lab(NamedTuple):
    provider: LocalProvider
    folder: Path
    runner: asyncio.Runner


class Seen(NamedTuple):
    """What the program in a box has told."""

    results: list[int]
    tree: list[list[Any]]
    links: list[list[str]]


class Walk:
    """One example: a box, and a plain directory beside it."""

    def __init__(self, lab: Lab) -> None:
        self.provider = lab.provider
        self.plain = Tree(tempfile.mkdtemp(prefix="plain-", dir=lab.folder))
        self.made = 0
        self.snapshots: list[Snapshot] = []

    async def along(self, phases: list[tuple[list[Operation], str]]) -> None:
        self.box = await self.fork(None)
        try:
            for operations, action in phases:
                await self.change(operations)
                if action:
                    await self.freeze(*action.split(" and "))
        finally:
            await self.box.close()
            for snapshot in self.snapshots:
                await self.provider.delete_snapshot(snapshot.id)
            shutil.rmtree(self.plain.root)

    async def fork(self, snapshot: Snapshot | None) -> LocalBox:
        box = await self.provider.create(SandboxSpec(snapshot=snapshot and snapshot.id, workdir="/"))
        assert isinstance(box, LocalBox)
        return box

    async def change(self, operations: list[Operation]) -> None:
        """Make the same changes in both, with the same results."""
        seen = await self.see(self.box, operations)
        results = self.plain.apply(operations, self.made, seen.results)
        self.made += len(operations)
        self.before = seen.tree
        assert seen.results == results, list(zip(operations, seen.results, results, strict=True))
        assert _comparable(seen.tree) == _comparable(self.plain.describe())

    async def freeze(self, how: str, then: str = "") -> None:
        """Make a snapshot: its fork, and the box itself, hold what the box held; a directory's time included."""
        snapshot = await (self.copy() if how == "copy" else self.seal())
        if how == "close":
            await self.box.close()
        fork = await self.fork(snapshot)
        kept, other = (fork, self.box) if then else (self.box, fork)
        try:
            seen = await self.see(fork)
            assert seen.tree == self.before
            assert seen.links == self.plain.links()
            if how == "seal":
                assert (await self.see(self.box)).tree == self.before, "the box itself is renewed on the frozen layer"
        finally:
            self.box = kept
            await other.close()
        if then or how != "copy":
            self.plain.freeze()
        while then and len(self.snapshots) > 1:
            await self.provider.delete_snapshot(self.snapshots.pop(0).id)

    async def seal(self) -> Snapshot:
        """A snapshot of a box in which nothing lives."""
        snapshot = await self.provider.snapshot(self.box)
        self.snapshots.append(snapshot)
        return snapshot

    async def copy(self) -> Snapshot:
        """A snapshot of a paused box, in which a program lives."""
        await self.box.exec("sleep 1000 > /dev/null 2>&1 &")
        alive = [process.pid for process in await self.box.processes()]
        await self.box.pause()
        snapshot = await self.provider.snapshot(self.box)
        self.snapshots.append(snapshot)
        await self.box.resume()
        assert [process.pid for process in await self.box.processes()] == alive, "it did not go on"
        await self.box.exec("kill -9 -1")
        while await self.box.processes():
            await asyncio.sleep(0.001)
        return snapshot

    async def see(self, box: LocalBox, operations: list[Operation] = []) -> Seen:  # noqa: B006 - never changed
        request = (ROOT, [tuple(vars(operation).values()) for operation in operations], self.made)
        program = ["python3", "-I", "-S", "-c", PROGRAM]
        stdin = marshal.dumps(request, FORMAT)
        told = await box.exec(program, stdin=stdin, output_bytes=8 << 20, timeout_s=60)
        assert told.ok, told.stderr
        return Seen(*marshal.loads(told.stdout_bytes))


def _comparable(tree: list[list[Any]]) -> list[list[Any]]:
    """Without owners, which are others on the host, and times of directories, which are those of the changes."""
    return [[*entry[:3], None if os.path.stat.S_ISDIR(entry[1]) else entry[4], *entry[5:]] for entry in tree]
