"""The sessions of an agent server: seeded with a sandbox on loan, activated, closed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from swe_sdk.agents.contract import AgentTask
from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.hooks import AgentHooks, SeedBody
from swe_sdk.checkpoint.messages import EpisodeId, Mode
from swe_sdk.checkpoint.participants.activation import Activation
from swe_sdk.checkpoint.participants.agent import AgentParticipant, SeedReply
from swe_sdk.checkpoint.settings import CheckpointSettings
from swe_sdk.errors import InputError, SandboxLost, SweError
from swe_sdk.model.task import Task
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.server.admission import TooBusy
from swe_sdk.server.gym.activation import Workshop, activate
from swe_sdk.server.gym.borrowed import BorrowedBox, borrow
from swe_sdk.server.gym.contract import AgentCloseRequest, AgentSeedRequest, SandboxAccess
from swe_sdk.server.gym.prompts import prompt_in
from swe_sdk.server.gym.settings import AgentSettings
from swe_sdk.server.gym.unseen import unseen_task
from swe_sdk.server.models import ResponsesCreateParams

_SWEEPS_A_LIFE = 10
_LATER_S = 5
_ENDS_WITHIN_S = 20.0
_log = logging.getLogger(__name__)


@dataclass
class _Borrowed:
    box: BorrowedBox
    episode_id: EpisodeId
    used_at: float
    """On the clock of the event loop."""
    activations: int = 0
    """Under way."""


class BorrowedBoxes(AgentHooks):
    """The sandboxes of sessions. A restored session has none until it is seeded again."""

    rebinds_tool_accesses = True

    def __init__(self, mode: Mode, most: int) -> None:
        self._mode = mode
        self._most = most
        self.held: dict[str, _Borrowed] = {}

    def checkpoint_mode_in_effect(self) -> Mode:
        """``restart_only`` for an agent that can only start over."""
        return self._mode

    async def seed_agent_session(self, body: SeedBody) -> None:
        """Reach for the sandbox."""
        if len(self.held) >= self._most:
            raise TooBusy("sessions", _LATER_S)
        await self.rebind_restored_agent_session_state(body.session_id, body)

    async def rebind_restored_agent_session_state(self, key: str, body: SeedBody) -> None:
        """Take the new sandbox, and let go of the old one."""
        box = borrow(SandboxAccess.model_validate(body.sandbox))
        if await box.status() != "running":
            await box.close()
            raise SandboxLost(f"the sandbox that was lent to session {key} does not run, or cannot be reached")
        old, self.held[key] = self.held.get(key), _Borrowed(box, body.episode_id, anyio.current_time())
        if old is not None:
            await old.box.close()

    async def close_agent_session(self, key: str) -> None:
        """Let go of it."""
        held = self.held.pop(key, None)
        if held is not None:
            await held.box.close()

    async def retire_agent_session(self, key: str) -> None:
        """The same."""
        await self.close_agent_session(key)


class AgentService:
    """Of one event loop. ``tasks`` are for agents that play back the dataset's solutions: no other sees them."""

    def __init__(
        self,
        workshop: Workshop,
        settings: AgentSettings,
        *,
        tasks: TaskSet | None = None,
        checkpoints: CheckpointSettings | None = None,
        name: str = "agent",
    ) -> None:
        mode: Mode = "restart_only" if workshop.agent.tier == "restart" else "exported"
        self.workshop = workshop
        self.boxes = BorrowedBoxes(mode, settings.sessions)
        self.participant = AgentParticipant(name, hooks=self.boxes, settings=checkpoints)
        self._settings = settings
        self._tasks: Mapping[str, Task] = {task.instance_id: task for task in tasks or ()}
        self._slots = anyio.CapacityLimiter(settings.activations)

    async def seed(self, request: AgentSeedRequest) -> SeedReply:
        """Make a session, or get the one that there is; ``InputError``, ``CheckpointError``, ``SandboxLost``."""
        if request.sandbox_access is None:
            raise InputError("sandbox_access: this agent works in a sandbox that is lent to it")
        needless = [access.name for access in request.tool_accesses if access.required]
        if needless:
            problem = f"tool_accesses: {', '.join(needless)} are required, and this agent uses no tools of others"
            raise InputError(problem, remedy="give it the sandbox alone")
        body = SeedBody(
            session_id=request.agent_session_id,
            episode_id=request.episode_id,
            body={"task_id": request.task_id.model_dump()},
            sandbox=request.sandbox_access.model_dump(mode="json"),
        )
        return await self.participant.seed(body)

    def session_of(self, episode_id: EpisodeId) -> str:
        """The session of an attempt; ``checkpoint_error`` where it has none."""
        for key, held in self.boxes.held.items():
            if held.episode_id == episode_id:
                return key
        raise refuse("checkpoint_error", f"there is no session of {episode_id}", remedy="seed it first")

    async def invoke(
        self, session_id: str, index: int | None, asked: ResponsesCreateParams, episode_id: EpisodeId | None
    ) -> dict[str, Any]:
        """The response of an activation; that of an index which is completed is given again."""
        held = self.boxes.held.get(session_id)
        if held is None:
            raise refuse("checkpoint_error", f"there is no session {session_id}", remedy="seed it first")
        task = self._task(held.box.task, asked)

        async def work(activation: Activation) -> dict[str, Any]:
            async with activation.queued(self._slots):
                return await activate(self.workshop, task, held.box, held.episode_id, activation)

        held.activations += 1
        try:
            number = index if index is not None else self.participant.next_activation(session_id)
            told: dict[str, Any] = await self.participant.activate(session_id, number, work, episode_id=episode_id)
            return told
        finally:
            held.activations -= 1
            held.used_at = anyio.current_time()

    def _task(self, told: AgentTask, asked: ResponsesCreateParams) -> Task:
        prompt = prompt_in(asked)
        task = self._tasks.get(told.instance_id) or unseen_task(told)
        return task.model_copy(update={"problem_statement": prompt}) if prompt else task

    async def close(self, request: AgentCloseRequest) -> None:
        """End a session; ``checkpoint_conflict`` while it is at work, or where it is of another attempt."""
        held = self.boxes.held.get(request.agent_session_id)
        if held is not None and held.episode_id != request.episode_id:
            raise refuse("checkpoint_conflict", f"session {request.agent_session_id} is of {held.episode_id}")
        if held is not None:
            await self._until_idle(held)
        await self.participant.close_session(request.agent_session_id)

    async def _until_idle(self, held: _Borrowed) -> None:
        """Who has left an activation closes its session at once: give that a moment to end."""
        with anyio.move_on_after(_ENDS_WITHIN_S):
            while held.activations:
                await anyio.sleep(0.02)

    async def sweep(self) -> None:
        """Close what nobody uses any more, again and again, until cancelled."""
        idle_s = self._settings.session_idle_s
        while True:
            await anyio.sleep(min(60.0, idle_s / _SWEEPS_A_LIFE))
            now = anyio.current_time()
            for key, held in () if self.participant.is_closed else list(self.boxes.held.items()):
                if not held.activations and now - held.used_at > idle_s:
                    await self._close_left(key)

    async def until_none(self) -> None:
        """Wait until all have been closed."""
        await self.participant.changes.until(lambda: not self.boxes.held)

    async def aclose(self) -> None:
        """Close all of them."""
        for key in list(self.boxes.held):
            await self.boxes.close_agent_session(key)

    async def _close_left(self, key: str) -> None:
        try:
            await self.participant.close_session(key)
        except SweError as error:
            _log.warning("session %s could not be closed: %s", key, error)
