"""One attempt at a rollout: seed, invoke_agent, close_agent, verify, return."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import TypeVar

from swe_sdk.agents.contract import AgentEnd
from swe_sdk.errors import CapabilityMissing, SandboxError, VerifierError
from swe_sdk.grading.classify import Failure
from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import EMPTY_PATCH, Patch
from swe_sdk.rollouts.bookmark import Bookmark
from swe_sdk.rollouts.course import Course
from swe_sdk.rollouts.failures import failed_outcome, failure_of, with_end
from swe_sdk.rollouts.invoke import invoke
from swe_sdk.rollouts.job import Job
from swe_sdk.rollouts.meter import OutOfTime
from swe_sdk.rollouts.ports import ModelSession
from swe_sdk.rollouts.result import AttemptReport
from swe_sdk.rollouts.verifier import LocalVerifier
from swe_sdk.rollouts.workplace import Workplace, opened_within, workplace
from swe_sdk.sandbox.build import stop_everything
from swe_sdk.sandbox.tree import take_patch_whatever
from swe_sdk.store.events import AttemptEnded, AttemptStarted, OutcomeReached

T = TypeVar("T")

_STEPS_OF_CLOSING = 6
"""Taking a patch takes at most four steps and the end of what runs; each has this part of the stage's time."""
_BEFORE_VERIFY = ("seed", "invoke_agent", "close_agent")


@dataclass(frozen=True)
class Finding:
    """What came of an attempt."""

    outcome: Outcome
    patch: Patch
    report: AttemptReport
    resume: Bookmark | None
    """Where a new attempt may go on, if it need not start over: the agent's work is there, and was not verified."""


async def run_attempt(
    job: Job, number: int, budget: Budget, start: Bookmark | None, earlier: list[dict[str, object]], *, last: bool
) -> Finding:
    """The outcome of one attempt, told to the journal; ``last`` = none may follow. Raises nothing but cancellation."""
    course = Course(job, number, budget, start)
    try:
        outcome = await _outcome(course)
        if earlier:
            outcome = outcome.model_copy(
                update={"evidence": {**outcome.evidence, "earlier_rollout_attempts": list(earlier)}}
            )
        outcome = await _recorded(course, outcome, last=last)
    except BaseException:
        course.diary.note(AttemptEnded, reason="cancelled")
        raise
    resume = course.bookmark("verify") if course.patch is not None and course.at in ("verify", "return") else None
    return Finding(outcome, course.patch or EMPTY_PATCH, course.report(outcome.mask), resume)


async def _outcome(course: Course) -> Outcome:
    try:
        await course.diary.tell(
            AttemptStarted,
            provider=course.job.shared.provider.name,
            restored_from=course.start.checkpoint_id if course.start else None,
            boundary=course.start.next if course.start else None,
            restart_reason=course.restart_reason,
        )
        outcome = await _travel(course)
    except Exception as error:  # noqa: BLE001  # the boundary: whatever goes wrong becomes an outcome
        outcome = _failed(course, failure_of(error, course.stage))
    flags = [flag for flag in course.flags if flag not in outcome.flags]
    return outcome.model_copy(update={"flags": (*outcome.flags, *flags)}) if flags else outcome


async def _travel(course: Course) -> Outcome:
    """All stages but the last, from where the attempt starts."""
    following = course.start.next if course.start else "seed"
    if following in _BEFORE_VERIFY:
        await _work(course)
    failure, decision = course.end_failure, course.end_decision
    if failure is not None and decision is not None and decision.verdict in ("masked", "unresolved"):
        return _failed(course, failure)
    if following != "return" or course.outcome is None:
        await course.boundary("verify")
        course.outcome = await _verify(course)
    await course.boundary("return")
    return with_end(course.outcome, course.end or AgentEnd(), failure, decision)


def _failed(course: Course, failure: Failure) -> Outcome:
    shared, patch = course.job.shared, course.patch or EMPTY_PATCH
    outcome = failed_outcome(course.job.task, shared.policy, shared.provider.name, failure, patch=patch)
    return outcome if course.end is None else with_end(outcome, course.end, course.end_failure, None)


# -- the agent's part --------------------------------------------------------------------------------------------------


async def _work(course: Course) -> None:
    """Seed, invoke_agent and close_agent: the box is there from the first to the last of them."""
    job, shared = course.job, course.job.shared
    lent = await shared.environments.get(job.task.environment)
    course.stage = "seed"
    slot = await shared.admission.box(job.rollout_id)
    try:
        async with AsyncExitStack() as stack:
            async with course.within("seed"):
                place = await _open(course, stack, workplace(job, lent, course.start, course.flags))
                session = await model_session(course, stack, place)
                course.base_commit = place.lent.prepared.base_commit
                course.environment_key = place.lent.prepared.key
            if course.start is None or course.start.next != "close_agent":
                await course.boundary("invoke_agent")
                async with course.within("invoke_agent"):
                    await invoke(course, place, session)
            await course.boundary("close_agent")
            await _take_patch(course, place)
    finally:
        slot.release()


async def model_session(course: Course, stack: AsyncExitStack, place: Workplace) -> ModelSession | None:
    """The way to the model, where the agent needs one; tried before the agent begins."""
    shared = course.job.shared
    if shared.agent.needs.egress == "none":
        return None
    if shared.model is None:
        raise CapabilityMissing(f"the agent {shared.agent.name} needs a model", remedy="give the run a model")
    way = shared.model.connect(
        shared.provider,
        place.box,
        rollout_id=course.job.rollout_id,
        attempt=course.number,
        used=course.model_usage,
    )
    course.model = await _open(course, stack, way)
    return course.model


async def _open(course: Course, stack: AsyncExitStack, opening: AbstractAsyncContextManager[T]) -> T:
    """Enter a context manager within the time of the seed; it is left with the stack."""
    settings, left_s = course.job.settings, course.meter.remaining_s
    seconds = settings.seed_timeout_s
    late = OutOfTime("timeout", f"the agent could not begin within {seconds:.0f} s")
    if left_s is not None and left_s < seconds:
        seconds, late = left_s, OutOfTime("budget_spent", "the budget was spent before the agent could begin")
    return await stack.enter_async_context(opened_within(opening, seconds, late, closing_s=settings.teardown_timeout_s))


async def _take_patch(course: Course, place: Workplace) -> None:
    settings, end = course.job.settings, course.end
    async with course.within("close_agent"):
        if end is not None and end.patch is not None and settings.patch_source == "agent_or_tree":
            course.patch = end.patch
        else:
            with course.meter.deadline(settings.close_timeout_s, bound_by_budget=False) as deadline:
                await stop_everything(place.box)
                course.patch = await take_patch_whatever(
                    course.job.shared.provider,
                    place.lent.prepared,
                    place.box,
                    mode=settings.patch_mode,
                    before=place.lent.before,
                    timeout_s=settings.close_timeout_s / _STEPS_OF_CLOSING,
                )
            deadline.check("the patch could not be taken")
        assert course.patch is not None
        await course.diary.save_patch(course.patch)


# -- afterwards --------------------------------------------------------------------------------------------------------


async def _verify(course: Course) -> Outcome:
    job, shared, patch = course.job, course.job.shared, course.patch or EMPTY_PATCH
    cap_s = job.settings.verify_timeout_s
    slot, verifier = None, shared.verifier
    if isinstance(verifier, LocalVerifier):
        verifier = verifier.for_attempt(
            shared.journal, job.rollout_id, course.diary.attempt, on_progress=shared.on_progress
        )
        slot = await shared.admission.box(job.rollout_id)
    try:
        async with course.within("verify"):
            with course.meter.deadline(cap_s, bound_by_budget=False) as deadline:
                outcome = await verifier.verify(job.task, patch, deadline_s=cap_s)
            deadline.check("the verifier gave no answer")
    finally:
        if slot is not None:
            slot.release()
    if outcome.instance_id != job.task.instance_id:
        raise VerifierError(f"the verifier answered about {outcome.instance_id}, not {job.task.instance_id}")
    return outcome


async def _recorded(course: Course, outcome: Outcome, *, last: bool) -> Outcome:
    """Tell the journal; where that fails, the attempt is masked, since nothing is reported that is not on disk."""
    course.outcome = outcome
    will_retry = outcome.mask is not None and outcome.mask.retryable and not last
    reason = outcome.mask.kind if outcome.mask else course.end.reason if course.end else "done"
    exit_code = course.end.exit_code if course.end else None
    try:
        async with course.within("return"):
            if course.diary.trouble is not None:
                raise course.diary.trouble
            await course.diary.tell(OutcomeReached, outcome=outcome)
        await course.diary.tell(
            AttemptEnded, reason=reason, message=outcome.reason, exit_code=exit_code, will_retry=will_retry
        )
    except (SandboxError, OSError) as error:
        shared = course.job.shared
        masked = failed_outcome(
            course.job.task,
            shared.policy,
            shared.provider.name,
            failure_of(error, "return"),
            patch=course.patch or EMPTY_PATCH,
        )
        return masked.model_copy(update={"evidence": {"unrecorded": outcome.model_dump(mode="json")}})
    return outcome
