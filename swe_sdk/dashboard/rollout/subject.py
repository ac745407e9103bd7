"""The rollout that is looked at, and which of its attempts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from swe_sdk.dashboard.context import Context
from swe_sdk.model.outcome import Mask, Outcome
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.rows import ArtifactRow, AttemptRow, RolloutRow, RunRow
from swe_sdk.store.standing import attempts_end


@dataclass(frozen=True)
class Subject:
    """One rollout, looked at; what is asked of the store is kept for as long as a page is made."""

    context: Context
    row: RolloutRow

    @classmethod
    def of(cls, context: Context) -> Subject:
        """The one that the state names. Raises ``UnknownRun`` and ``UnknownRollout``."""
        return cls(context, context.index.rollout(context.state.rollout, run=context.run))

    @property
    def run(self) -> RunRow:
        """The run that it is of."""
        return self.context.run_of(self.row)

    @property
    def attempt(self) -> int:
        """The one that was chosen, else the one that counts; 0 where none has begun."""
        chosen = self.context.state.attempt
        known = {each.attempt for each in self.attempts}
        return chosen if chosen in known and chosen is not None else self.row.attempt

    @property
    def attempt_row(self) -> AttemptRow | None:
        """What is known of it."""
        return next((each for each in self.attempts if each.attempt == self.attempt), None)

    @cached_property
    def attempts(self) -> list[AttemptRow]:
        """All of them."""
        return self.context.index.attempts(self.row.rollout_id, run=self.row.run)

    @cached_property
    def ends(self) -> dict[int, float | None]:
        """When each of them was over; None where it goes on."""
        return attempts_end(self.run, self.row, self.attempts)

    @cached_property
    def outcome(self) -> Outcome | None:
        """Of the attempt."""
        if self.attempt < 1:
            return None
        return self.context.index.outcome(self.row.rollout_id, run=self.row.run, attempt=self.attempt)

    @cached_property
    def mask(self) -> Mask | None:
        """Why the attempt is no measurement, where it is none."""
        if self.outcome is not None and self.outcome.mask is not None:
            return self.outcome.mask
        chosen = RolloutFilter(run=(self.row.run,), instance_id=(self.row.instance_id,))
        found = self.context.index.masks(chosen, limit=1000).rows
        of_it = (each for each in found if each.rollout_id == self.row.rollout_id and each.attempt == self.attempt)
        mask = next(of_it, None)
        return None if mask is None else mask.mask

    @cached_property
    def artifacts(self) -> list[ArtifactRow]:
        """The files of the attempt."""
        if self.attempt < 1:
            return []
        return self.context.index.artifacts(self.row.rollout_id, run=self.row.run, attempt=self.attempt)

    def artifact(self, name: str) -> ArtifactRow | None:
        """One of them, by its name."""
        return next((each for each in self.artifacts if each.name == name), None)

    @property
    def test_log(self) -> ArtifactRow | None:
        """What the tests of the last verification printed."""
        logs = [each for each in self.artifacts if each.role == "log" and each.name.rpartition("/")[2] == "test.log"]
        return logs[-1] if logs else None

    @property
    def patch(self) -> ArtifactRow | None:
        """What the agent changed."""
        patches = [each for each in self.artifacts if each.role == "patch"]
        return min(patches, key=lambda each: each.name.count("/")) if patches else None
