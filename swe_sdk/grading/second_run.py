"""A second look at a submission that resolves its task and has touched files that decide how the tests run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio

from swe_sdk.grading.classify import Failure
from swe_sdk.grading.job import Job
from swe_sdk.grading.run_log import RunLog
from swe_sdk.grading.runner_files import shown
from swe_sdk.grading.trace import Trace
from swe_sdk.recipes.contract import Resolution

Find = Callable[[Job, Trace, RunLog], Awaitable[Resolution | Failure]]
SECOND_LOG = "test.second.log"
_SHOWN = 5


def needs_second_run(job: Job, finding: Resolution | Failure, trace: Trace) -> tuple[bytes, ...]:
    """The runner files that a second run must take back; none where one run says all."""
    gold = job.task.grading.gold_patch
    is_gold = gold is not None and gold.data == job.patch.data
    resolved = isinstance(finding, Resolution) and finding.resolved
    return trace.runner_files if resolved and not is_gold else ()


async def second_run(job: Job, paths: tuple[bytes, ...], trace: Trace, log: RunLog, find: Find) -> Failure | None:
    """Grade again in a fresh box, with ``paths`` as they are in the base (or as the gold patch has them).

    None where that resolves the task as well. It has the time of an attempt of its own: else a submission could
    escape a zero by having slow tests. Its log lies beside the first one.
    """
    job = replace(job, taken_back=paths)
    inner, second = Trace(), RunLog(log.path.with_name(SECOND_LOG))
    trace.evidence["second_run"] = {"taken_back": shown(paths), "log": SECOND_LOG}
    try:
        with trace.step("second_run", "tests"), anyio.fail_after(job.settings.attempt_timeout_s):
            finding = await find(job, inner, second)
        return _verdict(job, finding, trace, second)
    finally:
        second.close()
        trace.stage = inner.stage
        for flag in inner.flags:
            trace.flag(flag)


def _verdict(job: Job, finding: Resolution | Failure, trace: Trace, log: RunLog) -> Failure | None:
    if isinstance(finding, Failure) and job.policy.decide(finding.stage, finding.kind).verdict == "masked":
        return finding
    resolved = isinstance(finding, Resolution) and finding.resolved
    trace.evidence["second_run"] |= {"resolved": resolved, "reason": finding.reason}
    if resolved or job.policy.decide("tests", "runner_files").verdict == "grade":
        return None
    names = shown(job.taken_back)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    files = ", ".join(names[:_SHOWN]) + more
    reason = f"it resolves the task only with its own version of {files}; without: {finding.reason}"
    return Failure("runner_files", "tests", reason, {"log_tail": log.tail()})
