"""Grades for many callers at once: equal ones share one evaluation, and none can spoil it for the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import anyio

from swe_sdk.errors import InputError
from swe_sdk.grading.classify import Failure
from swe_sdk.grading.single_flight import FlightCancelled, SingleFlight
from swe_sdk.grading.sink import OutcomeSink
from swe_sdk.grading.trace import Trace
from swe_sdk.grading.verdict import Subject, outcome_of
from swe_sdk.grading.verify import grade
from swe_sdk.model.ids import content_key
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import get_policy
from swe_sdk.model.task import Task
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.server.admission import ServerAdmission
from swe_sdk.server.kinds import SHUTDOWN
from swe_sdk.server.models import Control
from swe_sdk.server.settings import ServerSettings
from swe_sdk.server.verdicts import Graded, held_against
from swe_sdk.server.watching import NOBODY, Watcher

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 8.0
"""Before a further try; each is twice the one before."""


@dataclass(frozen=True)
class Order:
    """What one post asks for, checked. Make it with :meth:`of`."""

    task: Task
    patch: Patch
    tests_timeout_s: float
    control: Control
    key: str
    """Equal orders have equal keys."""

    @classmethod
    def of(cls, task: Task, patch: Patch, tests_timeout_s: float, control: Control) -> Order:
        """An order; ``InputError`` where the task cannot be written down, as none that is nested without end can."""
        try:
            key = content_key([task.private(), patch.sha256, tests_timeout_s, control])
        except (ValueError, RecursionError) as error:
            raise InputError(f"{task.instance_id}: the task is no plain data: {error}") from None
        return cls(task, patch, tests_timeout_s, control, key)


class Verifier:
    """Evaluates orders, of one event loop.

    An evaluation lives as long as somebody waits for it: a caller that leaves does not disturb the others, and the
    last one takes it along, its sandbox included. Finished verdicts are had again by their content key; masks never.
    """

    def __init__(
        self,
        settings: ServerSettings,
        provider: SandboxProvider | str,
        *,
        results: OutcomeSink | None = None,
        watcher: Watcher = NOBODY,
    ) -> None:
        self._settings = settings
        self._provider = provider
        self._results = results
        self._watcher = watcher
        self._flights: SingleFlight[Graded] = SingleFlight()
        self._scopes: set[anyio.CancelScope] = set()
        self._is_stopped = False
        self.admission = ServerAdmission(settings)

    async def grade(self, order: Order) -> Graded:
        """What the patch is worth, in the server's time; a mask where that ran out, or the server was stopped.

        Raises ``TooBusy``, and ``InputError`` for what cannot be graded at all.
        """
        with self._watcher.verification():
            with self._stoppable() as scope, suppress(FlightCancelled):
                graded = await self._flights.run(order.key, partial(self._evaluate, order))
                self._watcher.answered(graded.outcome)
                return graded
            masked = self._not_waited_for(order, is_late=anyio.current_time() >= scope.deadline)
            self._watcher.answered(masked)
            return Graded(masked)

    def stop(self) -> None:
        """Give up all evaluations; who waits for them gets a mask, once their sandboxes are gone."""
        self._is_stopped = True
        for scope in self._scopes:
            scope.cancel()

    @contextmanager
    def _stoppable(self) -> Iterator[anyio.CancelScope]:
        scope = anyio.CancelScope(deadline=anyio.current_time() + self._settings.request_timeout_s)
        if self._is_stopped:
            scope.cancel()
        self._scopes.add(scope)
        try:
            with scope:
                yield scope
        finally:
            self._scopes.discard(scope)

    async def _evaluate(self, order: Order) -> Graded:
        async with self.admission.evaluation(order.task.instance_id):
            with self._watcher.evaluation():
                outcome = await self._grade(order, order.patch)
                gold = order.task.grading.gold_patch
                if gold is None or not _wants_control(order.control, outcome):
                    return Graded(outcome)
                return held_against(outcome, await self._grade(order, gold))

    async def _grade(self, order: Order, patch: Patch) -> Outcome:
        """One outcome; what a new attempt may mend is tried again for a while, in the same worker's place."""
        gives_up_at, pause_s = anyio.current_time() + self._settings.patience_s, _FIRST_PAUSE_S
        while True:
            outcome = await self._grade_once(order, patch)
            is_final = outcome.mask is None or not outcome.mask.retryable
            if is_final or anyio.current_time() + pause_s > gives_up_at:
                return outcome
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _grade_once(self, order: Order, patch: Patch) -> Outcome:
        return await grade(
            order.task,
            patch,
            provider=self._provider,
            policy=self._settings.policy,
            tests_timeout_s=order.tests_timeout_s,
            build_timeout_s=self._settings.build_timeout_s,
            retries=self._settings.retries,
            results=self._results,
            reuse=True,
        )

    def _not_waited_for(self, order: Order, *, is_late: bool) -> Outcome:
        name = self._provider if isinstance(self._provider, str) else self._provider.name
        subject = Subject(order.task, order.patch, get_policy(self._settings.policy), name, order.key)
        if not is_late:
            return outcome_of(subject, Failure("cancelled", "admission", SHUTDOWN), Trace())
        late = f"there was no verdict within {self._settings.request_timeout_s:g} s, waiting for a worker included"
        return outcome_of(subject, Failure("timeout", "admission", late), Trace())


def _wants_control(control: Control, outcome: Outcome) -> bool:
    return control == "always" or (control == "unresolved" and outcome.status == "unresolved")
