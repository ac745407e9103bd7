"""Whole episodes: admitted, taken through their stages, and their sessions closed whatever happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.participants.episode import Episode
from swe_sdk.checkpoint.participants.episodes import EpisodeParticipant
from swe_sdk.checkpoint.turn import Turn
from swe_sdk.errors import CheckpointError, SweError
from swe_sdk.grading.classify import Failure
from swe_sdk.model.policy import Policy
from swe_sdk.rollouts.failures import failure_of
from swe_sdk.server.admission import TooBusy
from swe_sdk.server.gym.contract import EpisodeRequest
from swe_sdk.server.gym.peers import Peer, PeerFailed
from swe_sdk.server.gym.settings import EpisodeSettings
from swe_sdk.server.gym.stages import AgentSide, EpisodeStages

_LATER_S = 5


class Ran(NamedTuple):
    """What came of an episode."""

    verification: dict[str, Any]
    queued_s: float
    """Seconds until it was its turn."""
    stages_s: dict[str, float]
    stages_at: dict[str, float]


class Episodes:
    """Drives episodes; of one event loop."""

    def __init__(
        self,
        resources: Peer,
        agent: AgentSide,
        participant: EpisodeParticipant,
        settings: EpisodeSettings,
        policy: Policy,
    ) -> None:
        self.participant = participant
        self._resources = resources
        self._agent = agent
        self._settings = settings
        self._policy = policy
        most = settings.max_concurrent_episodes
        self._slots = None if most is None else anyio.CapacityLimiter(most)

    async def run(self, request: EpisodeRequest) -> Ran:
        """One episode to its verdict. Raises ``CheckpointError`` (``admission_closed``, ``stale_attempt``,
        ``checkpoint_conflict`` for an attempt that is under way) and ``TooBusy``; all else is a verdict."""
        began = anyio.current_time()
        async with self._turn_to_run():
            queued_s = anyio.current_time() - began
            stages = EpisodeStages(request, self._resources, self._agent, self._policy)
            verification = await self._verification(request, stages)
            return Ran(verification, queued_s, stages.stages_s, stages.stages_at)

    @asynccontextmanager
    async def _turn_to_run(self) -> AsyncIterator[None]:
        if self._slots is None:
            yield
            return
        with anyio.move_on_after(self._settings.queue_timeout_seconds) as waiting:
            await self._slots.acquire()
        if waiting.cancelled_caught:
            raise TooBusy("episodes at once", _LATER_S)
        try:
            yield
        finally:
            self._slots.release()

    async def _verification(self, request: EpisodeRequest, stages: EpisodeStages) -> dict[str, Any]:
        task = request.task.model_dump(mode="json")
        found: list[dict[str, Any]] = []
        total_s = self._settings.default_episode_timeout_seconds
        try:
            async with self.participant.episode(request.episode_id, task=task, total_s=total_s) as episode:
                found.append(await self._turn(episode, stages))
        finally:
            with anyio.move_on_after(self._settings.cleanup_timeout_seconds, shield=True):
                await stages.close()
        if episode.ended_by == "retired":
            raise refuse("stale_attempt", f"{request.episode_id} was retired")
        if not found:  # its scope was cancelled: its time is over
            return stages.failed(Failure("timeout", "verify", f"the episode did not end within {total_s} s"))
        return found[0]

    async def _turn(self, episode: Episode, stages: EpisodeStages) -> dict[str, Any]:
        turn = Turn(episode, stages)
        stages.know(turn.bookmark.handles)
        try:
            found: dict[str, Any] = await turn.run()
            return found
        except CheckpointError:
            raise
        except PeerFailed as error:
            return stages.failed(error.failure("seed"))
        except SweError as error:
            return stages.failed(failure_of(error, "seed"))
