"""Rollouts that were going on when their run was killed: no view, and no table on a terminal, says that they go on."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from swe_sdk.cli import main
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.state import State
from swe_sdk.dashboard.views import views
from swe_sdk.model.budget import Budget
from swe_sdk.store import events as ev
from swe_sdk.store.index import open_index
from swe_sdk.store.writer import RunWriter

_PLACES = {
    "runs": State(),
    "rollouts": State(view="rollouts", run=("run",)),
    "rollout": State(view="rollout", run=("run",), rollout="a.0"),
    "budgets": State(view="budgets", run=("run",)),
}


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    writer = RunWriter(tmp_path / "run", sync=False)
    for event in (
        ev.RunStarted(name="made", agent="scripted"),
        ev.RolloutQueued(rollout_id="a.0", instance_id="a"),
        ev.AttemptStarted(rollout_id="a.0", attempt=1),
        ev.StageStarted(rollout_id="a.0", attempt=1, stage="invoke_agent"),
        ev.BudgetCharged(rollout_id="a.0", attempt=1, budget=Budget(total_s=60.0, spent_s=1.0)),
    ):
        writer.append(event)
    return writer


def _page(root: Path, name: str) -> str:
    """Without its filters, and what is counted over all runs: these are of what is written down."""
    with open_index(root) as index:
        page = views()[name].render(Context(index, _PLACES[name], root, time.time()))
    return re.sub(r"<form.*?</form>|<section[^>]*spread.*?</section>", "", page, flags=re.DOTALL)


@pytest.mark.parametrize("name", _PLACES)
def test_a_page_of_it(writer: RunWriter, tmp_path: Path, name: str) -> None:
    assert "running" in _page(tmp_path, name)
    writer.close()
    page = _page(tmp_path, name)
    assert "cut off" in page
    for word in ("going on for", ">running</span>", "1 running"):
        assert word not in page


def test_a_table_of_it(writer: RunWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rollout in ([], ["a.0"]):
        assert main(["show", str(tmp_path / "run"), *rollout]) == 0
        assert "running" in capsys.readouterr().out
    writer.close()
    for rollout in ([], ["a.0"]):
        assert main(["show", str(tmp_path / "run"), *rollout]) == 0
        shown = capsys.readouterr().out
        assert "cut off" in shown
        assert "running" not in shown
