"""The agent's sandbox: made, handed over, and gone when the block ends, however it ends."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import anyio

from swe_sdk.errors import SnapshotNotFound
from swe_sdk.model.ids import safe_name
from swe_sdk.rollouts.bookmark import Bookmark
from swe_sdk.rollouts.job import Job
from swe_sdk.rollouts.meter import OutOfTime
from swe_sdk.sandbox.contract import Box, SandboxSpec
from swe_sdk.sandbox.lent_environment import LentEnvironment, open_lent_box

T = TypeVar("T")


@dataclass(frozen=True)
class Workplace:
    """A box, and what is known of its repository."""

    box: Box
    lent: LentEnvironment


@asynccontextmanager
async def workplace(
    job: Job, lent: LentEnvironment, start: Bookmark | None, flags: list[str]
) -> AsyncIterator[Workplace]:
    """A new box of the environment or, where a rollout goes on, of the snapshot of its own.

    A teardown that fails or takes too long adds the flag ``teardown_failed``; the provider keeps a record of what is
    left. Raises what making a box raises.
    """
    async with job.shared.admission.create(job.rollout_id):
        box = await _create(job, lent, start)
    try:
        if start is None or start.snapshot is None:
            lent = await open_lent_box(job.shared.environments.lending, box, job.task.environment, lent)
        elif start.base_commit is not None:
            pinned = lent.prepared.model_copy(update={"base_commit": start.base_commit})
            lent = lent.model_copy(update={"prepared": pinned})
        job.live.box = box
        yield Workplace(box, lent)
    finally:
        job.live.box = None
        await close_box(box, job.settings.teardown_timeout_s, flags)


async def _create(job: Job, lent: LentEnvironment, start: Bookmark | None) -> Box:
    try:
        return await job.shared.provider.create(box_spec(job, lent, start))
    except SnapshotNotFound:
        if start is None or start.snapshot is None:
            job.shared.environments.forget(job.task.environment)  # somebody deleted it; the next attempt makes it anew
        raise


def box_spec(job: Job, lent: LentEnvironment, start: Bookmark | None) -> SandboxSpec:
    """What the agent's box is made from."""
    needs, spec = job.shared.agent.needs, lent.prepared.spec()
    return spec.model_copy(
        update={
            "snapshot": start.snapshot if start is not None and start.snapshot else spec.snapshot,
            "env": {**spec.env, **needs.env},
            "mounts": (*spec.mounts, *needs.mounts),
            "limits": job.settings.limits,
            "labels": {"task": safe_name(job.task.instance_id), "rollout": safe_name(job.rollout_id)},
        }
    )


async def close_box(box: Box, cap_s: float, flags: list[str]) -> None:
    """Close it, whatever is cancelled around us, within ``cap_s`` seconds."""
    failed = False
    with anyio.move_on_after(cap_s, shield=True) as scope:
        try:
            await box.close()
        except Exception:  # noqa: BLE001  # whatever it is, the result stands, and the reader is told
            failed = True
    if (failed or scope.cancelled_caught) and "teardown_failed" not in flags:
        flags.append("teardown_failed")


@asynccontextmanager
async def opened_within(
    opening: AbstractAsyncContextManager[T], seconds: float, late: OutOfTime, *, closing_s: float
) -> AsyncIterator[T]:
    """Enter a context manager within so many seconds, or raise ``late``; its block has all the time it wants.

    Leaving it is given up after ``closing_s`` seconds: what the block has come to stands.
    """
    is_open, error = False, None
    with anyio.CancelScope(deadline=anyio.current_time() + seconds) as scope:
        async with opening as value:
            is_open, scope.deadline = True, math.inf
            try:
                yield value
            except BaseException as caught:
                error = caught
                raise
            finally:
                scope.deadline = anyio.current_time() + closing_s
    if scope.cancelled_caught and error is not None:
        raise error
    if scope.cancelled_caught and not is_open:
        raise late
