"""Whose doing was it? The steps that failed are run again in a fresh box, without the submission."""

from __future__ import annotations

from typing import Any

import anyio

from swe_sdk.errors import GradingError
from swe_sdk.grading.box_git import BoxGit
from swe_sdk.grading.classify import Failure
from swe_sdk.grading.job import Job, fresh_box
from swe_sdk.grading.run_log import RunLog
from swe_sdk.grading.runner_files import touched_paths
from swe_sdk.grading.set_up import PreludeTimeout, set_up
from swe_sdk.grading.trace import Trace
from swe_sdk.grading.tree import bring_back, remember
from swe_sdk.grading.verdict import not_resolved
from swe_sdk.model.policy import Stage
from swe_sdk.recipes.contract import Resolution
from swe_sdk.sandbox.base import pin_base

BLAMED: dict[Stage, str] = {
    "apply": "the patch takes too long to apply, or leaves a tree that cannot be cleaned",
    "reset": "the patch keeps the test files from being restored",
    "test_patch": "the patch keeps the hidden tests from being installed",
    "prelude": "the patch keeps the task's set-up commands from ending in time",
}


async def blame(job: Job, failure: Failure, trace: Trace, log: RunLog) -> Resolution | Failure:
    """The failure itself where it also happens without the patch; else an unresolved verdict: it is the patch's doing.

    Without this, a submission could escape a zero by breaking its own measurement. Raises what the sandbox raises.
    """
    with trace.step("control"):
        control = await _control(job, failure.stage, log)
    trace.evidence["control"] = control
    trace.evidence["failure"] = {"stage": failure.stage, "kind": failure.kind, "reason": failure.reason}
    if control["failed"]:
        return failure
    return not_resolved(job.task, BLAMED.get(failure.stage, "the patch keeps the tests from running"))


async def _control(job: Job, stage: Stage, log: RunLog) -> dict[str, Any]:
    trace = Trace()
    try:
        with anyio.fail_after(job.settings.set_up_s):
            async with fresh_box(job, trace) as box:
                git = BoxGit(box)
                await pin_base(box, job.prepared)
                await git.set_up()
                if stage == "apply":
                    await bring_back(git, await remember(git, touched_paths(job.patch)))
                else:
                    await set_up(git, job, trace, log)
    except (GradingError, PreludeTimeout) as error:
        return {"failed": True, "reason": str(error)}
    return {"failed": False}
