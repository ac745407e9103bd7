"""Several workers of one server in one process, over a real unix socket: for the coordinator they are processes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from swe_sdk.checkpoint import AgentParticipant, EpisodeParticipant, ResourcesParticipant
from swe_sdk.checkpoint.messages import (
    CommitRequest,
    EpisodeId,
    Kind,
    PrepareRequest,
    RestoreRequest,
    ResumeRequest,
    RetireRequest,
)
from swe_sdk.checkpoint.participant import Participant
from swe_sdk.checkpoint.participants.base import BaseParticipant
from swe_sdk.errors import CheckpointError
from swe_sdk.server.control.workers import Member, WorkersParticipant
from tests.checkpoint.house import KeepsNothing

Make = Callable[[Member], BaseParticipant[Any]]


class Worker:
    """One worker, until it is killed."""

    def __init__(self, member: Member, participant: Any) -> None:
        self.member = member
        self.participant = participant
        self.failure: CheckpointError | None = None
        self.over = anyio.Event()
        self.scope = anyio.CancelScope()

    async def run(self, ready: anyio.Event) -> None:
        try:
            with self.scope:
                async with self.participant, self.member.joined(self.participant):
                    ready.set()
                    await anyio.sleep_forever()
        except CheckpointError as error:
            self.failure = error
        finally:
            ready.set()
            self.over.set()

    async def kill(self) -> None:
        """It ends at once, and says nothing."""
        self.scope.cancel()
        await self.over.wait()


class CrewOf:
    """The coordinator and its workers."""

    def __init__(self, hub: WorkersParticipant, make: Make, tasks: TaskGroup) -> None:
        self.hub = hub
        self.workers: list[Worker] = []
        self._make = make
        self._tasks = tasks

    async def start(self, name: str = "") -> Worker:
        """One more worker, which has joined when this returns."""
        member = Member(self.hub.socket_path, name=name)
        worker, ready = Worker(member, self._make(member)), anyio.Event()
        self._tasks.start_soon(worker.run, ready)
        await ready.wait()
        self.workers.append(worker)
        return worker


@asynccontextmanager
async def crew_of(
    kind: Kind, make: Make, place: Path, *, workers: int = 2, prefix: str = "w", instance: str = "", **settings: Any
) -> AsyncIterator[CrewOf]:
    """A server of so many workers, named after ``prefix``."""
    hub = WorkersParticipant(kind, instance or kind, socket_path=place / "socket", expected=workers, **settings)
    async with hub, anyio.create_task_group() as tasks:
        crew = CrewOf(hub, make, tasks)
        for number in range(workers):
            await crew.start(f"{prefix}{number}")
        yield crew
        tasks.cancel_scope.cancel()


def in_time(seconds: float = 20.0) -> dict[str, float]:
    return {"deadline_ts": time.time() + seconds}


def episodes_of(report: Any) -> set[EpisodeId]:
    return set(report.episodes)


async def until(holds: Callable[[], Any], within_s: float = 10.0) -> None:
    """Wait for what other tasks bring about."""
    with anyio.fail_after(within_s):
        while not holds():
            await anyio.sleep(0.005)


def in_real_time(test: Callable[..., Any]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def main() -> None:
            with anyio.fail_after(60):
                await test(*args, **kwargs)

        anyio.run(main)

    return run


def agents(member: Member) -> AgentParticipant:
    return AgentParticipant()


def kept(member: Member) -> ResourcesParticipant:
    return ResourcesParticipant(hooks=KeepsNothing())


def episodes(member: Member) -> EpisodeParticipant:
    return EpisodeParticipant(claims=member)


async def prepare(one: Participant, name: str = "c1", seconds: float = 20.0) -> Any:
    return (await one.prepare(PrepareRequest(checkpoint_id=name, **in_time(seconds)))).report


async def commit(one: Participant, place: Path, name: str = "c1", scope: Any = None) -> Any:
    request = CommitRequest(checkpoint_id=name, checkpoint_dir=str(place / name), episode_ids=scope, **in_time())
    return await one.commit(request)


async def resume(one: Participant, name: str = "c1") -> Any:
    return await one.resume(ResumeRequest(checkpoint_id=name, **in_time()))


async def restore(one: Participant, place: Path, *scope: Any, name: str = "c1") -> Any:
    request = RestoreRequest(checkpoint_id=name, checkpoint_dir=str(place / name), episode_ids=scope, **in_time())
    return await one.restore(request)


async def retire(one: Participant, *scope: Any) -> Any:
    return await one.retire(RetireRequest(checkpoint_id="r", episode_ids=scope, **in_time()))


async def touch(worker: Worker, session: str, episode: Any, state: Any = None) -> None:
    async with worker.participant.request(session, episode):
        worker.participant.hooks.states[session] = state


def states_of(crew: CrewOf) -> dict[str, set[str]]:
    return {one.member.name: set(one.participant._sessions) for one in crew.workers if not one.over.is_set()}
