"""The course of one attempt: where it is, what it has spent, and what it has come to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from swe_sdk.agents.contract import AgentEnd
from swe_sdk.agents.gateway.settings import ModelUsage
from swe_sdk.grading.classify import Failure
from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Mask, Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import Decision, Stage
from swe_sdk.rollouts.bookmark import Bookmark, RolloutStage
from swe_sdk.rollouts.diary import Diary
from swe_sdk.rollouts.failures import END_KINDS, POLICY_STAGES, end_failure
from swe_sdk.rollouts.job import Job
from swe_sdk.rollouts.lent import Lent
from swe_sdk.rollouts.meter import Meter
from swe_sdk.rollouts.ports import ModelSession
from swe_sdk.rollouts.result import AttemptReport
from swe_sdk.store.events import BudgetCharged, RolloutParked, RolloutUnparked, StageEnded, StageStarted

Stopped = Literal["budget_spent", "timeout"]


class Course:
    """State of one attempt. ``start`` is where it goes on, None = from the beginning."""

    def __init__(self, job: Job, number: int, budget: Budget, start: Bookmark | None) -> None:
        self.job = job
        self.number = number
        self.start = start
        self.meter = Meter(budget, job.shared.clock)
        self.diary = Diary(job.shared.journal, job.rollout_id, number)
        self.at: RolloutStage = "seed"
        self.stage: Stage = "environment"
        """The same, as the policy table calls it; what fails now is its failure."""
        self.flags: list[str] = list(start.flags) if start else []
        self.stages_s: dict[str, float] = {}
        self.end: AgentEnd | None = start.end if start else None
        self.stopped: Stopped | None = start.stopped if start else None
        self.patch: Patch | None = start.patch if start else None
        self.outcome: Outcome | None = start.outcome if start else None
        self.agent_state: dict[str, Any] | None = start.agent_state if start else None
        self.base_commit: str | None = start.base_commit if start else None
        self.environment_key: str | None = start.environment_key if start else None
        self.lent: Lent | None = None
        self.model: ModelSession | None = None
        job.live.attempt, job.live.meter, job.live.provider = number, self.meter, job.shared.provider

    # -- stages ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def within(self, stage: RolloutStage) -> AsyncIterator[None]:
        """A stage: its time is charged, and the journal hears of it."""
        self.at, self.stage, self.job.live.stage = stage, POLICY_STAGES[stage], stage
        await self.diary.tell(StageStarted, stage=stage)
        spent_s, ok, message = self.meter.budget.spent_s, False, ""
        try:
            with self.meter.working():
                yield
            ok = True
        except Exception as error:
            message = f"{type(error).__name__}: {error}"[:500]
            raise
        finally:
            budget = self.meter.budget
            seconds = max(0.0, budget.spent_s - spent_s)
            self.stages_s[stage] = self.stages_s.get(stage, 0.0) + seconds
            self.diary.note(StageEnded, stage=stage, seconds=seconds, ok=ok, message=message)
            self.diary.note(BudgetCharged, budget=budget, queued_s=self.meter.idle_s)

    async def boundary(self, following: RolloutStage) -> None:
        """Between two stages, or where the agent says that it could be saved: stand still as long as somebody asks."""
        live = self.job.live
        live.bookmark = self.bookmark(following)
        if not live.park_requested:
            return
        self.diary.note(RolloutParked)
        with self.meter.parked():
            await live.stand(live.bookmark)
        self.diary.note(RolloutUnparked)

    def bookmark(self, following: RolloutStage) -> Bookmark:
        """Where it stands before the stage ``following``."""
        return Bookmark(
            rollout_id=self.job.rollout_id,
            attempt=self.number,
            next=following,
            budget=self.meter.budget,
            agent_state=self.agent_state,
            model_usage=self.model_usage,
            flags=tuple(self.flags),
            end=self.end,
            stopped=self.stopped,
            patch=self.patch,
            outcome=self.outcome,
            base_commit=self.base_commit,
            environment_key=self.environment_key,
        )

    @property
    def restart_reason(self) -> str:
        """Why it starts over, though a checkpoint holds it; of the first attempt that does."""
        planned = self.job.planned
        return planned.restart_reason if self.number == planned.attempt and self.start is None else ""

    @property
    def model_usage(self) -> ModelUsage | None:
        """What the agent has used of the model so far, with what it had used where it goes on."""
        if self.model is not None:
            return self.model.usage
        return self.start.model_usage if self.start else None

    # -- the agent's end ---------------------------------------------------------------------------------------------

    @property
    def end_failure(self) -> Failure | None:
        """The agent's end, where it was not an ordinary one."""
        if self.end is None:
            return None
        return end_failure(self.end, self.stopped or END_KINDS[self.end.reason])

    @property
    def end_decision(self) -> Decision | None:
        """What the policy makes of it."""
        failure = self.end_failure
        return None if failure is None else self.job.shared.policy.decide(failure.stage, failure.kind)

    # -- what is left of it ------------------------------------------------------------------------------------------

    def report(self, mask: Mask | None) -> AttemptReport:
        """For the result of the rollout."""
        return AttemptReport(
            attempt=self.number,
            end=self.end,
            mask=mask,
            budget=self.meter.budget,
            stages_s={stage: round(seconds, 4) for stage, seconds in self.stages_s.items()},
            queued_s=round(self.meter.idle_s, 4),
            flags=tuple(self.flags),
            commands=self.lent.commands if self.lent else 0,
            commands_s=round(self.lent.commands_s, 4) if self.lent else 0.0,
        )
