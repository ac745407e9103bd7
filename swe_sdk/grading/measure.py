"""Run one attempt with its log, and keep its files."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from anyio import to_thread

from swe_sdk.errors import SandboxError
from swe_sdk.grading.attempt import attempt
from swe_sdk.grading.classify import classify
from swe_sdk.grading.job import Job
from swe_sdk.grading.run_log import RunLog
from swe_sdk.grading.sink import OutcomeSink
from swe_sdk.grading.trace import Trace
from swe_sdk.grading.verdict import Subject, outcome_of
from swe_sdk.model.outcome import Outcome


async def measure(job: Job, trace: Trace, results: OutcomeSink | None, earlier: list[dict[str, Any]]) -> Outcome:
    """The outcome of one attempt, its log, patch and outcome kept in ``results``; ``earlier`` attempts are evidence.

    An outcome whose files cannot be kept is masked: nothing is reported that is not on disk.
    """
    subject = Subject(job.task, job.patch, job.policy, job.provider.name, job.key)
    if earlier:
        trace.evidence["earlier_attempts"] = list(earlier)
    try:
        async with _folder(job, results) as folder:
            outcome = await _logged(job, trace, subject, folder)
            return outcome if results is None else await to_thread.run_sync(results.save, folder, job.patch, outcome)
    except (SandboxError, OSError) as error:
        return outcome_of(subject, classify(error, trace.stage), trace)


async def _logged(job: Job, trace: Trace, subject: Subject, folder: Path) -> Outcome:
    log = RunLog(folder / "test.log")
    try:
        finding = await attempt(job, trace, log)
    finally:
        log.close()
    return outcome_of(subject, finding, trace)


@asynccontextmanager
async def _folder(job: Job, results: OutcomeSink | None) -> AsyncIterator[Path]:
    """Where the log goes: the sink's folder, or without a sink one that is removed afterwards."""
    if results is not None:
        yield await to_thread.run_sync(results.folder, job.task.instance_id, job.key)
        return
    with tempfile.TemporaryDirectory(prefix="swe-sdk-grade-") as temporary:
        yield Path(temporary)
