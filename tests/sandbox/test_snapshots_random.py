"""Snapshots and forks against a plain directory: after any changes, both hold the same files.

``SWE_SDK_EXAMPLES`` sets the number of examples.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import shutil
import stat
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

EXAMPLES = int(os.environ.get("SWE_SDK_EXAMPLES", "40"))
PROGRAM = (Path(__file__).parent / "file_operations.py").read_text()
ROOT = "/data/tree"
KINDS = sorted(name.removeprefix("_do_") for name in vars(Tree) if name.startswith("_do_"))
OFTEN = ["again", "again", "create", "create", "create", "mkdir", "mkdir", "move", "rewrite", "rmtree", "unlink"]
NAMES = ["a", "a", "b", "b", "c", ".d", "-e", "sp ace", "new\nline", "\udcff\udcfe", "ünï", "*", "x" * 200]
SMALL = st.integers(0, 7)
OPERATIONS = st.builds(
    Operation, st.sampled_from(OFTEN + KINDS), SMALL, SMALL, st.sampled_from(NAMES), st.integers(0, 300)
)
ACTIONS = st.sampled_from(["seal", "seal", "seal", "fork", "copy", "copy and stay"])
STEPS = st.lists(st.tuples(st.lists(OPERATIONS, max_size=8), ACTIONS), min_size=3, max_size=10)
FURNITURE = [
    *(Operation("mkdir", 0, where, name, 0) for where, name in enumerate("abc")),
    *(Operation("create", 0, where, f"file{where}", where * 11) for where in range(4)),
    Operation("link", 1, 2, "linked", 0),
]


class Lab(NamedTuple):
    provider: LocalProvider
    folder: Path
    runner: asyncio.Runner


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A provider on a state of its own, and one event loop, for all examples."""
    place = tempfile.TemporaryDirectory(prefix="swe_sdk-random-", dir=memory_folder())
    with place as folder, asyncio.Runner() as runner:
        lab = Lab(LocalProvider(Path(folder) / "state"), Path(folder), runner)
        yield lab
        owner = lab.provider.store.owner
        runner.run(lab.provider.aclose())
        assert traces_of(lab.provider.state, owner) == {}


@pytest.mark.timeout(120 + 2 * EXAMPLES)
@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(steps=STEPS)
def test_forks_hold_what_a_plain_directory_holds(lab: Lab, steps: list[tuple[list[Operation], str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(freezing, "MAX_DEPTH", 4)  # so that chains are merged all the time
        lab.runner.run(Walk(lab).along(steps))
    assert os.listdir(lab.provider.state / "layers") == [], "layers that nobody needs are still there"


class Seen(NamedTuple):
    """What the program in a box has told."""

    before: list[list[Any]]
    links: list[list[str]]
    results: list[int]
    after: list[list[Any]]


class Walk:
    """One example: a box, and a plain directory beside it."""

    def __init__(self, lab: Lab) -> None:
        self.provider = lab.provider
        self.plain = Tree(tempfile.mkdtemp(prefix="plain-", dir=lab.folder))
        self.made = 0
        self.tree: list[list[Any]] = []
        """What the box held at last, with the times of its directories."""
        self.is_renewed = True
        """Whether the box stands on frozen layers alone: only then has each file one inode number."""

    async def along(self, steps: list[tuple[list[Operation], str]]) -> None:
        self.box = await self.open(None)
        try:
            for operations, action in [(FURNITURE, "seal"), *steps]:
                await self.change(operations)
                await self.freeze(*action.split(" and "))
            await self.change([])
        finally:
            for snapshot in await self.provider.snapshots():
                await self.provider.delete_snapshot(snapshot.id)
            await self.box.close()
            shutil.rmtree(self.plain.root)

    async def open(self, snapshot: Snapshot | None) -> LocalBox:
        box = await self.provider.create(SandboxSpec(snapshot=snapshot and snapshot.id, workdir="/"))
        assert isinstance(box, LocalBox)
        return box

    async def change(self, operations: list[Operation]) -> None:
        """The box holds what it held, links included; the same changes have the same results in both."""
        seen = await self.see(self.box, operations)
        assert seen.before == self.tree
        if self.is_renewed:
            assert seen.links == self.plain.links()
        results = self.plain.apply(operations, self.made, seen.results)
        assert seen.results == results, list(zip(operations, seen.results, results, strict=True))
        assert _comparable(seen.after) == _comparable(self.plain.describe())
        self.made += len(operations)
        self.tree = seen.after

    async def freeze(self, how: str, then: str = "") -> None:
        """Make a snapshot, and go on with the box or with a fork of it; drop all older snapshots."""
        older = await self.provider.snapshots()
        snapshot = await (self.copy() if how == "copy" else self.provider.snapshot(self.box))
        for old in older:
            await self.provider.delete_snapshot(old.id)
        self.is_renewed = not then
        if then:
            await self.look_into_fork(snapshot)
        else:
            self.plain.freeze()
        if how != "seal" and not then:
            await self.box.close()
            self.box = await self.open(snapshot)

    async def look_into_fork(self, snapshot: Snapshot) -> None:
        fork = await self.open(snapshot)
        try:
            seen = await self.see(fork, [])
            assert seen.before == self.tree
            assert seen.links == self.plain.links()
        finally:
            await fork.close()

    async def copy(self) -> Snapshot:
        """A snapshot of a paused box, in which a program lives."""
        await self.box.exec("sleep 1000 > /dev/null 2>&1 &")
        alive = [process.pid for process in await self.box.processes()]
        await self.box.pause()
        snapshot = await self.provider.snapshot(self.box)
        await self.box.resume()
        assert [process.pid for process in await self.box.processes()] == alive, "it did not go on"
        await self.box.exec("kill -9 -1")
        while await self.box.processes():
            await asyncio.sleep(0.001)
        return snapshot

    async def see(self, box: LocalBox, operations: list[Operation]) -> Seen:
        request = (ROOT, [tuple(vars(operation).values()) for operation in operations], self.made)
        program = ["python3", "-I", "-S", "-c", PROGRAM]
        stdin = marshal.dumps(request, FORMAT)
        told = await box.exec(program, stdin=stdin, output_bytes=8 << 20, timeout_s=60)
        assert told.ok, told.stderr
        return Seen(*marshal.loads(told.stdout_bytes))


def _comparable(tree: list[list[Any]]) -> list[list[Any]]:
    """Without owners, which are others on the host, and times of directories, which are those of the changes."""
    return [[*entry[:3], None if stat.S_ISDIR(entry[1]) else entry[4], *entry[5:]] for entry in tree]
