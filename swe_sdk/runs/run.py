"""A run, looked at: while it goes on, and for ever after."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from swe_sdk.config.model import RunConfig
from swe_sdk.errors import InputError, PrerequisiteError, RunClosed
from swe_sdk.metrics.facts import FactStatus, RolloutFacts
from swe_sdk.metrics.summary import RunMetrics, run_metrics
from swe_sdk.model.budget import Budget
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.runs.folder import RunPlan, load_plan, load_run_tasks
from swe_sdk.runs.log import Logs
from swe_sdk.runs.rollouts import Rollouts
from swe_sdk.shown import Frame, Shown, from_notebook, one_line
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import RunIndex, open_index
from swe_sdk.store.layout import read_run
from swe_sdk.store.outlines import RolloutOutline
from swe_sdk.store.rows import RunRow

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from swe_sdk.exports.record import RolloutRecord
    from swe_sdk.runs.checkpoints.retained import Snapshots
    from swe_sdk.runs.checkpoints.view import Checkpoints

_MEASURED: dict[str, FactStatus] = {"resolved": "resolved", "unresolved": "unresolved", "masked": "masked"}


class Run(Shown):
    """One run directory. Everything is read when it is asked for, so that a run that goes on is seen going on.

    ``run.rollouts["<id>"]`` is one rollout, ``run.metrics`` the numbers, ``run.to_frame()`` a row a rollout. Nothing
    here changes the run. May be closed, or used in a ``with`` block; may be used by any thread. Whatever is asked of a
    closed one raises ``RunClosed``.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()
        read_run(self.path)
        self._index: RunIndex = open_index(self.path)

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def row(self) -> RunRow:
        """What the store knows of it: agent, times, counts by status, whether it is alive."""
        self._index.refresh()
        return self._index.run()

    @cached_property
    def plan(self) -> RunPlan | None:
        """What it was asked for, and where each setting came from; None where it was imported."""
        return load_plan(self.path)

    @property
    def config(self) -> RunConfig:
        """Its resolved settings; ``InputError`` where it was imported."""
        if self.plan is None:
            raise InputError(f"{self.path} was imported: its settings are not known")
        return self.plan.config

    @cached_property
    def tasks(self) -> TaskSet:
        """Its tasks as they were when it began, their private half included; none where it was imported."""
        return load_run_tasks(self.path)

    # -- what came of it ---------------------------------------------------------------------------------------------

    @property
    def rollouts(self) -> Rollouts:
        """All rollouts, by id."""
        self._index.refresh()
        return Rollouts(self._index, RolloutFilter(run=(self.path.name,)))

    @property
    def metrics(self) -> RunMetrics:
        """Mean reward over what was measured, masks by kind, pass@k with its interval, budgets, seconds by stage."""
        self._index.refresh()
        mine = RolloutFilter(run=(self.path.name,))
        return run_metrics(map(_facts, self._index.outlines(mine)), self._index.stage_seconds(mine))

    @property
    def masked_by_kind(self) -> dict[str, int]:
        """How many rollouts are masked, by kind; counted in milliseconds, however many there are."""
        self._index.refresh()
        masks = self._index.groups("mask_kind", RolloutFilter(run=(self.path.name,), status=("masked",)))
        return {group.value or "unknown": group.rollouts for group in masks}

    @property
    def checkpoints(self) -> Checkpoints:
        """What was saved of it, oldest first: kept, released, and what each holds."""
        from swe_sdk.runs.checkpoints.view import Checkpoints

        self._index.refresh()
        return Checkpoints(self.path, self._index)

    @property
    def snapshots(self) -> Snapshots:
        """Sandboxes that were frozen for its checkpoints: kept, released, and what should not be so."""
        from swe_sdk.runs.checkpoints.retained import Snapshots

        self._index.refresh()
        return Snapshots(self._index.snapshots(self.path.name))

    @property
    def logs(self) -> Logs:
        """Files of the run itself."""
        return Logs(self._index, self._index.artifacts(run=self.path.name))

    @property
    def finished(self) -> bool:
        """Whether every rollout that was planned is over, and none was stopped."""
        row = self.row
        over = sum(row.counts.get(status, 0) for status in _MEASURED)
        return over >= max(row.rollouts, row.expected or 0)

    def records(self) -> Iterator[RolloutRecord]:
        """Every finished rollout as a record that holds all of it but its logs, for exports."""
        from swe_sdk.runs.records import rollout_record_of

        statements = {task.instance_id: task.problem_statement for task in self.tasks}
        config = {} if self.plan is None else self.plan.config.model_dump(mode="json")
        for rollout in self.rollouts.where(status=list(_MEASURED)).values():
            statement = statements.get(rollout.instance_id, "")
            yield rollout_record_of(rollout, statement=statement, config=config)

    def export_nemo_gym(self, path: Path | str) -> int:
        """Write the finished rollouts as NeMo Gym rows, one a line; returns how many."""
        from swe_sdk.exports.nemo_gym import write_nemo_gym_rows

        return write_nemo_gym_rows(self.records(), path)

    # -- shown and taken away ----------------------------------------------------------------------------------------

    def dashboard(self, *, height: int = 800) -> Frame:
        """The dashboard of this run in a cell: a frame onto a server in this process, which sees the run go on.

        ``height`` is in pixels. The server listens on this machine alone; behind a JupyterHub it is reached through
        jupyter-server-proxy. Raises ``PrerequisiteError`` where Panel is not installed.
        """
        if find_spec("panel") is None:
            raise PrerequisiteError("the dashboard needs Panel", remedy="pip install 'swe_sdk[dashboard]'")
        shown: Frame = import_module("swe_sdk.dashboard.in_notebook").frame(self.path, height=height)
        return shown

    def to_frame(self) -> pd.DataFrame:
        """A row a rollout; the reward of what was not measured is missing, so that means leave it out."""
        return self.rollouts.to_frame()

    def plot_outcomes(self, *, ax: Axes | None = None) -> Axes:
        """A bar a family: resolved, unresolved, masked, not over; the rate at its end is over what was measured."""
        return self.rollouts.plot_outcomes(ax=ax)

    def plot_masks(self, *, ax: Axes | None = None) -> Axes:
        """How many masks of which kind happened in which stage."""
        return self.rollouts.plot_masks(ax=ax)

    def plot_budgets(self, *, ax: Axes | None = None) -> Axes:
        """Seconds spent, parked and remaining: a bar a rollout, or areas over the rank of more than 40 of them."""
        return self.rollouts.plot_budgets(ax=ax)

    def plot_stages(self, *, ax: Axes | None = None) -> Axes:
        """How long each stage takes, and what it took all together; seconds on a logarithmic axis."""
        return self.rollouts.plot_stages(ax=ax)

    def plot_gantt(self, *, ax: Axes | None = None) -> Axes:
        """What was going on when: a lane a rollout, or how many of more than 40 were in each stage."""
        return self.rollouts.plot_gantt(ax=ax)

    def plot_retention(self, *, ax: Axes | None = None) -> Axes:
        """Which checkpoint holds which snapshot, what is kept and released, in bytes, and what should not be so."""
        self._index.refresh()
        drawn: Axes = from_notebook("plots.sources").retention_of_run(self._index, self.path.name, ax)
        return drawn

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what it is, its settings, its metrics, and a row a rollout."""
        return {
            "path": str(self.path),
            "run": self.row.model_dump(mode="json"),
            "config": None if self.plan is None else self.plan.config.model_dump(mode="json"),
            "metrics": self.metrics.model_dump(mode="json"),
            "rollouts": [row.model_dump(mode="json") for row in self.rollouts.rows()],
        }

    @property
    def summary(self) -> str:
        """A line of counts, and one with pass@1 and its interval."""
        metrics = self.metrics
        return f"{metrics.summary}\n{metrics.pass_at_1}"

    @property
    def _line(self) -> str:
        """Counts alone, which take milliseconds however many rollouts there are."""
        row = self.row
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.masked_by_kind.items())
        counts = {status: row.counts.get(status, 0) for status in _MEASURED}
        told = [f"{count} {status}" for status, count in counts.items()]
        mean = "" if row.reward_mean is None else f"; mean reward {row.reward_mean:.3f} over what was measured"
        return f"{', '.join(told)}{f' ({kinds})' if kinds else ''} of {row.rollouts}{mean}"

    def __repr__(self) -> str:
        try:
            line = one_line(self._line, 300)
        except RunClosed:
            line = "closed"
        return f"<Run {self.path.name}: {line}>"

    # -- closing -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the index. A second call does nothing."""
        self._index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _facts(row: RolloutOutline) -> RolloutFacts:
    status = _MEASURED.get(row.status, "unfinished")
    masked = status == "masked"
    return RolloutFacts(
        rollout_id=row.rollout_id,
        instance_id=row.instance_id,
        status=status,
        mask_kind=(row.mask_kind or "unknown") if masked else None,
        mask_stage=row.mask_stage if masked else None,
        budget=Budget(total_s=row.total_s, spent_s=row.spent_s, parked_s=row.parked_s),
        attempts=max(1, row.attempt),
    )
