"""From a box with the submission in it to a box in which the tests can run."""

from __future__ import annotations

import anyio

from swe_sdk.grading.box_git import BoxGit
from swe_sdk.grading.evaluate import frozen_env, run_prelude
from swe_sdk.grading.integrity import hold_tests, install_tests, put_back_tests, restore_test_files
from swe_sdk.grading.job import Job
from swe_sdk.grading.run_log import RunLog
from swe_sdk.grading.trace import Trace
from swe_sdk.recipes.contract import AppliesTests

_MARGIN_S = 2.0
"""The prelude is stopped by its own timeout, this long before the deadline of the whole set-up would cancel it."""


class PreludeTimeout(TimeoutError):
    """The task's set-up commands did not end in time."""


async def set_up(git: BoxGit, job: Job, trace: Trace, log: RunLog) -> None:
    """Restore the grader's files, install the hidden tests, run the task's prelude.

    A prelude may run code of the submission (installing the package does), so the hidden tests are put back after it,
    which is also where the official harness installs them. Raises ``ResetFailed``, ``TestPatchFailed``,
    ``PreludeTimeout``, and what the sandbox raises.
    """
    spec = job.task.grading
    with trace.step("restore", "reset"):
        await restore_test_files(git, job.prepared.base_commit, spec.test_patch)
    with trace.step("test_patch", "test_patch"):
        rung = job.recipe.test_rung if isinstance(job.recipe, AppliesTests) else None
        await install_tests(git, spec.test_patch, rung)
    if spec.prelude.strip():
        await _prelude(git, job, trace, log)


async def _prelude(git: BoxGit, job: Job, trace: Trace, log: RunLog) -> None:
    with trace.step("test_patch", "test_patch"):
        held = await hold_tests(git, job.task.grading.test_patch)
    with trace.step("prelude", "prelude"):
        timeout_s = max(1.0, anyio.current_effective_deadline() - anyio.current_time() - _MARGIN_S)
        env = frozen_env(job.prepared.env)
        result = await run_prelude(git, job.task.grading.prelude, env, timeout_s, log)
        trace.evidence["prelude"] = {"status": result.status, "exit_code": result.exit_code}
        if result.status == "timeout":
            raise PreludeTimeout(f"the task's set-up commands did not end within {timeout_s:.0f} s")
    with trace.step("restore", "test_patch"):
        await put_back_tests(git, held)
