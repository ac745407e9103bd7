"""What views say without a browser: advice, what is kept, what boxes there are, what engines are asked."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar, get_args

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_sdk.checkpoint.snapshots.index import SnapshotIndex
from swe_sdk.dashboard import boxes
from swe_sdk.dashboard.advice import ADVICE, advice_on
from swe_sdk.dashboard.asked import Asked
from swe_sdk.dashboard.boxes import collect
from swe_sdk.dashboard.columns import Column, columns, nice_top
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.keeping import being_saved, restorable, standing, would_delete
from swe_sdk.dashboard.state import State
from swe_sdk.dashboard.usage import usage_of
from swe_sdk.dashboard.views import views
from swe_sdk.model.policy import FailureKind
from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.sandbox.reaper import reap
from swe_sdk.sandbox.reaping import OwnedBox
from swe_sdk.store import events as ev
from swe_sdk.store.index import open_index
from swe_sdk.store.rows import CheckpointRow, SnapshotRow
from swe_sdk.store.writer import RunWriter

T = TypeVar("T")

# -- advice ------------------------------------------------------------------------------------------------------------


def test_there_is_advice_on_every_kind_of_failure() -> None:
    assert set(ADVICE) == set(get_args(FailureKind))
    assert all(advice.meaning.endswith(".") and advice.remedy.endswith(".") for advice in ADVICE.values())
    assert advice_on("of a newer version").remedy


# -- what is kept ------------------------------------------------------------------------------------------------------

_IDS = ("c1", "c2", "c3")


def snapshot(
    name: str, refs: tuple[str, ...], kept: tuple[str, ...] = (), released: float | None = None
) -> SnapshotRow:
    return SnapshotRow(run="r", snapshot_id=name, referenced_by=refs, kept_by=kept, released_at=released)


@pytest.mark.parametrize(
    ("row", "saving", "expected"),
    [
        (snapshot("s", ("c1",), ("c1",)), (), "kept"),
        (snapshot("s", ("c1",), (), 5.0), (), "released"),
        (snapshot("s", ("c1",)), (), "leaked"),
        (snapshot("s", ("c1", "c9")), ("c9",), "saving"),
        (snapshot("s", ("c1", "c2"), ("c2",), 5.0), ("c2",), "violated"),
        (snapshot("s", ()), ("c9",), "leaked"),
    ],
)
def test_where_a_snapshot_stands(row: SnapshotRow, saving: tuple[str, ...], expected: str) -> None:
    assert standing(row, saving) == expected


def test_only_a_live_run_is_saving() -> None:
    rows = [CheckpointRow(run="r", checkpoint_id="c1"), CheckpointRow(run="r", checkpoint_id="c2", state="kept")]
    assert being_saved(rows, is_going=True) == {"c1"}
    assert being_saved(rows, is_going=False) == frozenset()


def test_the_newest_complete_one_is_restored_first() -> None:
    rows = [
        CheckpointRow(run="r", checkpoint_id="old", state="kept", saved_at=1.0),
        CheckpointRow(run="r", checkpoint_id="gone", state="released", saved_at=3.0),
        CheckpointRow(run="r", checkpoint_id="new", state="kept", saved_at=2.0),
        CheckpointRow(run="r", checkpoint_id="half"),
    ]
    assert [row.checkpoint_id for row in restorable(rows)] == ["new", "old"]


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=3), st.sets(st.sampled_from(_IDS), min_size=1), min_size=1, max_size=6
    ),
    st.sets(st.sampled_from(_IDS)),
)
def test_what_would_go_is_what_the_index_of_snapshots_lets_go(refs: dict[str, set[str]], keep: set[str]) -> None:
    """The same answer as the code that deletes."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        index = SnapshotIndex(Path(folder))
        for name, checkpoints in refs.items():
            for checkpoint in checkpoints:
                index.refer(checkpoint, "local", {"session": name})
        expected = set(index.unneeded(frozenset(keep), "local"))
    rows = [snapshot(name, tuple(sorted(checkpoints))) for name, checkpoints in refs.items()]
    assert {row.snapshot_id for row in would_delete(rows, keep)} == expected
    released = [row.model_copy(update={"released_at": 1.0}) for row in rows]
    assert would_delete(released, keep) == []


# -- boxes -------------------------------------------------------------------------------------------------------------

_DIES = """
import sys
from swe_sdk.sandbox.leases import LeaseBook
book = LeaseBook(sys.argv[1])
book.confirm(book.intend("fake", settings={"a": 1}, task="dead__task"), "handle-of-the-dead")
"""


def in_a_loop(work: Callable[[], Awaitable[T]]) -> T:
    """Run in a thread: that of the tests has the loop of the browser's driver, once there was one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(anyio.run, work).result()


class Engine:
    """An engine that has some boxes; whatever is removed is a mistake of the test."""

    name, settings = "fake", {"a": 1}

    def __init__(self, *found: OwnedBox) -> None:
        self.found = list(found)

    async def owned(self) -> list[OwnedBox]:
        return self.found

    async def remove(self, handle: str) -> None:
        raise AssertionError(f"{handle} was removed by somebody who only looks")


def test_boxes_say_what_a_dry_run_of_the_reaper_says(tmp_path: Path) -> None:
    book = LeaseBook(tmp_path / "leases")
    subprocess.run([sys.executable, "-c", _DIES, str(book.directory)], check=True)
    live = book.confirm(book.intend("fake", settings={"a": 1}, task="live__task", run="mine"), "handle-of-the-living")
    failed = book.intend("fake", settings={"a": 1})
    with pytest.raises(OSError, match="no answer"), book.closing(failed):
        raise OSError("no answer")
    found = [
        OwnedBox(handle="handle-of-the-dead"),
        OwnedBox(handle="handle-of-the-living", lease=live.id),
        OwnedBox(handle="owner-1/box-1", is_orphan=True, description="box"),
        OwnedBox(handle="owner-2/box-2", is_orphan=False, description="box"),
    ]
    engine = Engine(*found)
    report = in_a_loop(lambda: reap(book, [engine], dry_run=True))
    seen = collect(book, {"fake": found[1:]}, report, now=time.time(), groups=tmp_path)
    rows = {row.handle or row.lease: row for row in seen.rows}
    assert rows["handle-of-the-dead"].fate == "due"
    assert rows["handle-of-the-dead"].stuck == "its owner is dead"
    assert (rows["handle-of-the-living"].fate, rows["handle-of-the-living"].stuck) == ("live", "")
    assert (rows["handle-of-the-living"].task, rows["handle-of-the-living"].run) == ("live__task", "mine")
    assert rows[failed.id].fate == "kept", "the engine may still be making it, for half a minute"
    assert "no answer" in rows[failed.id].stuck
    assert (rows["owner-1/box-1"].fate, rows["owner-2/box-2"].fate) == ("due", "live")
    due = {item.lease or item.handle for item in report.of("would_remove")}
    assert {row.lease or row.handle for row in seen.rows if row.fate == "due"} == due
    assert seen.would_remove == len(report.of("would_remove"))
    assert [row.stuck != "" for row in seen.rows] == sorted((row.stuck != "" for row in seen.rows), reverse=True)
    assert sorted(owner.boxes for owner in seen.owners) == [1, 1, 1, 2]
    assert {owner.lives for owner in seen.owners if owner.name == f"process {os.getpid()}"} == {True}


def test_systems_of_others_are_asked_only_where_a_lease_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is left open would call them every few seconds, with whatever key the environment has."""
    asked: list[str] = []

    class Named(Engine):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name
            asked.append(name)

        async def aclose(self) -> None:
            return None

    monkeypatch.setattr(boxes, "named_provider", Named)
    monkeypatch.setattr(boxes, "LeaseBook", lambda: LeaseBook(tmp_path))
    in_a_loop(boxes._look)
    assert asked == ["apptainer", "docker", "local"]
    asked.clear()
    LeaseBook(tmp_path).intend("e2b", settings={"a": 1})
    in_a_loop(boxes._look)
    assert asked == ["apptainer", "docker", "e2b", "local"]


def test_a_box_that_is_long_in_the_making_is_stuck(tmp_path: Path) -> None:
    book = LeaseBook(tmp_path)
    lease = book.intend("fake")
    report = in_a_loop(lambda: reap(book, [], dry_run=True, restore=lambda _name, _settings: Engine()))
    (row,) = collect(book, {}, report, now=lease.created_at + 5, groups=tmp_path).rows
    assert row.stuck == ""
    (row,) = collect(book, {}, report, now=lease.created_at + 599 + 2, groups=tmp_path).rows
    assert "asked for long ago" in row.stuck


def test_usage_is_read_from_control_groups_of_both_versions(tmp_path: Path) -> None:
    v1 = tmp_path / "memory" / "docker" / "c0ffee"
    v1.mkdir(parents=True)
    (v1 / "memory.usage_in_bytes").write_text("1048576\n")
    v2 = tmp_path / "system.slice" / "docker-beef.scope"
    v2.mkdir(parents=True)
    (v2 / "memory.current").write_text("2048\n")
    (v2 / "pids.current").write_text("3\n")
    (v2 / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    own = tmp_path / "pids" / "swe_sdk" / "12-34.box-1"
    own.mkdir(parents=True)
    (own / "pids.current").write_text("max\n")
    found = usage_of(["c0ffee", "beef", "owner/box-1", "none", "../../etc", "*", ""], tmp_path)
    assert found.keys() == {"c0ffee", "beef"}
    assert found["c0ffee"].memory_bytes == 1 << 20
    assert (found["beef"].memory_bytes, found["beef"].processes, found["beef"].cpu_s) == (2048, 3, 1.5)


def test_boxes_that_share_a_group_are_counted_with_their_owner(tmp_path: Path) -> None:
    group = tmp_path / "memory" / "swe_sdk" / "4711-99.box-owner-1"
    group.mkdir(parents=True)
    (group / "memory.usage_in_bytes").write_text("4096\n")
    assert usage_of(["owner-1/box-1"], tmp_path) == {}
    found = [OwnedBox(handle=f"owner-1/box-{n}", is_orphan=False) for n in range(3)]
    report = in_a_loop(lambda: reap(LeaseBook(tmp_path / "leases"), [], dry_run=True))
    (owner,) = collect(LeaseBook(tmp_path / "leases"), {"local": found}, report, now=0.0, groups=tmp_path).owners
    assert (owner.name, owner.pid, owner.boxes, owner.memory_bytes) == ("owner-1", 4711, 3, 4096)


# -- asking ------------------------------------------------------------------------------------------------------------


def test_many_who_ask_at_once_ask_once_and_nobody_waits_for_long() -> None:
    calls, may_answer = [], threading.Event()

    def ask(key: object) -> str:
        calls.append(key)
        may_answer.wait(10)
        return f"of {key}"

    asked = Asked(ask, every_s=60)
    started = time.monotonic()
    assert [asked("a", wait_s=0.01) for _ in range(5)] == [None] * 5
    assert time.monotonic() - started < 5
    may_answer.set()
    answer = asked("a", wait_s=10)
    assert answer is not None
    assert answer.found == "of a"
    assert asked("a", wait_s=0) == answer
    assert calls == ["a"]


def test_an_old_answer_is_given_until_there_is_a_new_one_and_errors_are_raised() -> None:
    answers: list[object] = [1, OSError("gone"), 3]

    def ask(_key: object) -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    asked = Asked(ask, every_s=0.0)
    assert asked("a", wait_s=10).found == 1
    with pytest.raises(OSError, match="gone"):
        asked("a", wait_s=10)
    assert asked("a", wait_s=10).found == 3


def test_it_may_be_asked_within_an_event_loop() -> None:
    async def main() -> object:
        return Asked(lambda _key: anyio.run(anyio.lowlevel.checkpoint), every_s=1)("a", wait_s=10)

    assert in_a_loop(main) is not None


# -- drawings ----------------------------------------------------------------------------------------------------------


@given(st.floats(min_value=1e-6, max_value=1e12))
def test_the_top_of_a_drawing_is_a_round_number_above_it(value: float) -> None:
    top = nice_top(value)
    assert value * (1 - 1e-9) <= top <= value * 10.0000001


def test_columns_are_as_tall_as_what_they_show() -> None:
    drawn = columns([Column([("status", "masked", 5), ("status", "resolved", 10)], title="<b>")], label="x", key="k")
    assert 'height="75.00"' in drawn
    assert 'height="37.50"' in drawn
    assert "<b>" not in drawn
    assert "status-masked" in columns([Column([("status", "masked", 0.5)])], label="x", key="k")
    assert columns([], label="nothing", key="k").startswith("<svg")


# -- what a restore would do -------------------------------------------------------------------------------------------


def test_a_checkpoint_whose_snapshot_was_deleted_is_not_offered(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", sync=False) as writer:
        for name, snapshot_id in (("c1", "s1"), ("c2", "s2")):
            writer.append(ev.SnapshotTaken(checkpoint_id=name, snapshot_id=snapshot_id, rollout_id="a.0"))
            writer.append(ev.SnapshotReferenced(checkpoint_id=name, snapshot_id=snapshot_id, rollout_id="a.0"))
            writer.append(ev.CheckpointSaved(checkpoint_id=name))
        writer.append(ev.SnapshotReleased(snapshot_id="s2"))
    with open_index(tmp_path, index_dir=tmp_path / "ix") as index:
        state = State.parse("view=checkpoints")
        page = views()["checkpoints"].render(Context(index, state, tmp_path, time.time()))
    assert "c2 cannot be restored: 1 snapshot that it needs" in page
    assert "c1 cannot be restored" in page, "the journal says that it is kept, and its folder is not there"
    assert "No checkpoint of this run can be restored" in page
