"""Writers and readers that are killed at any moment: the run opens, and its counts add up."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import open_index
from swe_sdk.store.layout import events_folder
from tests.store.made import all_rollouts, contents, whole_rollout, write

WRITER = """
import sys
sys.path.insert(0, sys.argv[3])
from swe_sdk.store.writer import RunWriter
from tests.store.made import whole_rollout
writer = RunWriter(sys.argv[1], sync=False)
for number in range(10**9):
    rollout = f"{sys.argv[2]}-{number}.0"
    with writer.artifact("log", rollout_id=rollout, attempt=1) as log:
        log.write(b"line\\n" * 400_000 if number % 50 == 7 else b"short")
    for event in whole_rollout(rollout, steps=3):
        writer.append(event)
    sys.stdout.write(rollout + "\\n")
    sys.stdout.flush()
"""
READER = """
import sys
from swe_sdk.store.index import open_index
while True:
    with open_index(sys.argv[1], index_dir=sys.argv[2]) as index:
        for _ in range(20):
            index.refresh()
"""
ROOT = str(Path(__file__).resolve().parents[2])


def test_killed_writers_lose_nothing_that_they_reported(tmp_path):
    chance = random.Random(11)
    run = tmp_path / "r"
    reported: set[str] = set()
    for round_ in range(3):
        command = [sys.executable, "-c", WRITER, str(run)]
        files = [(tmp_path / f"{round_}-{letter}").open("w+") for letter in "abc"]
        writers = [
            subprocess.Popen([*command, f"w{round_}{letter}", ROOT], stdout=file)
            for letter, file in zip("abc", files, strict=True)
        ]
        _wait_for_lines(files)
        for writer in writers:
            time.sleep(chance.uniform(0, 0.2))
            writer.send_signal(signal.SIGKILL)
            writer.wait()
        for file in files:
            file.seek(0)
            reported |= set(file.read().split("\n")[:-1])
            file.close()
        _check(run, tmp_path / "ix", reported)
    _check(run, tmp_path / "new", reported)


def _wait_for_lines(files: list) -> None:
    deadline = time.monotonic() + 60
    while any(os.fstat(file.fileno()).st_size == 0 for file in files):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _check(run: Path, index_dir: Path, reported: set[str]) -> None:
    with open_index(run, index_dir=index_dir) as index:
        rows = all_rollouts(index)
        assert {row.rollout_id for row in rows if row.is_final} >= reported
        for row in rows:
            if row.is_final:
                assert (row.status, row.reward, row.steps, row.attempt) == ("resolved", 1.0, 3, 1)
                assert len(index.steps(row.rollout_id).rows) == 3
        assert index.run().counts == _counted(rows)
        assert index.run().alive is False
        status = index.status()
        assert status.bad_lines == 0
        journals = list(events_folder(run).iterdir())
        assert status.lines == sum(path.read_bytes().count(b"\n") for path in journals)
        for artifact in (a for row in rows for a in index.artifacts(row.rollout_id)):
            with index.open_artifact(artifact) as file:
                whole = file.size in (5, 2_000_000)
                assert whole or artifact.is_open
                assert artifact.size_bytes == file.size or artifact.is_open


def _counted(rows: list) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.status] = counts.get(row.status, 0) + 1
    return counts


def test_killed_indexers_spoil_nothing(tmp_path):
    """Two processes index a growing run and are killed all the time; the index equals one made anew."""
    chance = random.Random(5)
    run, index_dir = tmp_path / "r", tmp_path / "ix"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(run), "w", ROOT], stdout=subprocess.DEVNULL)
    try:
        while not (run / "run.json").exists():
            time.sleep(0.02)
        for _ in range(4):
            readers = [subprocess.Popen([sys.executable, "-c", READER, str(run), str(index_dir)]) for _ in range(2)]
            time.sleep(chance.uniform(0.4, 1.2))
            for reader in readers:
                assert reader.poll() is None
                reader.kill()
                reader.wait()
    finally:
        writer.kill()
        writer.wait()
    with open_index(run, index_dir=index_dir) as kept, open_index(run, index_dir=tmp_path / "new") as new:
        assert kept.count(RolloutFilter(final=True)) > 0
        assert contents(kept) == contents(new)


OPEN_AT_ONCE = """
import sys, time
from swe_sdk.store.index import open_index
for number in range(12):
    time.sleep(max(0, float(sys.argv[3]) + number * 0.25 - time.time()))
    with open_index(sys.argv[1], index_dir=f"{sys.argv[2]}/{number}") as index:
        assert index.count() == 100, index.count()
"""


def test_processes_that_make_one_index_at_once(tmp_path):
    write(tmp_path / "r", *(event for n in range(100) for event in whole_rollout(f"t-{n}.0")))
    command = [sys.executable, "-c", OPEN_AT_ONCE, str(tmp_path / "r"), str(tmp_path), str(time.time() + 1.5)]
    processes = [subprocess.Popen(command, text=True, stderr=subprocess.PIPE) for _ in range(4)]
    assert [process.communicate(timeout=120)[1] for process in processes] == [""] * 4


def test_a_torn_last_line_is_told_and_left_alone(tmp_path):
    run = tmp_path / "r"
    done = subprocess.run(
        [sys.executable, "-c", WRITER.replace("10**9", "2").replace("sys.stdout.flush()", "pass"), str(run), "w", ROOT],
        capture_output=True,
        check=True,
    )
    assert done.returncode == 0
    (journal,) = events_folder(run).iterdir()
    journal.write_bytes(journal.read_bytes()[:-20])
    with open_index(run, index_dir=tmp_path / "ix") as index:
        status = index.status()
        assert status.torn == (str(journal),)
        assert status.unread_bytes > 0
        assert any("half a line" in note for note in status.notes)
        assert index.rollout("w-1.0").status == "running"
        assert index.rollout("w-0.0").status == "resolved"
        assert index.refresh() == 0
