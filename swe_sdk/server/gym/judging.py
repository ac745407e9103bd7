"""What an attempt is worth: its patch out of the lent sandbox, graded in a fresh one; or a mask that says why not."""

from __future__ import annotations

from typing import Any, NamedTuple

from swe_sdk.agents.contract import AgentEnd
from swe_sdk.grading.classify import Failure
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import EMPTY_PATCH, Patch
from swe_sdk.model.policy import Policy, get_policy
from swe_sdk.rollouts.failures import failed_outcome, failure_of, with_end
from swe_sdk.sandbox.build import stop_everything
from swe_sdk.sandbox.contract import Box, SandboxProvider
from swe_sdk.sandbox.tree import take_patch_whatever
from swe_sdk.server.gym.boxes import Session
from swe_sdk.server.gym.report import AgentReport, patch_fields, report_in
from swe_sdk.server.models import ModelResponse, PatchSource
from swe_sdk.server.patches import patch_in_metadata
from swe_sdk.server.settings import ServerSettings
from swe_sdk.server.verdicts import Graded, verdict_of
from swe_sdk.server.verifier import Order, Verifier

_STEPS_OF_CLOSING = 6
"""As in a rollout of one process: taking a patch has at most four steps and the end of what runs."""


class Submission(NamedTuple):
    """What is to be graded, and what is known of how it came about."""

    report: AgentReport
    patch: Patch = EMPTY_PATCH
    source: PatchSource = "none"
    broke: Failure | None = None
    """Why there is nothing to be graded."""


class Judge:
    """Of one resources server."""

    def __init__(
        self, settings: ServerSettings, provider: SandboxProvider, verifier: Verifier, *, close_timeout_s: float
    ) -> None:
        self._settings = settings
        self._provider = provider
        self._verifier = verifier
        self._policy: Policy = get_policy(settings.policy)
        self._close_timeout_s = close_timeout_s

    async def submission(self, session: Session, box: Box, response: ModelResponse) -> Submission:
        """The agent's own patch, if it submitted one; else what its sandbox amounts to.

        Raises ``InputError`` for a response that makes no sense; all else is in what is returned.
        """
        report, given = report_in(response.metadata), patch_in_metadata(response.metadata or {})
        if report.broke is not None:
            return Submission(report, broke=report.broke.failure)
        if given is not None:
            return Submission(report, given, "metadata")
        try:
            return Submission(report, await self._taken(session, box), "sandbox")
        except Exception as error:  # noqa: BLE001  the boundary: what went wrong becomes a verdict
            return Submission(report, broke=failure_of(error, "close_agent"))

    async def _taken(self, session: Session, box: Box) -> Patch:
        await stop_everything(box)
        step_s = self._close_timeout_s / _STEPS_OF_CLOSING
        prepared, before = session.lent.prepared, session.lent.before
        return await take_patch_whatever(self._provider, prepared, box, before=before, timeout_s=step_s)

    async def verification(self, session: Session, submission: Submission, response: ModelResponse) -> dict[str, Any]:
        """The fields of an answer, but for the echo of what was asked; and the patch, in the response's metadata.

        Raises ``TooBusy``.
        """
        graded = await self._graded(session, submission)
        verdict = verdict_of(graded, patch_source=submission.source, task_source=session.task_source)
        metadata = {**(response.metadata or {}), **patch_fields(submission.patch)}
        return {
            "response": {**response.model_dump(mode="json", exclude_unset=True), "metadata": metadata},
            **verdict.model_dump(mode="json"),
            "outcome": graded.outcome.model_dump(mode="json"),
        }

    async def _graded(self, session: Session, submission: Submission) -> Graded:
        report, patch, policy = submission.report, submission.patch, self._policy
        met = report.met.failure if report.met else None
        decision = policy.decide(met.stage, met.kind) if met else None
        ends_here = met if decision and decision.verdict in ("masked", "unresolved") else None
        failure = submission.broke or ends_here
        if failure is not None:
            graded = Graded(failed_outcome(session.task, policy, self._provider.name, failure, patch=patch))
        else:
            order = Order.of(session.task, patch, self._settings.tests_timeout_s, self._settings.control)
            graded = await self._verifier.grade(order)
        outcome = graded.outcome
        if report.end is not None or submission.broke is None:
            outcome = with_end(outcome, report.end or AgentEnd(), met, None if failure else decision)
        return graded._replace(outcome=_flagged(outcome, report.flags))


def _flagged(outcome: Outcome, flags: tuple[str, ...]) -> Outcome:
    new = [flag for flag in flags if flag not in outcome.flags]
    return outcome.model_copy(update={"flags": (*outcome.flags, *new)}) if new else outcome
