"""One worker of the cluster, as its driver sees it: an actor on a node, and calls to it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import anyio

from swe_sdk import __version__
from swe_sdk.executors.contract import Job, JobResult, NodeInfo
from swe_sdk.executors.ray.executor import RayExecutor
from swe_sdk.executors.ray.node import RayNode

_CALLS_AT_ONCE = 10_000
"""More than any node has slots: Ray must never keep a call waiting, since `cancel` would wait behind it."""
_SAID_CHARACTERS = 1000
_COLOR = re.compile(r"\x1b\[[0-9;]*m")


class WorkerLost(Exception):
    """The process of a worker is gone, or out of reach; the message says why, in Ray's words."""


class RayWorker:
    """Made by :func:`started_worker`. Calls raise ``WorkerLost``."""

    def __init__(self, ray: Any, actor: Any, served: Awaitable[Any], info: NodeInfo, *, drain_s: float) -> None:
        self.info = info
        self.finished = 0
        """How many jobs it has brought to an end."""
        self._ray, self._actor, self._served, self._drain_s = ray, actor, served, drain_s
        self._calls = count(1)

    async def run(self, job: Job) -> JobResult:
        """Run a job there. Cancelled, it returns when the job's cleanup is over, at the latest after ``drain_s``.

        A worker that says nothing for so long after the job's deadline is lost.
        """
        call = next(self._calls)
        reply = self._actor.run.remote(call, job.model_dump_json())
        patience_s = None if job.deadline_s is None else job.deadline_s + self._drain_s
        try:
            with anyio.fail_after(patience_s):
                text: str = await self._answer(reply)
        except TimeoutError:
            raise WorkerLost(f"it gave no answer within {patience_s} s") from None
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(self._drain_s, shield=True):
                await self._cancel(call, reply)
            raise
        self.finished += 1
        return JobResult.model_validate_json(text)

    async def _cancel(self, call: int, reply: Any) -> None:
        try:
            await self._answer(self._actor.cancel.remote(call))
            await self._answer(reply)
        except WorkerLost:
            pass  # its sandboxes are the reaper's then

    async def everywhere(self, job: Job) -> None:
        """Carry out a job apart from the others."""
        await self._answer(self._actor.everywhere.remote(job.model_dump_json()))

    async def listing(self, folder: str, below: Sequence[str]) -> dict[str, int]:
        """What it has written for a folder of ours."""
        found: dict[str, int] = await self._answer(self._actor.listing.remote(folder, list(below)))
        return found

    async def piece(self, folder: str, path: str, offset: int, length: int) -> bytes:
        """Some bytes of that."""
        data: bytes = await self._answer(self._actor.piece.remote(folder, path, offset, length))
        return data

    async def stop(self) -> None:
        """Drain it, then end its process; for good after ``drain_s`` seconds."""
        with anyio.move_on_after(self._drain_s):
            try:
                await self._answer(self._actor.drain.remote())
                await self._answer(self._served)
            except WorkerLost:
                pass  # that is what is wanted
        self.kill()

    def kill(self) -> None:
        """End its process now, with whatever it does."""
        self._ray.kill(self._actor)

    async def _answer(self, reply: Awaitable[Any]) -> Any:
        return await answered(self._ray, reply)


async def answered(ray: Any, reply: Awaitable[Any]) -> Any:
    """What a call gives. Raises ``WorkerLost`` where its process, its node or the cluster is gone.

    Nothing that a job does is an exception there, so whatever Ray raises means that no answer can be had.
    """
    try:
        return await reply
    except ray.exceptions.RayError as error:
        raise WorkerLost(f"{type(error).__name__}: {_said(str(error))}") from None


def _said(text: str) -> str:
    """What Ray says, without colors; where it quotes a traceback, its last line, which says what was wrong."""
    lines = [line.strip() for line in _COLOR.sub("", text).splitlines() if line.strip()]
    if any(line.startswith('File "') for line in lines):
        del lines[:-1]
    return " ".join(" ".join(lines).split())[:_SAID_CHARACTERS]


@asynccontextmanager
async def _killed_unless_started(ray: Any, actor: Any) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        ray.kill(actor)
        raise


async def started_worker(settings: RayExecutor, ray: Any, node_id: str, name: str, slots: int) -> RayWorker:
    """A new worker on a node, once it has reaped what is left there and is ready.

    Raises ``WorkerLost``, also where the node has another version of this package.
    """
    where = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id, soft=False)
    actor_class = ray.remote(RayNode).options(
        num_cpus=0,
        max_concurrency=_CALLS_AT_ONCE,
        max_restarts=0,
        max_task_retries=0,
        scheduling_strategy=where,
        runtime_env=settings.runtime_env,
    )
    actor = actor_class.remote(name, slots, settings.shared)
    async with _killed_unless_started(ray, actor):
        served = actor.serve.remote()
        info = _of_this_version(await answered(ray, actor.start.remote()))
    return RayWorker(ray, actor, served, info, drain_s=settings.drain_s)


def _of_this_version(told: str) -> NodeInfo:
    """What a worker says of itself; ``WorkerLost`` where it is of another version, which may say other things."""
    version = json.loads(told).get("sdk_version")
    if version != __version__:
        raise WorkerLost(f"it has version {version} of swe_sdk, and not {__version__}")
    return NodeInfo.model_validate_json(told)
