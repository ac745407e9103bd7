"""Runs of small rollouts that are saved, cut off and restored on simulated time, and what must hold of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import anyio
from anyio.abc import TaskGroup

from swe_sdk.checkpoint import (
    AgentHooks,
    CheckpointController,
    ControllerSettings,
    EpisodeId,
    GrantIssuer,
    Retention,
    SandboxCheckpointer,
    SeedBody,
    SeedReply,
    Turn,
    catalog,
    store,
)
from swe_sdk.checkpoint.messages import PrepareRequest, ReleaseRequest, ResumeRequest, RetireRequest
from swe_sdk.checkpoint.participants.activation import Activation
from swe_sdk.checkpoint.participants.base import BaseParticipant
from swe_sdk.checkpoint.participants.episode import Episode
from swe_sdk.checkpoint.records import ResourcesSessionRecord
from swe_sdk.checkpoint.turn import ResourcesSeed, SessionHandles
from swe_sdk.errors import CheckpointError, SandboxError
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.testing import FakeProvider, Fault
from tests.checkpoint.house import House, ep, house, within
from tests.checkpoint.virtual import clock

TOTAL_S = 10_000.0
LOG = "/tmp/log"


@dataclass
class Plan:
    """What happens to a run; all of it is plain data, so that a failing one can be shown."""

    seed: int = 0
    rollouts: int = 3
    steps: int = 4
    slots: int = 2
    keep_last: int = 2
    lives: tuple[tuple[float, ...], ...] = ()
    """For each process that is killed: how long it waits before each of its saves, and last before its end."""
    lost_coordinator: bool = False
    """Whether each process first sees a coordinator close everything and go away."""
    failing_snapshots: tuple[int, ...] = ()
    """Which snapshots of the run fail."""
    last_life: tuple[float, ...] = (3.0, 5.0, 0.0)
    """The waits of the process that is not killed."""
    tolerance_s: float = 0.05
    """How far two clocks of one budget may be apart."""
    pace: float = 1.0
    """What the durations of all steps are multiplied by."""


class Access(AgentHooks):
    """An agent that can be given a new sandbox and new grants."""

    rebinds_tool_accesses = True

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self.of: dict[str, SeedBody] = {}

    async def seed_agent_session(self, body: SeedBody) -> None:
        await anyio.sleep(self._universe.pause(0, 1))
        self.of[body.session_id] = body

    async def rebind_restored_agent_session_state(self, key: str, body: SeedBody) -> None:
        await anyio.sleep(self._universe.pause(0, 1))
        self.of[key] = body


@dataclass
class Universe:
    """What outlives a process: disks, the provider's snapshots, and results that were written down."""

    directory: Path
    plan: Plan
    provider: Any = None
    results: dict[str, Any] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    saves: int = 0
    failures: list[str] = field(default_factory=list)
    restored: int = 0
    cuts: dict[str, dict[str, float]] = field(default_factory=dict)
    """What each rollout had spent at each checkpoint, by a clock of our own."""
    late: list[str] = field(default_factory=list)
    """Ids of checkpoints that were resumed, for calls that come late."""

    def __post_init__(self) -> None:
        self.random = Random(self.plan.seed)
        faults = [Fault("snapshot", nth=number, error="reply_lost") for number in self.plan.failing_snapshots]
        self.provider = self.provider or FakeProvider(faults=faults)

    def pause(self, low: float, high: float) -> float:
        """A random duration."""
        return self.random.uniform(low, high) * self.plan.pace

    async def run(self) -> None:
        """All lives, and then one that ends by itself."""
        with patch.object(catalog, "discard_incomplete", lambda _path: None):  # the killed do not clean up
            for life in self.plan.lives:
                await Process(self).live(life)
            await Process(self).live(None)
        assert await self.provider.snapshots() == [], "snapshots are left at the end of a run"


class Process:
    """One life of a run."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.plan = universe.plan
        self.slots = anyio.Semaphore(self.plan.slots, max_value=self.plan.slots)
        self.hooks = Access(universe)
        self.issuer = GrantIssuer()
        self.boxes = SandboxCheckpointer(universe.provider, state_dir=universe.directory / "state", clock=clock)
        self.closed: list[list[float]] = []
        self.restored: dict[str, int] = {}
        self.spent_before: dict[str, float] = {}
        self.live_since: dict[str, tuple[float, float]] = {}
        """When each rollout began here, and what it had spent before."""
        self.house: House

    async def live(self, life: tuple[float, ...] | None) -> None:
        directory = self.universe.directory / "checkpoints"
        async with house(directory, agent=self.hooks, resources=self.boxes, grace_s=30.0) as self.house:
            self._watch_closing()
            self.controller = CheckpointController(
                self.house.coordinator,
                directory,
                retention=Retention(keep_last=self.plan.keep_last),
                settings=ControllerSettings(prepare_timeout_s=60.0),
                clock=clock,
            )
            restored = await self.controller.restore()
            self.restored = {one.rollout_id: one.attempt for one in restored}
            self.spent_before = self.universe.cuts.get(self.controller._restored or "none", {})
            self.universe.restored += len(restored)
            with anyio.CancelScope() as scope:
                await self._work(restored, life, scope)
            if life is None:
                assert self.boxes.sessions == (), "a sandbox was lost"
                assert self.slots.value == self.plan.slots, "a slot was lost"
                released = await self.controller.release(keep=())
                assert released.failures == {}, released
        await self.boxes.aclose()

    def _watch_closing(self) -> None:
        episodes = self.house.episodes
        on_close, on_open = episodes._on_close, episodes._on_open

        def close() -> None:
            spent = {name: self._expected_spent(name, clock()) for name in self.live_since}
            self.universe.cuts.setdefault(str(episodes.control.checkpoint_id), spent)  # a restore closes as well
            self.closed.append([clock(), float("inf")])
            on_close()

        def reopen() -> None:
            self.closed[-1][1] = clock()
            on_open()

        episodes._on_close, episodes._on_open = close, reopen  # type: ignore[method-assign]

    def _standing(self, start: float, end: float) -> float:
        """For how long of that time everything stood still."""
        return sum(max(0.0, min(end, b) - max(start, a)) for a, b in self.closed)

    async def _work(
        self, restored: tuple[EpisodeId, ...], life: tuple[float, ...] | None, scope: anyio.CancelScope
    ) -> None:
        done = tuple(one for one in restored if one.rollout_id in self.universe.results)
        if done:  # they ended after the checkpoint: their results are written down
            await self.house.coordinator.retire(RetireRequest(checkpoint_id="done", episode_ids=done, **within(100)))
        async with anyio.create_task_group() as rollouts, anyio.create_task_group() as others:
            others.start_soon(self._watch_leases)
            for number in range(self.plan.rollouts):
                name = f"r{number}"
                if name not in self.universe.results:
                    attempt = self.universe.attempts[name] = self.universe.attempts.get(name, 0) + 1
                    rollouts.start_soon(self._rollout, ep(name, attempt))
            if life is not None:
                await self._saves(life)
                self.house.coordinator.participants = {}  # nobody cleans up after a kill
                scope.cancel()
            else:
                await self._saves(self.plan.last_life)
                await self._all_done(others)

    async def _all_done(self, others: TaskGroup) -> None:
        while len(self.universe.results) < self.plan.rollouts:
            await anyio.sleep(1)
        others.cancel_scope.cancel()

    async def _saves(self, life: tuple[float, ...]) -> None:
        if self.plan.lost_coordinator:
            request = PrepareRequest(checkpoint_id=f"lost-{clock()}", **within(20))
            await self.house.coordinator.prepare(request)
            await anyio.sleep(60)
        *waits, end = life
        for wait in waits:
            await anyio.sleep(wait)
            if len(self.universe.results) == self.plan.rollouts:
                break
            try:
                saved = await self.controller.save()
            except (CheckpointError, SandboxError) as error:
                self.universe.failures.append(str(error))
                continue
            self.universe.saves += 1
            await self._late_calls()
            self.universe.late.append(saved.checkpoint_id)
            await self._all_kept_can_be_restored()
        await anyio.sleep(end)

    async def _late_calls(self) -> None:
        """What was on the way for a long time comes now, and does no harm."""
        for name in self.universe.late[-3:]:
            release = ReleaseRequest(checkpoint_id=name, kept=(name,), **within(5))
            assert len((await self.house.coordinator.release(release)).failures) == 4
            await self.house.coordinator.resume(ResumeRequest(checkpoint_id=name, **within(5)))

    async def _all_kept_can_be_restored(self) -> None:
        there = {snapshot.id for snapshot in await self.universe.provider.snapshots()}
        complete = [one for one in await self.controller.checkpoints() if one.status == "complete"]
        assert 1 <= len(complete) <= self.plan.keep_last + 1
        for one in complete:
            read = catalog.read(Path(one.path))
            place = store.folder(Path(one.path), "resources", "resources")
            records = store.read_records(
                place, ResourcesSessionRecord, checkpoint_id=one.checkpoint_id, scope=read.episodes
            )
            needed = {record.state["snapshot_id"] for record in records if record.state}
            assert needed <= there, f"{one.checkpoint_id} needs {needed - there}"

    async def _watch_leases(self) -> None:
        house = self.house
        participants: list[BaseParticipant[Any]] = [house.episodes, house.model, house.agent, house.resources]
        while True:
            await anyio.sleep(0.5)
            for one in participants:
                lease = one.control.lease_expires_at
                assert lease is None or clock() <= lease + 1.5, f"{one.kind} is closed past its lease"

    # -- one rollout ------------------------------------------------------------------------------------------------

    async def _rollout(self, episode_id: EpisodeId) -> None:
        await self.house.episodes.until_open()
        async with self.house.episodes.episode(episode_id, task=episode_id.rollout_id, total_s=TOTAL_S) as episode:
            name, started = episode_id.rollout_id, clock()
            before = self.spent_before.get(name, 0.0) if name in self.restored else 0.0
            assert abs(episode.budget.spent_s - before) < self.plan.tolerance_s, "the budget was not that of the cut"
            self.live_since[name] = (started, before)
            result = await Turn(episode, RunStages(self)).run()
            self._require_budget(episode, self._expected_spent(name, clock()))
        self.universe.results[name] = result
        del self.live_since[name]

    def _expected_spent(self, name: str, now: float) -> float:
        started, before = self.live_since[name]
        return before + now - started - self._standing(started, now)

    def _require_budget(self, episode: Episode, expected: float) -> None:
        budget = episode.budget
        assert budget.spent_s + (budget.remaining_s or 0.0) == TOTAL_S
        assert abs(budget.spent_s - expected) < self.plan.tolerance_s, (budget, expected)


class RunStages:
    """The stages of a rollout in one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._house = process.house

    async def seed_resources(self, session_id: str, episode_id: EpisodeId) -> ResourcesSeed:
        process = self._process
        async with self._house.resources.request(session_id, episode_id):
            if session_id not in process.boxes.sessions:
                await anyio.sleep(process.universe.pause(0, 1))
                box = await process.universe.provider.create(SandboxSpec())
                process.boxes.add(session_id, box)
                await box.write(LOG, b"[]")
        grant = process.issuer.issue(session_id, episode_id)
        return ResourcesSeed(sandbox={"session": session_id}, tool_grants=(grant,))

    async def seed_agent(self, body: SeedBody) -> SeedReply:
        return await self._house.agent.seed(body)

    async def invoke_agent(self, handles: SessionHandles, episode_id: EpisodeId) -> Any:
        async def work(activation: Activation) -> Any:
            return await self._work(activation, episode_id)

        return await self._house.agent.activate(handles.agent_session_id, 1, work, episode_id=episode_id)

    async def _work(self, activation: Activation, episode_id: EpisodeId) -> Any:
        process = self._process
        access, pause = process.hooks.of[activation.session_id], process.universe.pause
        assert access.sandbox is not None
        box = process.boxes.get(access.sandbox["session"])
        first = (activation.take_continuation() or {"step": 1})["step"]
        for step in range(first, process.plan.steps + 1):
            await activation.boundary({"step": step})
            async with activation.queued(process.slots):
                async with activation.awaiting_model():
                    async with self._house.gate.call(episode_id, wait=True) as call:
                        await anyio.sleep(pause(0, 3))
                        await call.deliver({"step": step})
                assert process.issuer.check(access.tool_grants[0]).episode_id == episode_id
                await anyio.sleep(pause(0, 2))
                await box.write(LOG, json.dumps([*json.loads(await box.read(LOG)), step]).encode())
                await anyio.sleep(pause(0, 2))
        return {"steps": process.plan.steps}

    async def close_agent(self, handles: SessionHandles, episode_id: EpisodeId) -> None:
        await self._house.agent.close_session(handles.agent_session_id)

    async def verify(self, handles: SessionHandles, response: Any, episode_id: EpisodeId) -> Any:
        session = handles.resources_session_id
        async with self._house.resources.request(session, episode_id):
            log = json.loads(await self._process.boxes.get(session).read(LOG))
        captured = self._house.gate.rows.captured().items()  # under the attempt that made the last call
        rows = [row["step"] for one, rows in captured if one.rollout_id == episode_id.rollout_id for row in rows]
        await self._house.resources.close_session(session)
        return {"response": response, "log": log, "rows": rows}
