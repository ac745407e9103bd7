"""What the engine lends to an agent: an implementation of :class:`swe_sdk.agents.contract.Episode`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from swe_sdk.agents.contract import AgentTask, ModelAccess, Step
from swe_sdk.errors import CapabilityMissing
from swe_sdk.rollouts.diary import Diary
from swe_sdk.rollouts.lent import Lent
from swe_sdk.rollouts.live import LiveRollout
from swe_sdk.rollouts.meter import Deadline
from swe_sdk.rollouts.ports import ModelSession
from swe_sdk.rollouts.transcript import BoundedTranscript, Transcripts
from swe_sdk.store.events import StepTaken

OnBoundary = Callable[[dict[str, Any] | None], Awaitable[None]]


class LiveEpisode:
    """One attempt of an agent, from the moment when it may begin until it is stopped."""

    def __init__(
        self,
        task: AgentTask,
        box: Lent,
        session: ModelSession | None,
        *,
        live: LiveRollout,
        diary: Diary,
        transcripts: Transcripts,
        deadline: Deadline,
        command_timeout_s: float,
        max_steps: int,
        saved: dict[str, Any] | None,
        on_boundary: OnBoundary,
    ) -> None:
        self.task = task
        self.box = box
        self.model: ModelAccess | None = session.access if session else None
        self.command_timeout_s = command_timeout_s
        self.saved = saved
        self.steps = 0
        self.dropped_steps = 0
        """Beyond what one attempt may record."""
        self._session = session
        self._live = live
        self._diary = diary
        self._transcripts = transcripts
        self._deadline = deadline
        self._max_steps = max_steps
        self._on_boundary = on_boundary

    @property
    def rollout_id(self) -> str:
        """``<instance id>.<sample>``."""
        return self._diary.rollout_id

    @property
    def attempt(self) -> int:
        """From 1."""
        return self._diary.attempt

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the engine stops the agent."""
        return self._deadline.remaining_s

    def record(self, step: Step) -> None:
        """Keep a step, unless there are too many; on disk when this returns. Raises ``NoSpace``."""
        if self.steps >= self._max_steps:
            self.dropped_steps += 1
            return
        self.steps += 1
        fields = step.model_dump(exclude={"kind"})
        self._diary.tell_now(StepTaken, step_kind=step.kind, **fields)

    def transcript(self, name: str) -> BoundedTranscript:
        """The transcript of that name."""
        return self._transcripts.get(name)

    @property
    def park_requested(self) -> bool:
        """Whether the agent is asked to come to a boundary."""
        return self._live.park_requested

    async def wait_park_requested(self) -> None:
        """Until it is asked."""
        await self._live.wait_park_requested()

    def awaiting_model(self) -> AbstractAsyncContextManager[None]:
        """Hold its model calls; the block begins once one of them waits."""
        if self._session is None:
            raise CapabilityMissing("an episode without a model cannot wait for it", remedy="ask for model egress")
        return self._session.held_at_call()

    async def boundary(self, state: dict[str, Any] | None = None) -> None:
        """Here it could be saved; returns when it may go on."""
        await self._on_boundary(state)
