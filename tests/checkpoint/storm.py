"""Real participants of each kind at work, and what must hold of their work while calls come from everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any

import anyio

from swe_sdk.checkpoint import (
    Activation,
    AgentHooks,
    AgentParticipant,
    CallGate,
    EpisodeId,
    EpisodeParticipant,
    ModelParticipant,
    ResourcesHooks,
    ResourcesParticipant,
)
from swe_sdk.checkpoint.participants.base import BaseParticipant
from swe_sdk.errors import CheckpointError
from tests.checkpoint.house import ep, seed

TOTAL_S = 1e6


class Hooks(AgentHooks, ResourcesHooks):
    """Of agents and of resources servers: what they have to save is nothing but a mark."""

    def checkpoint_mode_in_effect(self) -> Any:
        return "exported"

    async def export_agent_sessions(self, keys: Iterable[str], *, checkpoint_id: str) -> dict[str, Any]:
        return dict.fromkeys(keys)

    async def export_session_states(self, ids: Iterable[str], *, checkpoint_id: str) -> dict[str, Any]:
        return dict.fromkeys(ids)


class Work:
    """Rollouts that go on for ever at one participant, each as its next attempt where one was retired."""

    def __init__(self, random: Random, **settings: Any) -> None:
        self.random = random
        self.participant = self.made(**settings)
        self.slots = anyio.Semaphore(2, max_value=2)
        self.attempts: dict[str, int] = {}
        self.uncut = 0
        """How many are in the middle of what no checkpoint may cut."""
        self.done = 0

    def made(self, **settings: Any) -> BaseParticipant[Any]:
        raise NotImplementedError

    async def attempt(self, episode_id: EpisodeId) -> None:
        """Works until it is retired, and then returns or raises."""
        raise NotImplementedError

    async def rollout(self, name: str) -> None:
        for number in count(1):
            self.attempts[name] = number
            try:
                await self.attempt(ep(name, number))
            except CheckpointError as error:
                if error.code != "stale_attempt":
                    raise

    @contextmanager
    def in_one_piece(self) -> Iterator[None]:
        self.uncut += 1
        try:
            yield
        finally:
            self.uncut -= 1
            self.done += 1

    def while_(self) -> float:
        return self.random.choice((0.1, 1, 4))


class Agents(Work):
    participant: AgentParticipant

    def made(self, **settings: Any) -> AgentParticipant:
        return AgentParticipant(hooks=Hooks(), **settings)

    async def attempt(self, episode_id: EpisodeId) -> None:
        session = f"{episode_id.rollout_id}-{episode_id.attempt}"
        await self.participant.seed(seed(session, episode_id))
        await self.participant.activate(session, 1, self._activation)

    async def _activation(self, activation: Activation) -> None:
        while True:
            await activation.boundary({"at": anyio.current_time()})
            async with activation.queued(self.slots):
                with self.in_one_piece():
                    await anyio.sleep(self.while_())


class Resources(Work):
    participant: ResourcesParticipant

    def made(self, **settings: Any) -> ResourcesParticipant:
        return ResourcesParticipant(hooks=Hooks(), **settings)

    async def attempt(self, episode_id: EpisodeId) -> None:
        while True:
            async with self.participant.request(episode_id.rollout_id, episode_id):
                with self.in_one_piece():
                    await anyio.sleep(self.while_())
            await anyio.sleep(self.while_())


class Episodes(Work):
    participant: EpisodeParticipant

    def made(self, **settings: Any) -> EpisodeParticipant:
        return EpisodeParticipant(**settings)

    async def attempt(self, episode_id: EpisodeId) -> None:
        await self.participant.until_open()
        began = anyio.current_time()
        async with self.participant.episode(episode_id, task="t", total_s=TOTAL_S) as episode:
            while True:
                with self.in_one_piece():
                    async with episode.step("wait"):
                        await anyio.sleep(self.while_())
                await episode.boundary({"at": anyio.current_time()})
                async with episode.step("replay"):
                    await anyio.sleep(self.while_())
                await episode.boundary({"at": anyio.current_time()})
                budget = episode.budget
                assert budget.spent_s + (budget.remaining_s or 0.0) == TOTAL_S
                assert abs(budget.spent_s + budget.parked_s - (anyio.current_time() - began)) < 0.05
        assert episode.ended_by == "retired"


class Models(Work):
    participant: ModelParticipant

    def made(self, **settings: Any) -> ModelParticipant:
        self.gate = CallGate()
        return ModelParticipant(gate=self.gate, rows=self.gate.rows, **settings)

    async def attempt(self, episode_id: EpisodeId) -> None:
        while not self.participant.marks.covers(episode_id):
            async with self.gate.call(episode_id, wait=True) as call:
                await anyio.sleep(self.while_())
                await call.deliver({"at": anyio.current_time()})
                with self.in_one_piece():
                    await anyio.sleep(self.while_())


KINDS: dict[str, type[Work]] = {"agent": Agents, "resources": Resources, "environment": Episodes, "model": Models}
