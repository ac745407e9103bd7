"""One attempt: a fresh sandbox, the patch, the hidden tests, a finding."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace

import anyio
from anyio import to_thread

from swe_sdk.errors import EvaluatorFailed, GradingError, ResetFailed, SandboxLost
from swe_sdk.grading.apply import Applied, apply_patch
from swe_sdk.grading.box_git import BoxGit
from swe_sdk.grading.classify import Failure, classify
from swe_sdk.grading.control import BLAMED, blame
from swe_sdk.grading.evaluate import frozen_env, run_tests
from swe_sdk.grading.integrity import suspects, take_back
from swe_sdk.grading.job import Job, fresh_box
from swe_sdk.grading.needs import require_needed
from swe_sdk.grading.read import Run, read_results
from swe_sdk.grading.result_files import read_result_files, shell_lines
from swe_sdk.grading.run_log import RunLog
from swe_sdk.grading.runner_files import shown
from swe_sdk.grading.second_run import needs_second_run, second_run
from swe_sdk.grading.set_up import set_up
from swe_sdk.grading.trace import Trace
from swe_sdk.grading.witness import Record, Witness, install, read
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.task import GradingSpec
from swe_sdk.recipes.contract import Resolution
from swe_sdk.sandbox.base import pin_base

_NO_SUCH_PROGRAM = 127
"""The exit code by which a shell says so."""


async def attempt(job: Job, trace: Trace, log: RunLog) -> Resolution | Failure:
    """What one attempt finds. Never raises, but for cancellation: whatever goes wrong is a ``Failure``.

    Everything happens before one deadline; the teardown of the sandbox, which cannot be cancelled, has its own, and so
    has the second run of a submission that needs one.
    """
    trace.evidence["log_nonce"] = log.nonce
    try:
        with anyio.fail_after(job.settings.attempt_timeout_s):
            finding = await _find(job, trace, log)
        paths = needs_second_run(job, finding, trace)
        return (await second_run(job, paths, trace, log, _find) if paths else None) or finding
    except Exception as error:  # noqa: BLE001  # the boundary: no failure may escape as anything but a Failure
        return classify(error, trace.stage)


async def _find(job: Job, trace: Trace, log: RunLog) -> Resolution | Failure:
    try:
        return await _grade_in_box(job, trace, log)
    except EvaluatorFailed as error:
        return classify(error, trace.stage)
    except (GradingError, TimeoutError) as error:  # a patch may be slow to apply, or make what follows slow
        of_image = trace.stage == "create" and isinstance(error, ResetFailed)
        failure = classify(error, "reset" if of_image else trace.stage)
        return await blame(job, failure, trace, log) if job.patch.exists and trace.stage in BLAMED else failure


async def _grade_in_box(job: Job, trace: Trace, log: RunLog) -> Resolution | Failure:
    spec, env = job.task.grading, frozen_env(job.prepared.env)
    async with AsyncExitStack() as stack:
        with anyio.fail_after(job.settings.set_up_s):
            box = await stack.enter_async_context(fresh_box(job, trace))
            job, git = replace(job, prepared=await pin_base(box, job.prepared)), BoxGit(box)
            await require_needed(git, job)
            refused = await _apply(git, job, trace)
            if refused is not None:
                return refused
            await set_up(git, job, trace, log)
            with trace.step("results"):
                witness = await install(git, spec.test_command)
        with trace.step("tests", "tests"):
            before = shell_lines(git) if spec.result_files else ""
            result = await run_tests(git, spec.test_command, env, job.settings.tests_timeout_s, log, witness, before)
        with trace.step("results"):
            run = Run(result, witness, *await _left_behind(git, spec, witness, result))
        return await read_results(job, run, trace, log)


async def _left_behind(
    git: BoxGit, spec: GradingSpec, witness: Witness | None, result: ExecResult
) -> tuple[list[Record], dict[str, bytes]]:
    """What the witness has written, and the result files; nothing where the end of the tests took the box with them.

    That they went beyond their time or memory is known and theirs: a lost box must not turn it into a mask.
    """
    try:
        records = [] if witness is None else await read(git, witness)
        return records, await read_result_files(git, spec.result_files) if spec.result_files else {}
    except SandboxLost:
        if result.status == "exited":
            raise
        return [], {}


async def _apply(git: BoxGit, job: Job, trace: Trace) -> Failure | None:
    """Apply the model's patch, if there is one; returns why the grade ends here, if it does."""
    await git.set_up()
    if not job.patch.exists:
        trace.flag("empty_patch")
        return None
    await to_thread.run_sync(lambda: job.patch.files)  # cached; a huge patch takes seconds, which others may use
    with trace.step("apply", "apply"):
        applied = await apply_patch(git, job.patch, job.recipe.ladder)
        touched = await suspects(git, job.prepared.base_commit, applied.paths, job.task.grading)
    trace.applied, trace.rung, trace.runner_files = applied.ok, applied.rung, touched.runner
    trace.evidence["apply"] = applied.attempts
    if touched.hidden or touched.runner:
        trace.evidence["tampered_paths"] = shown([*touched.hidden, *touched.runner])
    if job.taken_back:
        with trace.step("restore", "reset"):
            await take_back(git, job.prepared.base_commit, job.taken_back, job.task.grading.gold_patch)
    if applied.ok or job.policy.decide("apply", "patch_unappliable").verdict == "grade":
        return None
    return Failure("patch_unappliable", "apply", _not_applied(applied, trace))


def _not_applied(applied: Applied, trace: Trace) -> str:
    """Why, said honestly where the box lacks one of the programs that the official ladder tries."""
    missing = [attempt["rung"] for attempt in applied.attempts if attempt.get("exit_code") == _NO_SUCH_PROGRAM]
    if not missing:
        return "the patch does not apply"
    trace.flag("rung_unavailable")
    return f"the patch does not apply ({', '.join(missing)} could not be tried: its program is not installed)"
