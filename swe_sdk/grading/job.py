"""The whole input of one grade, once its environment is ready."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from swe_sdk.grading.settings import GradeSettings
from swe_sdk.grading.trace import Trace
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import Policy
from swe_sdk.model.task import Task
from swe_sdk.recipes.contract import Recipe
from swe_sdk.sandbox.contract import Box, Limits, SandboxProvider
from swe_sdk.sandbox.prepared import PreparedEnvironment

TEARDOWN_CAP_S = 30.0
"""How long a sandbox may take to go; teardown cannot be cancelled before."""


@dataclass(frozen=True)
class Job:
    """What is graded, how and where."""

    task: Task
    patch: Patch
    recipe: Recipe
    policy: Policy
    settings: GradeSettings
    provider: SandboxProvider
    prepared: PreparedEnvironment
    key: str
    taken_back: tuple[bytes, ...] = ()
    """Paths of the patch that are brought back to the base (or to the gold patch's version) once it is applied."""


@asynccontextmanager
async def fresh_box(job: Job, trace: Trace) -> AsyncIterator[Box]:
    """A new sandbox of the job's environment, gone when the block ends, however it ends.

    A teardown that fails or takes too long is flagged ``teardown_failed``: it does not change a verdict, and the
    provider keeps a record of what is left.
    """
    limits = Limits(disk_mib=job.settings.disk_mib)
    with trace.step("create", "create"):
        box = await job.provider.create(job.prepared.spec().model_copy(update={"limits": limits}))
    try:
        yield box
    finally:
        with trace.step("teardown"):
            await _close(box, trace)


async def _close(box: Box, trace: Trace) -> None:
    with anyio.move_on_after(TEARDOWN_CAP_S, shield=True) as scope:
        try:
            await box.close()
        except Exception as error:  # noqa: BLE001  # whatever it is, the verdict stands, and the reader is told
            trace.flag("teardown_failed")
            trace.evidence["teardown"] = f"{type(error).__name__}: {error}"
    if scope.cancelled_caught:
        trace.flag("teardown_failed")
        trace.evidence["teardown"] = f"the sandbox was not gone after {TEARDOWN_CAP_S:.0f} s"
