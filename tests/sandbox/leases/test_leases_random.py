"""Any order of lives, deaths, failures and reapers: what is left is what a model of a few lines says."""

from __future__ import annotations

import logging
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from swe_sdk.errors import SandboxError, SandboxLost
from swe_sdk.sandbox import leases, owner, presence, reaper
from swe_sdk.sandbox.leases import Lease, LeaseBook
from swe_sdk.sandbox.owner import Owner, current_owner
from swe_sdk.sandbox.reaper import reap
from tests.sandbox.leases.engines import DirectoryEngine


class Owned:
    """What the model knows of one lease and its box."""

    def __init__(self, process: Process, lease: Lease) -> None:
        self.process, self.lease = process, lease
        self.handle: str | None = None
        self.state: str | None = "intended"
        """None = there is no record, or none that can be read."""
        self.has_box = self.is_stuck = False

    @property
    def box(self) -> str:
        return f"{self.lease.id}.box"


class Process:
    """A process that sleeps, in whose name leases are written."""

    def __init__(self) -> None:
        self._sleep = subprocess.Popen(["sleep", "600"])
        me, pid = current_owner(), self._sleep.pid
        self.owner: Owner = me.model_copy(update={"pid": pid, "started": owner._started(pid), "token": "other"})
        self.is_alive = True

    def kill(self) -> None:
        self._sleep.kill()
        self._sleep.wait()
        self.is_alive = False


PICK = st.integers(0, 3)
"""One of the latest things that are left."""
NUMBER = st.integers(0, 2)
"""One of three processes."""


class LeasesAndReapers(RuleBasedStateMachine):
    @initialize()
    def empty(self) -> None:
        logging.disable(logging.WARNING)  # half-written records are told each time
        self.stack = ExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.book = LeaseBook(folder / "book")
        self.engine = DirectoryEngine(str(folder / "engine"))
        self.processes = [Process() for _ in range(3)]
        self.everything: list[Owned] = []

    def teardown(self) -> None:
        for process in self.processes:
            process.kill()
        self.stack.close()
        logging.disable(logging.NOTSET)

    def pick(self, number: int) -> Owned:
        left = [it for it in self.everything if it.state or it.has_box]
        return left[-1 - number % len(left)]

    def any_left(self) -> bool:
        return any(it.state or it.has_box for it in self.everything)

    # -- what processes do --------------------------------------------------------------------------------------------

    @rule(number=NUMBER)
    def kill(self, number: int) -> None:
        """Another one takes its place."""
        self.processes[number].kill()
        self.processes[number] = Process()

    @rule(number=NUMBER, moment=st.sampled_from(["intended", "made", "live"]))
    def make(self, number: int, moment: str) -> None:
        process = self.processes[number]
        with (
            mock.patch.object(leases, "current_owner", return_value=process.owner),
            mock.patch.object(presence, "presence_in"),
        ):
            (self.book.directory / process.owner.key).mkdir(parents=True, exist_ok=True)
            lease = self.book.intend("directory", settings=self.engine.settings)
        self.everything.append(it := Owned(process, lease))
        if moment != "intended":
            self.engine.create(lease.id, lease.labels())
            it.has_box = True
        if moment == "live":
            self.confirm(it)

    @precondition(any_left)
    @rule(number=PICK)
    def go_on(self, number: int) -> None:
        """Make the box, or hear that it was made: the engine may make it when its owner is dead already."""
        it = self.pick(number)
        if it.state == "intended" and not it.has_box:
            self.engine.create(it.lease.id, it.lease.labels())
            it.has_box = True
        elif it.process.is_alive:
            self.confirm(it)

    def confirm(self, it: Owned) -> None:
        if it.state is None:
            with pytest.raises(SandboxLost):
                self.book.confirm(it.lease, it.box)
        else:
            self.book.confirm(it.lease, it.box)
            it.handle, it.state = it.box, "live"

    @precondition(any_left)
    @rule(number=PICK, fails=st.booleans())
    def close(self, number: int, fails: bool) -> None:
        it = self.pick(number)
        if it.process.is_alive:
            try:
                with self.book.closing(it.lease):
                    if fails:
                        raise SandboxError("no answer")
                    anyio.run(self.engine.remove, it.box)
            except SandboxError:
                it.state = it.state and "closing_failed"
            else:
                it.state, it.has_box = None, False

    # -- what happens to things ---------------------------------------------------------------------------------------

    @precondition(any_left)
    @rule(number=PICK)
    def box_vanishes(self, number: int) -> None:
        it = self.pick(number)
        (self.engine.directory / it.box).unlink(missing_ok=True)
        it.has_box = False

    @precondition(any_left)
    @rule(number=PICK)
    def stick(self, number: int) -> None:
        """From now on it cannot be removed, or it can be again."""
        it = self.pick(number)
        path = self.engine.directory / f"{it.box}.stuck"
        it.is_stuck = not it.is_stuck
        path.touch() if it.is_stuck else path.unlink()

    @precondition(any_left)
    @rule(number=PICK, half=st.booleans())
    def record_is_lost(self, number: int, half: bool) -> None:
        """As by a crash of the machine."""
        it = self.pick(number)
        path = self.book._path(it.lease)
        if path.exists():
            path.write_bytes(path.read_bytes()[:50]) if half else path.unlink()
            it.state = None

    # -- reapers ------------------------------------------------------------------------------------------------------

    @rule(is_dry=st.booleans(), is_settled=st.booleans())
    def reap(self, is_dry: bool, is_settled: bool) -> None:
        expected = {it.lease.id: self._fate(it, is_settled) for it in self.everything}
        with mock.patch.object(reaper, "_SETTLE_S", 0 if is_settled else 1e6):
            report = anyio.run(lambda: reap(self.book, [self.engine], dry_run=is_dry))
        dry = {"removed": "would_remove", "failed": "would_remove"} if is_dry else {}
        shown = {lease: dry.get(fate, fate) for lease, fate in expected.items() if fate not in ("", "live")}
        assert {item.lease: item.action for item in report.items} == shown
        assert len(report.items) == len(shown)
        assert report.live == list(expected.values()).count("live")
        if not is_dry:
            for it in self.everything:
                self._apply(it, expected[it.lease.id])

    def _fate(self, it: Owned, is_settled: bool) -> str:
        if it.state is None and not it.has_box:
            return ""
        if it.process.is_alive and it.state != "closing_failed":
            return "live"
        if not it.has_box and it.handle is None:
            return "removed" if is_settled else "kept"
        return "failed" if it.is_stuck else "removed"

    def _apply(self, it: Owned, fate: str) -> None:
        if fate == "removed":
            it.state, it.has_box = None, False
        elif fate == "failed":
            it.state = it.state and "closing_failed"

    @invariant()
    def disk_is_as_the_model_says(self) -> None:
        if hasattr(self, "book"):
            assert self.engine.boxes() == {it.box for it in self.everything if it.has_box}
            found = {lease.id: (lease.state, lease.handle) for lease in self.book.leases()}
            assert found == {it.lease.id: (it.state, it.handle) for it in self.everything if it.state is not None}


LeasesAndReapers.TestCase.settings = settings(
    max_examples=80, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLeasesAndReapers = LeasesAndReapers.TestCase
