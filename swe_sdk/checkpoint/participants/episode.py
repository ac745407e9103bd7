"""One attempt of a rollout: its steps, its bookmark and its deadline."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, Protocol

import anyio

from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.checkpoint.records import EpisodeRecord
from swe_sdk.checkpoint.step_clock import StepClock
from swe_sdk.checkpoint.waiting import Changes
from swe_sdk.model.budget import Budget

StepKind = Literal["replay", "wait"]
"""``replay``: may be made again (seeds, a pure verification, an activation that parks by itself), so a checkpoint does
not wait for it. ``wait``: must not be made twice, so it does."""
State = Literal["running", "wait_step", "replay_step", "parked"]
Ending = Literal["budget", "retired"]


class Host(Protocol):
    """What an episode asks of its participant."""

    changes: Changes

    @property
    def is_closed(self) -> bool:
        """Whether a checkpoint is open."""

    async def until_open(self) -> None:
        """Wait until none is."""


class Episode:
    """An episode between its begin and its end; made by :meth:`.episodes.EpisodeParticipant.episode`."""

    def __init__(self, episode_id: EpisodeId, task_digest: str, budget: Budget, host: Host, saved: Any = None) -> None:
        self.id = episode_id
        self.task_digest = task_digest
        self.state: State = "running"
        self.is_restart = False
        """Whether it can only start over, so that no checkpoint holds it."""
        self.ended_by: Ending | None = None
        """Why it was stopped, where it was."""
        self.scope = anyio.CancelScope()
        self._host = host
        self._clock = StepClock(budget, anyio.current_time())
        self._bookmark = saved
        self._undelivered = saved

    def take_continuation(self) -> Any:
        """The bookmark at which a restored episode goes on; None for a fresh one, and the second time."""
        continuation, self._undelivered = self._undelivered, None
        return copy.deepcopy(continuation)

    @property
    def budget(self) -> Budget:
        """Total, spent and parked as of now, over all attempts."""
        return self._clock.budget(anyio.current_time())

    @property
    def is_blocking(self) -> bool:
        """Whether a checkpoint must wait for it."""
        return self.state in ("running", "wait_step") and not self.is_restart

    @asynccontextmanager
    async def step(self, kind: StepKind) -> AsyncIterator[None]:
        """One step. A replay step that succeeds while a checkpoint is open ends only after it: what is saved is the
        boundary before it, and nothing that comes after it."""
        if self.state != "running":
            raise RuntimeError(f"episode {self.id} is in {self.state}: steps do not nest")
        self._enter("replay_step" if kind == "replay" else "wait_step")
        try:
            yield
            if kind == "replay" and not self.is_restart:
                await self._host.until_open()
        finally:
            self._enter("running")

    async def boundary(self, bookmark: Any) -> None:
        """Record plain data from which the episode can go on; while a checkpoint is open, park here."""
        self._bookmark = copy.deepcopy(bookmark)
        if self.is_restart or not self._host.is_closed:
            await anyio.lowlevel.checkpoint()
            return
        self._enter("parked")
        try:
            await self._host.until_open()
        finally:
            self._enter("running")

    async def mark_restart(self) -> None:
        """From now on no checkpoint holds it; waits for the end of one that is open, which may have counted on it."""
        before = self.state
        if before == "running" and self._host.is_closed:
            self._enter("parked")
        try:
            await self._host.until_open()
        finally:
            self._enter(before)
        self.is_restart = True
        self._host.changes.notify()

    def stop(self, why: Ending) -> None:
        """Cancel it, once."""
        if self.ended_by is None:
            self.ended_by = why
            self.scope.cancel()

    def record(self) -> EpisodeRecord:
        """What a checkpoint holds of it now."""
        return EpisodeRecord(
            episode_id=self.id,
            task_digest=self.task_digest,
            boundary=copy.deepcopy(self._bookmark),
            budget_spent_s=self.budget.spent_s,
        )

    def keep_time(self) -> None:
        """Let its time stand or run, as its state and the host's admission say; and move its deadline accordingly."""
        now = anyio.current_time()
        stands = self._host.is_closed and not self.is_restart and self.state in ("parked", "replay_step")
        (self._clock.suspend if stands else self._clock.go_on)(now)
        self.scope.deadline = self._clock.ends_at(now)

    def _enter(self, state: State) -> None:
        self.state = state
        self.keep_time()
        self._host.changes.notify()
