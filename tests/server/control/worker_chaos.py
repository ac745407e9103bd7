"""Runs over two servers of several workers each, while workers come, go and are lost at random; all in one process.

A run is a sequence of lives. In each, rollouts do their steps, saves are made, workers join at any moment, also while
admission is closed. A life ends with the loss of a worker, or of everything: what was not saved is gone, and the next
life goes on from the newest complete checkpoint. The log of every rollout must hold each of its steps once.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import anyio
from anyio.abc import TaskGroup

from swe_sdk.checkpoint import (
    CheckpointController,
    ControllerSettings,
    Coordinator,
    EpisodeId,
    EpisodeParticipant,
    ResourcesParticipant,
)
from swe_sdk.checkpoint.messages import RetireRequest
from swe_sdk.errors import CheckpointError
from swe_sdk.server.control.workers import Member
from swe_sdk.server.control.workers.to_owner import HEARSAY_S
from tests.checkpoint.house import KeepsNothing
from tests.server.control.crews import CrewOf, Worker, crew_of, in_time, until

STEP_S = 0.01
SETTINGS = ControllerSettings(
    prepare_timeout_s=1.0, commit_timeout_s=5, restore_timeout_s=10, resume_timeout_s=5, release_timeout_s=5
)


def _episodes(member: Member) -> EpisodeParticipant:
    return EpisodeParticipant("episodes", claims=member)


def _logs(member: Member) -> ResourcesParticipant:
    return ResourcesParticipant("logs", hooks=KeepsNothing())


class ChaosRun:
    """All lives of one run, by its seed."""

    def __init__(self, seed: int, place: Path) -> None:
        self.random = Random(seed)
        self.place = place
        self.names = [f"r{number}" for number in range(self.random.randint(2, 6))]
        self.steps = self.random.randint(20, 60)
        self.attempts = dict.fromkeys(self.names, 0)
        self.results: dict[str, list[int]] = {}
        self.unexpected: list[str] = []
        """What rollouts were refused while no worker was lost."""
        self.saves = self.failed_saves = self.restored = self.lost = self.joined = 0

    async def run(self) -> None:
        """Until all rollouts have their results."""
        lives = self.random.randint(1, 3)
        for life in range(lives):
            await Life(self, life).live(dies=True)
        await Life(self, lives).live(dies=False)

    @property
    def left(self) -> list[str]:
        return [name for name in self.names if name not in self.results]


class Life:
    """Both servers, until one of their workers is lost."""

    def __init__(self, run: ChaosRun, number: int) -> None:
        self.run = run
        self.number = number
        self.is_over = False

    async def live(self, *, dies: bool) -> None:
        for kind in ("e", "l"):
            shutil.rmtree(self.run.place / kind, ignore_errors=True)
            (self.run.place / kind).mkdir()
        count, prefix = self.run.random.randint, f"life{self.number}-"
        environment = crew_of(
            "environment", _episodes, self.run.place / "e", workers=count(1, 4), prefix=prefix, instance="episodes"
        )
        logs = crew_of("resources", _logs, self.run.place / "l", workers=count(1, 4), prefix=prefix, instance="logs")
        async with environment as self.environment, logs as self.logs:
            participants = {"episodes": self.environment.hub, "logs": self.logs.hub}
            self.controller = CheckpointController(
                Coordinator(participants), self.run.place / "checkpoints", settings=SETTINGS
            )
            async with anyio.create_task_group() as tasks:
                await self._begin(tasks)
                await (self._die(tasks) if dies else self._end(tasks))
                self.is_over = True
                tasks.cancel_scope.cancel()

    async def _begin(self, tasks: TaskGroup) -> None:
        held = await self.controller.restore()
        over = tuple(one for one in held if one.rollout_id in self.run.results)
        if over:
            await self.controller.coordinator.retire(RetireRequest(checkpoint_id="over", episode_ids=over, **in_time()))
        self.run.restored += len(held) - len(over)
        for name in self.run.left:
            self.run.attempts[name] += 1
            tasks.start_soon(self._rollout, EpisodeId(rollout_id=name, attempt=self.run.attempts[name]))
        tasks.start_soon(self._joins)
        tasks.start_soon(self._saves)

    async def _die(self, tasks: TaskGroup) -> None:
        """At a random moment; half of the time while a checkpoint is open, and then with a save that must not count."""
        random = self.run.random
        await anyio.sleep(random.uniform(0.2, 0.7))
        crew = random.choice([self.environment, self.logs])
        if random.random() < 0.5:
            with anyio.move_on_after(1.0):
                await until(lambda: crew.hub.is_closed)
        await anyio.sleep(random.uniform(0, 0.01))
        self.is_over = True
        await self._anybody(crew).kill()
        self.run.lost += 1
        await anyio.sleep(random.uniform(0, 0.3))  # what is saved from now on must hold, or not be complete

    async def _end(self, tasks: TaskGroup) -> None:
        with anyio.fail_after(60):
            while self.run.left:
                await anyio.sleep(0.01)

    async def _joins(self) -> None:
        random = self.run.random
        while True:
            await anyio.sleep(random.uniform(0.02, 0.3))
            crew = random.choice([self.environment, self.logs])
            if len(crew.workers) < 8:
                await crew.start()
                self.run.joined += 1

    async def _saves(self) -> None:
        while True:
            await anyio.sleep(self.run.random.uniform(0, 0.1))
            try:
                await self.controller.save()
                self.run.saves += 1
            except CheckpointError:
                self.run.failed_saves += 1

    # -- one rollout ------------------------------------------------------------------------------------------------

    async def _rollout(self, episode_id: EpisodeId) -> None:
        """At any worker of the environment; its log is at the worker that has it. Ends quietly where one is lost."""
        while True:
            try:
                await self._at(self._anybody(self.environment), episode_id)
                return
            except CheckpointError as error:
                if error.code != "admission_closed":
                    self.run.unexpected += [] if self.is_over else [str(error)]
                    return
            await anyio.sleep(0.005)

    async def _at(self, worker: Worker, episode_id: EpisodeId) -> None:
        name = episode_id.rollout_id
        async with worker.participant.episode(episode_id, task=name, total_s=1000.0) as episode:
            mark = episode.take_continuation() or {"done": 0, "owner": None, "session": f"log of {episode_id}"}
            mark["owner"] = mark["owner"] or self._anybody(self.logs).member.name
            while mark["done"] < self.run.steps:
                async with episode.step("wait"):
                    await self._append(mark, episode_id, [mark["done"] + 1])
                mark["done"] += 1
                await episode.boundary(mark)
                await anyio.sleep(self.run.random.uniform(0, STEP_S))
            async with episode.step("replay"):
                log = await self._append(mark, episode_id, [])
            if worker.over.is_set() or self.is_over:
                return
            assert name not in self.run.results
            self.run.results[name] = log

    def _anybody(self, crew: CrewOf) -> Worker:
        live = [one for one in crew.workers if not one.over.is_set()]
        if not live:
            raise CheckpointError("checkpoint_error", "all workers are gone")
        return self.run.random.choice(live)

    async def _append(self, mark: dict[str, Any], episode_id: EpisodeId, lines: list[int]) -> list[int]:
        """A request to the session's owner, as the alias table of any worker has it."""
        owner, asked = None, self._anybody(self.logs).member
        with anyio.move_on_after(HEARSAY_S):
            while (owner := asked.owner_of(mark["owner"])) is None:
                await anyio.sleep(0.005)
        live = {one.member.name: one for one in self.logs.workers if not one.over.is_set()}
        if owner not in live:
            raise CheckpointError("checkpoint_error", f"{mark['owner']} is gone")
        participant = live[owner].participant
        async with participant.request(mark["session"], episode_id):
            log: list[int] = participant.hooks.states.setdefault(mark["session"], [])
            log += lines
            await anyio.sleep(self.run.random.uniform(0, STEP_S))
            return list(log)


async def run(seed: int, place: Path) -> ChaosRun:
    """A whole run, within a minute and a half."""
    found = ChaosRun(seed, place)
    with anyio.fail_after(90):
        await found.run()
    assert found.unexpected == [], (seed, found.unexpected)
    once = list(range(1, found.steps + 1))
    assert found.results == dict.fromkeys(found.names, once), (seed, found.results)
    return found
