"""Read the results of a test run, and judge them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anyio import to_thread

from swe_sdk.errors import EvaluatorFailed
from swe_sdk.grading.classify import Failure
from swe_sdk.grading.cross_check import cross_check
from swe_sdk.grading.job import Job
from swe_sdk.grading.run_log import RunLog
from swe_sdk.grading.trace import Trace
from swe_sdk.grading.witness import Record, Witness
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.recipes.contract import ReadsResults, Resolution


@dataclass(frozen=True)
class Run:
    """What the tests left behind besides their log."""

    result: ExecResult
    witness: Witness | None = None
    records: list[Record] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)


async def read_results(job: Job, run: Run, trace: Trace, log: RunLog) -> Resolution | Failure:
    """The recipe's verdict on the test section, or why there can be none.

    Statuses are read in any case: an unresolved outcome after a timeout still shows which tests had passed.
    """
    result = run.result
    trace.evidence["tests"] = {"status": result.status, "exit_code": result.exit_code}
    if log.dropped_bytes:
        trace.flag("log_truncated")
    with trace.step("parse", "parse"):
        statuses = await to_thread.run_sync(lambda: _statuses(job, log.section(), run))
        resolution = job.recipe.judge(job.task, statuses, result.exit_code)
        disagreement = await to_thread.run_sync(_disagreement, job, resolution, run, trace)
    trace.tests = resolution.tests
    for failure in (_failure(job, result, statuses, log), disagreement):
        if failure is not None and job.policy.decide(failure.stage, failure.kind).verdict != "grade":
            return failure
    return _without_a_patch(resolution) if not job.patch.exists else resolution


def _statuses(job: Job, section: str, run: Run) -> dict[str, str]:
    if not isinstance(job.recipe, ReadsResults):
        return job.recipe.parse(job.task, section)
    try:
        return job.recipe.parse_results(job.task, section, run.files)
    except EvaluatorFailed:
        if run.result.status == "exited":
            raise
        return {}  # it was cut off: that is what there is to say of it


def _disagreement(job: Job, resolution: Resolution, run: Run, trace: Trace) -> Failure | None:
    if run.witness is None:
        return None
    watch = run.witness.watch
    if resolution.resolved and not run.records:
        trace.flag("no_results_file")
    trace.evidence["results_file"] = {"runner": watch.runner, "required": watch.required, "records": len(run.records)}
    return cross_check(job.task, job.recipe, resolution, watch, run.records, run.result.exit_code)


def _failure(job: Job, result: ExecResult, statuses: Mapping[str, str], log: RunLog) -> Failure | None:
    if result.status == "timeout":
        reason = f"the tests did not end within {job.settings.tests_timeout_s:g} s"
        return Failure("timeout", "tests", reason, {"log_tail": log.tail()})
    if result.status == "oom":
        return Failure("memory_limit", "tests", "the tests went beyond the memory limit", {"log_tail": log.tail()})
    if result.over_limit == "disk_mib":
        reason = f"the tests wrote more than {job.settings.disk_mib} MiB (the limit is the setting disk_mib)"
        return Failure("disk_limit", "tests", reason, {"log_tail": log.tail()})
    if not statuses:
        reason = f"no test result could be read: the test command {result.summary}"
        return Failure("unparseable", "parse", reason, {"log_tail": log.tail()})
    return None


def _without_a_patch(resolution: Resolution) -> Resolution:
    """An empty patch never resolves a task: where its tests pass as it is, that is a defect of the task."""
    if not resolution.resolved:
        return resolution
    reason = "the patch is empty, and the task's tests pass without one"
    return resolution.model_copy(
        update={"resolved": False, "reason": reason, "flags": (*resolution.flags, "passes_without_patch")}
    )
