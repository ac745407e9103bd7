"""The verifier of this process: the patch is graded in a fresh sandbox beside us."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from swe_sdk.grading.sink import OutcomeSink
from swe_sdk.grading.verify import grade
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import Policy
from swe_sdk.model.task import Task
from swe_sdk.rollouts.ports import EventSink
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.store.sink import AttemptSink
from swe_sdk.store.writer import RunWriter


@dataclass(frozen=True)
class LocalVerifier:
    """Implements :class:`swe_sdk.rollouts.ports.Verifier` by :func:`swe_sdk.grading.verify.grade`."""

    provider: SandboxProvider | str = "auto"
    policy: Policy | str = "default"
    tests_timeout_s: float = 900.0
    attempt_timeout_s: float | None = None
    """For a whole grade; None = ten minutes more than the tests get."""
    build_timeout_s: float = 1800.0
    retries: int = 1
    """Further grades after a mask that is worth one; the agent does not start over for it."""
    results: OutcomeSink | None = None
    """Where logs and outcomes are kept; None = nowhere."""
    on_progress: Callable[[str], None] | None = None
    """Hears of builds, and of an engine that is waited for; None = whom the run tells."""

    def for_attempt(
        self,
        journal: EventSink,
        rollout_id: str,
        attempt: int,
        *,
        on_progress: Callable[[str], None] | None = None,
    ) -> LocalVerifier:
        """The same, with its logs among the files of an attempt, where there is a run that keeps files."""
        mine = self if on_progress is None or self.on_progress else replace(self, on_progress=on_progress)
        if self.results is not None or not isinstance(journal, RunWriter):
            return mine
        return replace(mine, results=_AttemptFiles(journal, rollout_id, attempt))

    async def verify(self, task: Task, patch: Patch, *, deadline_s: float) -> Outcome:
        """What ``patch`` is worth; never raises but for arguments that make no sense and cancellation."""
        return await grade(
            task,
            patch,
            provider=self.provider,
            policy=self.policy,
            tests_timeout_s=self.tests_timeout_s,
            attempt_timeout_s=self.attempt_timeout_s,
            build_timeout_s=min(self.build_timeout_s, deadline_s),
            retries=self.retries,
            results=self.results,
            on_progress=self.on_progress,
        )


class _AttemptFiles(AttemptSink):
    """The files of a grade alone: the engine itself tells the journal of the outcome, the agent's end included."""

    def append(self, outcome: Outcome) -> None:
        """Nothing."""
