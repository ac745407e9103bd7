"""One rollout of a run, looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from swe_sdk.model.budget import Budget
from swe_sdk.model.columns import frame_of
from swe_sdk.model.outcome import Mask, Outcome
from swe_sdk.model.patch import EMPTY_PATCH, Patch
from swe_sdk.runs.frames import STEPS
from swe_sdk.runs.log import Log, Logs
from swe_sdk.runs.paged import Paged
from swe_sdk.shown import Shown, one_line
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import RunIndex
from swe_sdk.store.rows import AttemptRow, MaskRow, ModelCallRow, RolloutRow, StageRow, StepRow
from swe_sdk.store.standing import GOING_ON, attempts_end, word_of

if TYPE_CHECKING:
    import pandas as pd


class Rollout(Shown):
    """An agent's work on a task, as far as it has come; what was read does not change under its reader.

    ``row`` has all of its numbers; lists, files and the outcome are read from the run when they are asked for.
    """

    def __init__(self, index: RunIndex, row: RolloutRow) -> None:
        self._index = index
        self.row = row

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """``<instance id>.<sample>``."""
        return self.row.rollout_id

    @property
    def instance_id(self) -> str:
        """Of its task."""
        return self.row.instance_id

    @property
    def sample(self) -> int:
        """Which of the rollouts of its task, from 0."""
        return self.row.sample

    @property
    def status(self) -> str:
        """``resolved``, ``unresolved``, ``masked``, ``stopped``; or that it is ``queued``, ``running``, ..."""
        return self.row.status

    @property
    def word(self) -> str:
        """The same as people read it: ``cut off`` where it was going on when its run ended, or was killed."""
        return word_of(self._index.run(self.row.run), self.status) if self.status in GOING_ON else self.status

    @property
    def reward(self) -> float | None:
        """1.0 or 0.0; None until it is over. Where it is masked, its 0.0 is no measurement."""
        return self.row.reward

    @property
    def resolved(self) -> bool:
        """Whether the agent solved the task."""
        return self.row.status == "resolved"

    @property
    def masked(self) -> bool:
        """Whether nothing could be measured."""
        return self.row.status == "masked"

    @property
    def attempt(self) -> int:
        """The one that counts, from 1; 0 = none has begun."""
        return self.row.attempt

    @property
    def budget(self) -> Budget:
        """Seconds that it had, has spent, and was parked for."""
        return Budget(total_s=self.row.total_s, spent_s=self.row.spent_s, parked_s=self.row.parked_s)

    # -- what came of it ---------------------------------------------------------------------------------------------

    @property
    def outcome(self) -> Outcome | None:
        """What its patch is worth; None where it has not come to that."""
        return self._index.outcome(self.id, run=self.row.run)

    @property
    def mask(self) -> Mask | None:
        """Why it is no measurement; None where it is one, or is not over."""
        if not self.masked:
            return None
        outcome = self.outcome
        if outcome is not None and outcome.mask is not None:
            return outcome.mask
        return self.masks[-1].mask if self.masks else None

    @property
    def patch(self) -> Patch:
        """What the agent changed; empty where it left none."""
        return self._index.patch(self.id, run=self.row.run) or EMPTY_PATCH

    # -- how it went -------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> Paged[StepRow]:
        """What the agent did, of all attempts; read page by page."""
        return Paged(
            lambda offset, limit: self._index.steps(self.id, run=self.row.run, offset=offset, limit=limit), "step"
        )

    @property
    def model_calls(self) -> Paged[ModelCallRow]:
        """What it asked its model; read page by page."""
        return Paged(
            lambda offset, limit: self._index.model_calls(self.id, run=self.row.run, offset=offset, limit=limit),
            "model call",
        )

    @property
    def attempts(self) -> list[AttemptRow]:
        """All tries, the first one first."""
        return self._index.attempts(self.id, run=self.row.run)

    @property
    def attempts_end(self) -> dict[int, float | None]:
        """When each try was over, by its number; at the latest, of one that was cut off; None of one that goes on."""
        return attempts_end(self._index.run(self.row.run), self.row, self.attempts)

    @property
    def restart_reason(self) -> str:
        """Why the attempt that counts started over, though a checkpoint held the rollout; empty = it did not."""
        return next((each.restart_reason for each in self.attempts if each.attempt == self.attempt), "")

    @property
    def stages(self) -> list[StageRow]:
        """The stages of all attempts, with their seconds."""
        return self._index.stages(self.id, run=self.row.run)

    @property
    def masks(self) -> list[MaskRow]:
        """Why attempts gave no measurement, the first one first; those that were tried again as well."""
        chosen = RolloutFilter(run=(self.row.run,), instance_id=(self.instance_id,))
        rows = self._index.masks(chosen, limit=1000).rows
        return [row for row in reversed(rows) if row.rollout_id == self.id]

    @property
    def logs(self) -> Logs:
        """The files of the attempt that counts: logs, transcripts, patches; read in windows."""
        return self.logs_of(self.attempt)

    def logs_of(self, attempt: int) -> Logs:
        """The files of another attempt."""
        return Logs(self._index, self._index.artifacts(self.id, run=self.row.run, attempt=attempt))

    def log(self, name: str) -> Log:
        """One file, by its name or the end of it (``test.log``); the last one where several end so. ``UnknownLog``."""
        logs = self.logs
        return logs[next((each for each in reversed(list(logs)) if each == name or each.endswith(f"/{name}")), name)]

    # -- shown and taken away ----------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the numbers, stages, attempts and outcome; no steps and no files."""
        outcome = self.outcome
        return {
            **self.row.model_dump(mode="json"),
            "attempts": [each.model_dump(mode="json") for each in self.attempts],
            "stages": [each.model_dump(mode="json") for each in self.stages],
            "outcome": None if outcome is None else outcome.model_dump(mode="json"),
        }

    def to_frame(self) -> pd.DataFrame:
        """A row for each step, of all attempts."""
        return frame_of(STEPS, map(_step_row, self.steps))

    @property
    def line(self) -> str:
        """One line: what it is, and what came of it."""
        why = f": {self.row.reason}" if self.row.reason else ""
        spent = f", {self.row.spent_s:.1f} s spent" if self.row.spent_s else ""
        return f"{self.id} {self.word}, attempt {self.attempt}, {self.row.steps} steps{spent}{why}"

    def __repr__(self) -> str:
        return f"<Rollout {one_line(self.line, 300)}>"


def _step_row(row: StepRow) -> dict[str, Any]:
    summary = row.step.summary if row.step is not None else None
    return {**row.__dict__, "kind": row.step_kind, "summary": summary}
