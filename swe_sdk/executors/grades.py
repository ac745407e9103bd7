"""Grade many patches on an executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from anyio import to_thread

from swe_sdk.errors import SweError
from swe_sdk.executors.contract import Job, JobResult, Pool
from swe_sdk.executors.grade_work import GRADE, GradeOrder
from swe_sdk.executors.lost import failure_of_job
from swe_sdk.executors.make_ready import make_ready
from swe_sdk.executors.policy_ref import policy_ref
from swe_sdk.executors.provider_ref import ProviderRef, provider_ref
from swe_sdk.executors.registry import ExecutorLike, opened
from swe_sdk.grading.batch import says_where_it_stopped
from swe_sdk.grading.classify import Failure, classify
from swe_sdk.grading.outcomes import Outcomes
from swe_sdk.grading.progress import progress_bar
from swe_sdk.grading.settings import GradeSettings
from swe_sdk.grading.trace import Trace
from swe_sdk.grading.verdict import Subject, outcome_of
from swe_sdk.model.ids import content_key, safe_name
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import Policy, get_policy
from swe_sdk.model.task import Task
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.store.results import Results

_GRACE_S = 600.0


async def grade_many_on(
    executor: ExecutorLike,
    tasks: Sequence[Task],
    patches: Mapping[str, Patch],
    *,
    limit: int | None,
    provider: SandboxProvider | str,
    policy: Policy | str,
    results: Results,
    progress: bool,
    on_outcome: Callable[[Outcome], None] | None,
    **settings: Any,
) -> Outcomes:
    """As :func:`swe_sdk.grading.batch.grade_many`, elsewhere: ``limit`` grades at a time on each node.

    A grade whose worker is lost is tried again as often as ``retries`` says, and then masked, with kind
    ``lost_worker``. Raises ``InputError``, and ``PrerequisiteError`` where the engine cannot be had.
    """
    batch = _Batch(get_policy(policy), provider_ref(provider), GradeSettings.of(**settings), results)
    graded = [task for task in tasks if task.instance_id in patches]
    skipped = [task.instance_id for task in tasks if task.instance_id not in patches]
    done: dict[int, Outcome] = {}

    async def one(pool: Pool, index: int, task: Task) -> None:
        outcome = await batch.grade(pool, task, patches[task.instance_id])
        done[index] = outcome
        bar.add(outcome)
        if on_outcome is not None:
            on_outcome(outcome)

    with (
        progress_bar(len(graded), "grade", enabled=progress) as bar,
        says_where_it_stopped(results.path, done, len(graded)),
    ):
        async with opened(executor, limit=limit) as pool, anyio.create_task_group() as group:
            await make_ready(pool, batch.provider, graded)
            for index, task in enumerate(graded):
                group.start_soon(one, pool, index, task)
    return Outcomes((done[index] for index in range(len(graded))), path=results.path, skipped=skipped)


@dataclass(frozen=True)
class _Batch:
    policy: Policy
    provider: ProviderRef
    settings: GradeSettings
    results: Results

    async def grade(self, pool: Pool, task: Task, patch: Patch) -> Outcome:
        """The outcome of one patch, on disk here. Raises nothing but cancellation."""
        job = self._job(task, patch)
        earlier: list[dict[str, Any]] = []
        while True:
            result = await pool.run(job)
            outcome = await self._outcome(pool, result, task, patch)
            if result.state != "lost" or outcome.mask is None or not outcome.mask.retryable:
                break
            if len(earlier) >= self.settings.retries:
                break
            earlier.append(outcome.mask.model_dump(mode="json"))
        if earlier:
            outcome = outcome.model_copy(update={"evidence": {**outcome.evidence, "earlier_workers": earlier}})
        return await self._recorded(outcome, task, patch)

    def _job(self, task: Task, patch: Patch) -> Job:
        order = GradeOrder(
            task=task.private(),
            patch=patch,
            provider=self.provider,
            policy=policy_ref(self.policy),
            settings=self.settings,
            results=str(self.results.path),
        )
        plain = order.model_dump(mode="json")
        key = content_key({"work": GRADE, **{name: value for name, value in plain.items() if name != "results"}})
        return Job(id=task.instance_id, work=GRADE, input=plain, key=key, deadline_s=self._deadline_s)

    @property
    def _deadline_s(self) -> float:
        """What a grade bounds by itself, all attempts and their second runs included, and more: for one that hangs."""
        attempts = self.settings.retries + 1
        return attempts * (self.settings.build_timeout_s + 2 * self.settings.attempt_timeout_s) + _GRACE_S

    async def _outcome(self, pool: Pool, result: JobResult, task: Task, patch: Patch) -> Outcome:
        if result.state != "done":
            return self._failed(failure_of_job(result, "verify"), task, patch)
        try:
            await pool.collect(result.node, str(self.results.path), [f"artifacts/{safe_name(task.instance_id)}"])
        except (SweError, OSError) as error:
            return self._failed(classify(error, "return"), task, patch)
        return Outcome.model_validate(result.output)

    async def _recorded(self, outcome: Outcome, task: Task, patch: Patch) -> Outcome:
        try:
            await to_thread.run_sync(self.results.append, outcome)
        except (SweError, OSError) as error:
            masked = self._failed(classify(error, "teardown"), task, patch)
            return masked.model_copy(update={"evidence": {"unrecorded": outcome.model_dump(mode="json")}})
        return outcome

    def _failed(self, failure: Failure, task: Task, patch: Patch) -> Outcome:
        subject = Subject(task, patch, self.policy, self.provider.name, key="")
        return outcome_of(subject, failure, Trace(stage=failure.stage))
