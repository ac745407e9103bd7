"""The first look at many runs takes its time, and says how much of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_sdk import cli_dashboard
from swe_sdk.store import events as ev
from swe_sdk.store import follow
from swe_sdk.store.index import open_index
from swe_sdk.store.writer import RunWriter


def _write(root: Path, runs: int, rollouts: int) -> int:
    for run in range(runs):
        with RunWriter(root / f"run-{run}", sync=False) as writer:
            for number in range(rollouts):
                writer.append(ev.RolloutQueued(rollout_id=f"a__b-{number}.0", instance_id=f"a__b-{number}"))
    return sum(path.stat().st_size for path in root.rglob("*.jsonl"))


def test_it_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "_BATCH_BYTES", 1 << 16)
    whole = _write(tmp_path / "runs", runs=3, rollouts=1000)
    told: list[tuple[int, int]] = []
    with open_index(tmp_path / "runs", index_dir=tmp_path / "ix", told=lambda *far: told.append(far)) as index:
        assert index.count() == 3000
    assert [far for far, _of in told] == sorted(far for far, _of in told)
    assert {of for _far, of in told} == {whole}
    assert len(told) > 5
    assert told[-1] == (whole, whole)
    told.clear()
    with open_index(tmp_path / "runs", index_dir=tmp_path / "ix", told=lambda *far: told.append(far)):
        assert told == [], "nothing is new"


class _Clock:
    now = 100.0

    @classmethod
    def monotonic(cls) -> float:
        return cls.now


def test_what_takes_no_time_is_not_worth_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli_dashboard, "time", _Clock)
    monkeypatch.setattr(_Clock, "now", 100.0)
    reading = cli_dashboard._Reading()
    reading(500, 1000)
    reading.end()
    assert capsys.readouterr().err == ""


def test_what_takes_its_time_is_told_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli_dashboard, "time", _Clock)
    monkeypatch.setattr(_Clock, "now", 100.0)
    reading = cli_dashboard._Reading()
    for step in range(1, 101):
        _Clock.now = 100.0 + step / 5
        reading(step * 10**7, 10**9)
    reading.end()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "indexing the runs, once:   5% of 1,000 MB, 19 s left"
    assert lines[-1] == "indexed the runs in 20 s"
    assert len(lines) == 5, "one each five seconds where it is no terminal"
