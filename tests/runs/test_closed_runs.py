"""A run that was closed says so, whatever it is asked for, and how to go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swe_sdk.errors import RunClosed
from swe_sdk.runs.run import Run
from swe_sdk.store.index import open_index
from tests.store.made import whole_rollout, write

ASKED: dict[str, Callable[[Run], Any]] = {
    "row": lambda run: run.row,
    "finished": lambda run: run.finished,
    "rollouts": lambda run: run.rollouts,
    "metrics": lambda run: run.metrics,
    "masks": lambda run: run.masked_by_kind,
    "checkpoints": lambda run: run.checkpoints,
    "snapshots": lambda run: run.snapshots,
    "logs": lambda run: run.logs,
    "frame": lambda run: run.to_frame(),
    "dict": lambda run: run.to_dict(),
    "summary": lambda run: run.summary,
    "plot": lambda run: run.plot_retention(),
}


@pytest.fixture
def closed(tmp_path: Path) -> Run:
    write(tmp_path / "run", *whole_rollout("t-1.0"))
    run = Run(tmp_path / "run")
    run.close()
    run.close()
    return run


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_whatever_is_asked_of_a_closed_run(closed: Run, ask: Callable[[Run], Any]) -> None:
    with pytest.raises(RunClosed, match="open it again") as raised:
        ask(closed)
    assert str(closed.path) in raised.value.message


def test_what_was_got_from_it_before(tmp_path: Path) -> None:
    write(tmp_path / "run", *whole_rollout("t-1.0"))
    with Run(tmp_path / "run") as run:
        rollouts = run.rollouts
        rollout = rollouts["t-1.0"]
    assert rollout.status == "resolved", "its numbers were read"
    for ask in (lambda: len(rollouts), lambda: list(rollouts), lambda: rollout.outcome, lambda: rollouts["t-1.0"]):
        with pytest.raises(RunClosed):
            ask()


def test_its_one_line_says_so(closed: Run) -> None:
    assert repr(closed) == "<Run run: closed>"


def test_an_index_says_so_too(tmp_path: Path) -> None:
    write(tmp_path / "runs" / "a", *whole_rollout("t-1.0"))
    index = open_index(tmp_path / "runs", index_dir=tmp_path / "ix")
    index.close()
    for ask in (index.refresh, index.changes, index.version, index.status, index.runs, index.rollouts):
        with pytest.raises(RunClosed, match="open_index"):
            ask()
    open_index(tmp_path / "runs", index_dir=tmp_path / "ix").close()
