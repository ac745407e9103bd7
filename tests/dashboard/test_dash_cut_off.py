"""Rollouts that were going on when their run was killed: no view, and no table on a terminal, says that they go on."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

import swe_sdk as swe
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
    """Without its filters: these are of what is written down."""
    with open_index(root) as index:
        page = views()[name].render(Context(index, _PLACES[name], root, time.time()))
    return re.sub(r"<form.*?</form>", "", page, flags=re.DOTALL)


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


def _numbers(page: str) -> dict[str, str]:
    """What is counted above the list of rollouts."""
    return dict(re.findall(r"<dt[^>]*>([^<]+)</dt><dd[^>]*>(?:<a[^>]*>)?([\d,.]+)", page))


def test_what_goes_on_is_counted_apart(writer: RunWriter, tmp_path: Path) -> None:
    with RunWriter(tmp_path / "live", sync=False) as live:
        for name in ("b0", "b1"):
            live.append(ev.RolloutQueued(rollout_id=f"{name}.0", instance_id=name))
            live.append(ev.AttemptStarted(rollout_id=f"{name}.0", attempt=1))
            budget = Budget(total_s=60.0, spent_s=1.0)
            live.append(ev.BudgetCharged(rollout_id=f"{name}.0", attempt=1, budget=budget))
        writer.close()
        with open_index(tmp_path) as index:

            def page(state: State) -> str:
                return views()[state.view].render(Context(index, state, tmp_path, time.time()))

            for state, going, cut_off in (
                (State(view="rollouts"), "2", "1"),
                (State(view="rollouts", status=("resolved",)), "0", "0"),
                (State(view="rollouts", text="b1"), "1", "0"),
            ):
                numbers = _numbers(page(state))
                assert (numbers["under way"], numbers["cut off"]) == (going, cut_off), state
            assert "3 rollouts (running 2, cut off 1)" in page(State(view="budgets"))


def test_an_attempt_ends_before_the_next(writer: RunWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed, and gone on with: its end was never written down, and nothing of it goes on."""
    writer.close()
    with RunWriter(tmp_path / "run", sync=False) as again:
        began = time.time() + 100
        again.append(ev.AttemptStarted(rollout_id="a.0", attempt=2), at=began)
        again.append(ev.StageStarted(rollout_id="a.0", attempt=2, stage="seed"), at=began + 1)
        assert main(["show", str(tmp_path / "run"), "a.0"]) == 0
        assert re.search(r"1 +invoke_agent +cut off\b.*2 +seed +going on", capsys.readouterr().out, re.DOTALL)
        (rollout,) = swe.open_run(tmp_path / "run").rollouts.values()
        assert "cut off" in rollout._repr_html_()
        with open_index(tmp_path) as index:
            page = views()["rollout"].render(Context(index, _PLACES["rollout"], tmp_path, began + 1000))
    first, second = re.findall(r"<tr[^>]*attempt-.*?</tr>", page, re.DOTALL)
    assert "cut off" in first
    assert "not yet" not in first
    assert "at most" in first
    assert "1 m 40 s" in first
    assert "not yet" in second
    lanes = re.findall(r'x="([\d.]+)%" y="4" width="([\d.]+)%"', page)
    assert lanes
    assert max(float(x) + float(width) for x, width in lanes) < 20, "it reaches into the second attempt"
