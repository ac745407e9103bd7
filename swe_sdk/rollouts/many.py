"""Many rollouts at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import anyio
from anyio.lowlevel import checkpoint

from swe_sdk.agents.contract import Agent
from swe_sdk.errors import InputError
from swe_sdk.grading.batch import default_limit
from swe_sdk.grading.classify import first_leaf
from swe_sdk.model.budget import Budget
from swe_sdk.model.policy import Policy
from swe_sdk.model.task import Task
from swe_sdk.rollouts.engine import queue, roll_out, shared_by_run
from swe_sdk.rollouts.job import Shared
from swe_sdk.rollouts.live import LiveRollouts
from swe_sdk.rollouts.meter import Clock
from swe_sdk.rollouts.plan import Planned, plan
from swe_sdk.rollouts.ports import EventSink, ModelSource, Verifier
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.rollouts.settings import RolloutSettings, RunLimits
from swe_sdk.sandbox.contract import SandboxProvider

__all__ = ["Planned", "RolloutResults", "plan", "run_many"]

_log = logging.getLogger(__name__)
_QUEUED_AT_ONCE = 100


class RolloutResults(list[RolloutResult]):
    """The results of the finished rollouts, in the order of the plan."""

    unfinished: tuple[str, ...] = ()
    """Ids of those that were not started or not ended, because the run was stopped, or whose end is not on disk."""
    stopped: str | None = None
    """Why it was stopped: ``deadline``, ``no_space`` or ``unrecorded``; None = everything is finished."""


async def run_many(
    tasks: Iterable[Task | Planned],
    agent: Agent | str,
    *,
    samples: int = 1,
    limits: RunLimits | None = None,
    deadline_s: float | None = None,
    provider: SandboxProvider | str = "auto",
    budget: Budget | None = None,
    settings: RolloutSettings | None = None,
    policy: Policy | str = "default",
    verifier: Verifier | None = None,
    model: ModelSource | None = None,
    journal: EventSink | None = None,
    live: LiveRollouts | None = None,
    on_result: Callable[[RolloutResult], None] | None = None,
    on_progress: Callable[[str], None] | None = None,
    keep_results: bool = True,
    clock: Clock = time.monotonic,
) -> RolloutResults:
    """``samples`` rollouts of each task (and those that are planned already), ``limits.episodes`` at a time.

    No rollout can stop the others. Each result is in the journal before ``on_result`` hears of it (in the order in
    which they finish; an exception of its own ends the run). After ``deadline_s`` seconds, and where the disk is full,
    no rollout is started any more; at the deadline those under way are stopped as well, and their sandboxes closed.
    What is unfinished then is named in the results. A cancelled run leaves nothing behind but its journal.

    Without ``keep_results`` the results are only told to ``on_result``. The other arguments are those of
    :func:`swe_sdk.rollouts.engine.run_rollout`. Raises ``InputError``, ``PrerequisiteError`` where the provider does
    not work, and ``NoSpace`` where the journal cannot even take the plan.
    """
    planned = _checked(plan(tasks, samples))
    limits = limits or RunLimits()
    async with shared_by_run(
        agent,
        provider=provider,
        limits=limits,
        budget=budget,
        settings=settings,
        policy=policy,
        verifier=verifier,
        model=model,
        journal=journal,
        live=live,
        on_progress=on_progress,
        clock=clock,
    ) as shared:
        run = _Run(shared, planned, on_result, keep_results)
        with anyio.move_on_after(deadline_s) as deadline:
            await run.work(limits.episodes or default_limit())
    return run.results("deadline" if deadline.cancelled_caught else None)


def _checked(planned: list[Planned]) -> list[Planned]:
    seen: set[str] = set()
    for each in planned:
        if each.rollout_id in seen:
            raise InputError(f"two rollouts have the id {each.rollout_id}", remedy="give each task once, or samples=")
        seen.add(each.rollout_id)
    return planned


class _Run:
    """The rollouts of one run, and what has become of them."""

    def __init__(
        self,
        shared: Shared,
        planned: Sequence[Planned],
        on_result: Callable[[RolloutResult], None] | None,
        keep: bool,
    ) -> None:
        self._shared = shared
        self._planned = planned
        self._next: Iterator[int] = iter(range(len(planned)))
        self._on_result = on_result
        self._keep = keep
        self._results: dict[int, RolloutResult] = {}
        self._finished: set[int] = set()
        self._disk_is_full = False

    async def work(self, at_once: int) -> None:
        """Roll them out, so many at once."""
        for number, each in enumerate(self._planned):
            queue(self._shared, each)
            if number % _QUEUED_AT_ONCE == 0:
                await checkpoint()
        try:
            async with anyio.create_task_group() as group:
                for _ in range(min(at_once, len(self._planned))):
                    group.start_soon(self._worker)
        except BaseExceptionGroup as errors:  # of on_result alone: for callers who never asked for a group
            raise first_leaf(errors) from None
        finally:
            if len(self._finished) < len(self._planned):
                _log.warning("stopped: %d of %d rollouts are finished", len(self._finished), len(self._planned))

    async def _worker(self) -> None:
        for index in self._next:
            if self._disk_is_full:
                return
            self._add(index, await roll_out(self._shared, self._planned[index]))

    def _add(self, index: int, result: RolloutResult) -> None:
        if result.outcome.mask is not None and result.outcome.mask.kind == "no_space":
            self._disk_is_full = True  # the next ones would come to the same; resumed, they can be measured
        if result.is_recorded:
            self._finished.add(index)
            if self._keep:
                self._results[index] = result
        if self._on_result is not None:
            self._on_result(result)

    def results(self, stopped: str | None) -> RolloutResults:
        """Of those that are finished."""
        results = RolloutResults(self._results[index] for index in sorted(self._results))
        left = [each.rollout_id for index, each in enumerate(self._planned) if index not in self._finished]
        results.unfinished = tuple(left)
        results.stopped = (stopped or ("no_space" if self._disk_is_full else "unrecorded")) if left else None
        return results
