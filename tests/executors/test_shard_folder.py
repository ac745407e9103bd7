from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.errors import NoSpace
from swe_sdk.executors.contract import Job, JobResult
from swe_sdk.executors.slurm.folder import ShardFolder, ShardResult, shard_folders
from swe_sdk.executors.slurm.state import Ticket, dealt


def result(number: int) -> ShardResult:
    return ShardResult(number=number, result=JobResult(id=str(number), state="done", output={"n": number}))


def make(path: Path, count: int = 3) -> ShardFolder:
    folder = ShardFolder(path)
    folder.create([Job(id=str(n), work="a:b") for n in range(count)], [])
    return folder


def test_results_are_read_from_where_the_reader_stands(tmp_path: Path) -> None:
    folder = make(tmp_path / "shards" / "one")
    assert folder.read() == ([], 0)
    folder.append(result(0))
    first, offset = folder.read()
    folder.append(result(2))
    second, _ = folder.read(offset)
    assert ([line.number for line in first], [line.number for line in second]) == ([0], [2])


def test_a_result_that_does_not_fit_is_an_error_and_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, write = make(tmp_path / "shards" / "one"), os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:20]))
    with pytest.raises(NoSpace):
        folder.append(result(0))
    monkeypatch.undo()
    folder.append(result(1))
    assert [line.number for line in folder.read()[0]] == [1]


def test_half_a_line_is_left_and_a_shard_that_starts_again_goes_on_behind_it(tmp_path: Path) -> None:
    folder = make(tmp_path / "shards" / "one")
    folder.append(result(0))
    with folder.results.open("ab") as file:
        file.write(result(1).model_dump_json().encode()[:20])
    lines, offset = folder.read()
    assert [line.number for line in lines] == [0]
    folder.append(result(2))
    assert [line.number for line in folder.read(offset)[0]] == [2]
    assert [line.number for line in folder.read()[0]] == [0, 2]


def test_hidden_tests_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = make(tmp_path / "shards" / "one")
    folder.append(result(0))
    for name in ("jobs.jsonl", "first.jsonl", "results.jsonl"):
        assert (folder.path / name).stat().st_mode & 0o777 == 0o600


def test_a_shard_that_was_half_made_is_none(tmp_path: Path) -> None:
    make(tmp_path / "shards" / "one")
    (tmp_path / "shards" / "two" / "cancel").mkdir(parents=True)
    assert [folder.path.name for folder in shard_folders(tmp_path)] == ["one"]


@given(st.integers(0, 60), st.integers(1, 12))
def test_jobs_are_dealt_evenly_and_all_of_them(count: int, shards: int) -> None:
    tickets = [Ticket.__new__(Ticket) for _ in range(count)]
    hands = dealt(tickets, shards)
    assert len(hands) == min(count, shards)
    assert sorted(id(ticket) for hand in hands for ticket in hand) == sorted(map(id, tickets))
    assert not hands or max(map(len, hands)) - min(map(len, hands)) <= 1
