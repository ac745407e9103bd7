"""Carry out a run on an executor: rollouts are jobs of it, and each of its processes writes a journal of the run.

This process writes what concerns the run as a whole, and speaks for workers that are lost: their attempts are masked in
its own journal, and followed by new ones somewhere else.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint

from swe_sdk.checkpoint.snapshots.share import as_exporter
from swe_sdk.errors import InputError, SandboxError, SweError
from swe_sdk.executors.contract import Job, JobResult, Near, Pool
from swe_sdk.executors.lost import failure_of_job
from swe_sdk.executors.make_ready import make_ready
from swe_sdk.executors.provider_ref import provider_ref
from swe_sdk.executors.registry import ExecutorLike, is_local, opened
from swe_sdk.grading.classify import Failure, classify, first_leaf
from swe_sdk.model.ids import content_key
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.policy import Stage
from swe_sdk.progress import shown_progress
from swe_sdk.rollouts.engine import queued_event
from swe_sdk.rollouts.failures import POLICY_STAGES, failed_outcome, unrecorded_outcome
from swe_sdk.rollouts.many import Planned
from swe_sdk.rollouts.result import AttemptReport, RolloutResult
from swe_sdk.runs.checkpoints.driver import DriverCheckpoints
from swe_sdk.runs.checkpoints.keeping import Keeping
from swe_sdk.runs.execute import Ending, Order, execute, ready_provider, started_event
from swe_sdk.runs.model_way import require_model
from swe_sdk.runs.worker import PUT_AWAY, ROLL_OUT, PutAwayOrder, RolloutOrder
from swe_sdk.sandbox.registry import named_provider
from swe_sdk.store.events import AttemptEnded, OutcomeReached, RolloutEnded
from swe_sdk.store.index import open_index
from swe_sdk.store.layout import artifact_folder, last_attempt, read_run
from swe_sdk.store.writer import RunWriter

_QUEUED_AT_ONCE = 100
_PUT_AWAY_CAP_S = 60.0


class CarryOut(Protocol):
    """Carries out an order, into the run directory of a writer."""

    async def __call__(self, writer: RunWriter, *, resumed: bool) -> None:
        """Until everything is finished, or the run is stopped."""


@asynccontextmanager
async def way_to_carry_out(order: Order, executor: ExecutorLike) -> AsyncIterator[CarryOut]:
    """How an order is carried out: in this process, or on an executor.

    Raises ``InputError`` and ``PrerequisiteError``, before anything of the run is made.
    """
    if is_local(executor):
        async with ready_provider(order.setup) as provider:
            if order.setup.config.snapshot_share is not None:
                as_exporter(provider)
            yield partial(execute, order, provider)
    else:
        _require_portable(order)
        limit = order.setup.config.limit if isinstance(executor, str) else None
        async with opened(executor, limit=limit) as pool:
            if order.setup.config.checkpoint_every_s is not None and not pool.shares_files:
                remedy = "leave checkpoint_every out, or put the run on a shared file system (shared=True)"
                raise InputError("checkpoints need a run directory that all nodes see", remedy=remedy)
            yield partial(_execute_on, order, pool)


def _require_portable(order: Order) -> None:
    """Everything that the run needs can be made again on another machine."""
    setup = order.setup
    objects = [what for what in setup.plan.given if what != "executor"]
    if objects:
        raise InputError(
            f"the {' and the '.join(objects)} of this run are objects of this process, and workers have their own",
            remedy="give them by name, with their settings",
        )
    require_model(setup)
    provider_ref(setup.config.provider)
    if setup.config.snapshot_share is not None and setup.config.provider != "auto":
        as_exporter(named_provider(setup.config.provider))
    model, endpoint = setup.config.model, setup.endpoint
    key = None if endpoint is None or endpoint.api_key is None else endpoint.api_key.get_secret_value()
    if model is not None and key is not None and os.environ.get(model.api_key_env) != key:
        raise InputError(
            "the key of the model was handed over as an object, and keys are not sent to workers",
            remedy=f"set ${model.api_key_env} here and where the workers run",
        )


async def _execute_on(order: Order, pool: Pool, writer: RunWriter, *, resumed: bool) -> None:
    """The same as :func:`swe_sdk.runs.execute.execute`, by the workers of a pool."""
    writer.append(started_event(order, resumed))
    with shown_progress(order.total, "rollouts", kept=order.kept, enabled=order.progress) as bar:
        ending = Ending(order, writer)
        with ending.told():
            spread = _Spread(order, pool, writer)
            is_finished = False
            try:
                ending.stopped = await spread.work(lambda result: ending.add(result, bar))
                is_finished = ending.stopped is None
            finally:
                with anyio.move_on_after(_PUT_AWAY_CAP_S, shield=True):
                    await spread.put_away(is_finished=is_finished)


class _Spread:
    """The rollouts of a run, spread over workers."""

    def __init__(self, order: Order, pool: Pool, writer: RunWriter) -> None:
        self._order, self._pool, self._writer = order, pool, writer
        self._setup, self._config = order.setup, order.setup.config
        self._run = str(writer.path)
        self._identity = [self._run, read_run(writer.path).created_at]
        self._checkpoints = DriverCheckpoints(writer, Keeping.of(self._config), order.afresh)
        self._nodes: dict[str, str] = {}
        """Who has the snapshots of rollouts that go on, at the beginning."""
        self._disk_is_full = self._has_unrecorded = False

    async def work(self, on_result: Callable[[RolloutResult], None]) -> str | None:
        """Until everything is finished (None), or why it was not: ``deadline``, ``no_space`` or ``unrecorded``."""
        await self._queue()
        self._nodes = await self._checkpoints.begin(self._order.planned)
        with anyio.move_on_after(self._config.deadline_s) as deadline:
            await make_ready(
                self._pool,
                provider_ref(self._config.provider, self._config.base_image),
                (planned.task for planned in self._order.planned),
            )
            try:
                async with anyio.create_task_group() as group:
                    for planned in sorted(self._order.planned, key=lambda each: each.rollout_id not in self._nodes):
                        group.start_soon(self._one, planned, on_result, group.cancel_scope)
            except BaseExceptionGroup as errors:  # of on_result alone: for callers who never asked for a group
                raise first_leaf(errors) from None
        if self._disk_is_full:
            return "no_space"
        if deadline.cancelled_caught:
            return "deadline"
        return "unrecorded" if self._has_unrecorded else None

    async def put_away(self, *, is_finished: bool) -> None:
        """Have the workers close their journals, and bring home what is not shared."""
        if is_finished:
            await self._checkpoints.let_go()
        order = PutAwayOrder(run=self._run).model_dump(mode="json")
        await self._pool.everywhere(Job(id="put the run away", work=PUT_AWAY, input=order))
        for node in self._pool.nodes():
            try:
                await self._pool.collect(node.node, self._run, ["events"])
            except (SweError, OSError):
                continue  # its journal ends where it was copied last
        await self._checkpoints.end("every rollout is finished" if is_finished else "")

    async def _queue(self) -> None:
        for number, planned in enumerate(self._order.planned):
            self._writer.append(queued_event(planned, self._setup.agent, self._config.provider))
            if number % _QUEUED_AT_ONCE == 0:
                await checkpoint()

    async def _one(
        self, planned: Planned, on_result: Callable[[RolloutResult], None], scope: anyio.CancelScope
    ) -> None:
        result = await self._rolled_out(planned)
        self._has_unrecorded |= not result.is_recorded
        if result.outcome.mask is not None and result.outcome.mask.kind == "no_space" and not self._disk_is_full:
            self._disk_is_full = True  # the next ones would come to the same; resumed, they can be measured
            scope.cancel()
        on_result(result)

    async def _rolled_out(self, planned: Planned) -> RolloutResult:
        """A rollout to its end, by as many workers as it takes."""
        attempt, left = planned.attempt, self._config.retries
        node = self._nodes.get(planned.rollout_id, "")
        while True:
            answer = await self._placed(partial(self._job, planned, attempt, left), node)
            failure = await self._failure(answer, planned)
            if failure is None:
                return RolloutResult.model_validate(answer.output)
            attempt = max(attempt, await to_thread.run_sync(last_attempt, self._writer.path, planned.rollout_id))
            result = await self._masked(planned, attempt, failure, is_last=left == 0)
            mask = result.outcome.mask
            if left == 0 or mask is None or not mask.retryable or not result.is_recorded:
                return result
            attempt, left = attempt + 1, left - 1
            node = await self._checkpoints.node_of(planned.rollout_id)

    async def _placed(self, job: Callable[..., Job], node: str) -> JobResult:
        """What comes of a rollout at the node that has its snapshot or, where that gives it no place, anywhere."""
        if not node:
            return await self._pool.run(job())
        answer = await self._pool.run(job(near=Near(node=node, wait_s=self._config.checkpoint_wait_s)))
        if answer.state != "unplaced" or answer.error is None:
            return answer
        return await self._pool.run(job(missed=answer.error.message))

    def _job(self, planned: Planned, attempt: int, retries: int, *, near: Near | None = None, missed: str = "") -> Job:
        order = RolloutOrder(
            run=self._run,
            plan=self._setup.plan,
            task=planned.task.private(),
            sample=planned.sample,
            attempt=attempt,
            retries=retries,
            missed=missed,
            afresh=self._checkpoints.starts_over(planned.rollout_id),
        )
        key = content_key([*self._identity, planned.rollout_id])
        return Job(id=planned.rollout_id, work=ROLL_OUT, input=order.model_dump(mode="json"), key=key, near=near)

    async def _failure(self, answer: JobResult, planned: Planned) -> Failure | None:
        """Why there is no answer, or none whose files are here; None where all is well."""
        below = ["events", str(artifact_folder(Path(), planned.rollout_id).parent)]
        try:
            await self._pool.collect(answer.node, self._run, below)
        except (SweError, OSError) as error:
            if answer.state == "done":
                return classify(error, "return")
        if answer.state == "done":
            return None
        return failure_of_job(answer, await to_thread.run_sync(self._stage, planned.rollout_id))

    def _stage(self, rollout_id: str) -> Stage:
        """How far the journals say that it came."""
        with open_index(self._writer.path) as index:
            index.refresh()
            begun = index.stages(rollout_id)
        return POLICY_STAGES[begun[-1].stage] if begun else "seed"

    async def _masked(self, planned: Planned, attempt: int, failure: Failure, *, is_last: bool) -> RolloutResult:
        """An attempt that gave no answer, written down for the worker that could not."""
        outcome = failed_outcome(planned.task, self._setup.policy, self._config.provider, failure)
        again = not is_last and outcome.mask is not None and outcome.mask.retryable
        is_recorded = True
        try:
            await self._write_down(planned.rollout_id, attempt, outcome, failure, again=again)
        except (SandboxError, OSError) as error:
            is_recorded = False
            outcome = unrecorded_outcome(planned.task, self._setup.policy, self._config.provider, outcome, error)
        return RolloutResult(
            rollout_id=planned.rollout_id,
            instance_id=planned.task.instance_id,
            sample=planned.sample,
            attempt=attempt,
            agent=self._setup.agent.name,
            agent_version=self._setup.agent.version,
            outcome=outcome,
            attempts=(AttemptReport(attempt=attempt, mask=outcome.mask),),
            is_recorded=is_recorded,
        )

    async def _write_down(
        self, rollout_id: str, attempt: int, outcome: Outcome, failure: Failure, *, again: bool
    ) -> None:
        told = {"rollout_id": rollout_id, "attempt": attempt}
        await self._writer.append_async(OutcomeReached(**told, outcome=outcome))
        await self._writer.append_async(
            AttemptEnded(**told, reason=failure.kind, message=failure.reason, will_retry=again)
        )
        if not again:
            ended = RolloutEnded(**told, status=outcome.status, reward=outcome.reward, reason=outcome.reason)
            await self._writer.append_async(ended)
