"""The file of an index: it follows what is on the disk, and can be damaged, lost, old, full or made anew."""

from __future__ import annotations

import os
import shutil

import pytest

from swe_sdk.errors import IndexDamaged, NoSpace, PrerequisiteError, UnknownRun
from swe_sdk.store import catalog
from swe_sdk.store.follow import JournalCut
from swe_sdk.store.index import open_index
from swe_sdk.store.index_files import index_name
from tests.store.made import all_rollouts, contents, whole_rollout, write


def test_runs_that_come_and_go(tmp_path):
    folder = tmp_path / "runs"
    write(folder / "a", *whole_rollout("t-1.0"))
    with open_index(folder, index_dir=tmp_path / "ix") as index:
        write(folder / "b", *whole_rollout("t-1.0", "masked"), *whole_rollout("t-2.0"))
        assert index.refresh() > 0
        assert sorted(row.run for row in index.runs()) == ["a", "b"]
        with pytest.raises(UnknownRun):
            index.rollout("t-1.0")
        assert index.rollout("t-1.0", run="b").mask_kind == "timeout"
        shutil.rmtree(folder / "a")
        write(folder / "a", *whole_rollout("t-9.0"))
        index.refresh()
        assert [row.rollout_id for row in all_rollouts(index) if row.run == "a"] == ["t-9.0"]
        shutil.rmtree(folder / "b")
        index.refresh()
        with open_index(folder, index_dir=tmp_path / "new") as new:
            assert contents(index) == contents(new)


def test_a_shortened_journal_is_read_again(tmp_path):
    write(tmp_path / "r", *whole_rollout("t-1.0"))
    with open_index(tmp_path / "r", index_dir=tmp_path / "ix") as index:
        (journal,) = (tmp_path / "r/events").iterdir()
        keep = b"".join(journal.read_bytes().splitlines(keepends=True)[:4])
        journal.unlink()
        (tmp_path / "r/events" / journal.name).write_bytes(keep)
        (tmp_path / "r/events" / "x.jsonl").write_bytes(b"")
        index._follower._catalog._listings.clear()
        index._db._writer.execute("UPDATE journals SET is_closed = 0")
        with pytest.warns(JournalCut, match=journal.name):
            index.refresh()
        assert (index.rollout("t-1.0").status, index.rollout("t-1.0").steps) == ("running", 0)


def test_a_closed_journal_that_somebody_cuts_is_told_of_until_it_is_whole_again(tmp_path):
    """Nobody looks at it again while an index is open: whoever opens one does, once."""
    write(tmp_path / "r", *whole_rollout("t-1.0"))
    write(tmp_path / "r", *whole_rollout("t-2.0"))
    open_index(tmp_path / "r", index_dir=tmp_path / "ix").close()
    (cut,) = (path for path in (tmp_path / "r/events").iterdir() if b'"t-1.0"' in path.read_bytes())
    whole = cut.read_bytes()
    cut.write_bytes(b"".join(whole.splitlines(keepends=True)[:4]) + b'{"v":1,"n":5')
    for _again in range(2):
        with pytest.warns(JournalCut, match=rf"{cut} is shorter than it was \({len(whole)} bytes\)") as told:
            index = open_index(tmp_path / "r", index_dir=tmp_path / "ix")
        assert len(told) == 1
        with index:
            assert index.refresh() == 0, "told once"
            assert {row.rollout_id: row.status for row in all_rollouts(index)} == {
                "t-1.0": "running",
                "t-2.0": "resolved",
            }
            status = index.status()
            assert status.cut == (str(cut),)
            assert cut.name in status.notes[-1]
    cut.write_bytes(whole)
    with pytest.warns(JournalCut):
        open_index(tmp_path / "r", index_dir=tmp_path / "ix").close()
    with open_index(tmp_path / "r", index_dir=tmp_path / "ix") as index:
        assert index.rollout("t-1.0").status == "resolved"
        assert index.status().cut == ()


def test_closed_journals_are_looked_at_once(tmp_path, monkeypatch):
    """However many rollouts there are: a look at each journal when an index is opened, and none afterwards."""
    for number in range(5):
        write(tmp_path / "r", *whole_rollout(f"t-{number}.0"))
    open_index(tmp_path / "r", index_dir=tmp_path / "ix").close()
    looks = []
    size = catalog._size
    monkeypatch.setattr(catalog, "_size", lambda path: looks.append(path) or size(path))
    with open_index(tmp_path / "r", index_dir=tmp_path / "ix") as index:
        assert len(looks) == 5
        for _ in range(3):
            index.refresh()
        assert len(looks) == 5


def test_a_damaged_or_lost_index_is_made_anew(tmp_path):
    write(tmp_path / "r", *whole_rollout("t-1.0"))
    file = tmp_path / "ix" / index_name(tmp_path / "r")
    for spoil in (b"not a database at all, but long enough to be looked at" * 100, b""):
        open_index(tmp_path / "r", index_dir=tmp_path / "ix").close()
        file.write_bytes(spoil)
        with open_index(tmp_path / "r", index_dir=tmp_path / "ix") as index:
            assert index.rollout("t-1.0").status == "resolved"


def test_damage_that_is_found_late(tmp_path):
    """In the middle of a file that opens well; whoever meets it is told, and what is asked next is right."""
    for number in range(3):
        write(tmp_path / "runs" / f"r{number}", *(e for n in range(60) for e in whole_rollout(f"t-{n}.0")))
    path = tmp_path / "ix" / index_name(tmp_path / "runs")
    told, replaced = [], 0
    for part in (0.2, 0.35, 0.5, 0.65):
        open_index(tmp_path / "runs", index_dir=tmp_path / "ix").close()
        data = bytearray(path.read_bytes())
        start = 4096 * int(len(data) // 4096 * part)
        data[start : start + 4096 * 8] = b"\xff" * 4096 * 8
        path.write_bytes(data)
        with open_index(tmp_path / "runs", index_dir=tmp_path / "ix") as index:
            for ask in (
                lambda: all_rollouts(index),
                index.masks,
                index.stage_seconds,
                lambda: index.steps("t-7.0", run="r1"),
            ):
                try:
                    ask()
                except IndexDamaged as error:
                    told.append(error.remedy)
                    index.refresh()
            replaced += index._db.epoch
            assert index.count() == 180
            assert index.steps("t-7.0", run="r1").rows[0].step is not None
            assert index.refresh() == 0
    assert replaced >= 1
    assert set(told) <= {"ask again: it is made anew"}


def test_a_full_disk_under_the_index(tmp_path):
    write(tmp_path / "r", *whole_rollout("t-0.0"))
    with open_index(tmp_path / "r", index_dir=tmp_path / "ix") as index:
        pages_now = index._db.value("PRAGMA page_count")
        index._db._writer.execute(f"PRAGMA max_page_count = {pages_now + 1}")
        write(tmp_path / "r", *(e for n in range(300) for e in whole_rollout(f"t-{n}.0")))
        with pytest.raises(NoSpace, match="SWE_SDK_INDEX"):
            index.refresh()
        assert index.count() == 1, "all of a batch or nothing"
        index._db._writer.execute("PRAGMA max_page_count = 1000000")
        index.refresh()
        assert index.count() == 300


def test_an_old_sqlite_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 26, 0))
    with pytest.raises(PrerequisiteError, match="too old"):
        open_index(tmp_path, index_dir=tmp_path / "ix")


def test_an_index_of_other_tables_is_another_file(tmp_path, monkeypatch):
    before = index_name(tmp_path)
    monkeypatch.setattr("swe_sdk.store.index_files.TABLES", "CREATE TABLE other (x)")
    assert index_name(tmp_path) != before


def test_indexes_that_nobody_uses_are_removed(tmp_path):
    write(tmp_path / "a", *whole_rollout("t-1.0"))
    write(tmp_path / "b", *whole_rollout("t-1.0"))
    ix = tmp_path / "ix"
    open_index(tmp_path / "a", index_dir=ix).close()
    (old,) = ix.glob("*.sqlite")
    os.utime(old, (1e9, 1e9))
    open_index(tmp_path / "a", index_dir=ix).close()
    open_index(tmp_path / "b", index_dir=ix).close()
    assert len(list(ix.glob("*.sqlite"))) == 2, "it was opened meanwhile"
    os.utime(old, (1e9, 1e9))
    open_index(tmp_path, index_dir=ix).close()
    assert old not in list(ix.iterdir())
