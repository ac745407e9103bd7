"""The stage invoke_agent: the agent works until it ends or its time is up, and facts tell what that means."""

from __future__ import annotations

from typing import Any

import anyio

from swe_sdk.agents.contract import Agent, AgentEnd, AgentTask, TakesGold
from swe_sdk.errors import SandboxError
from swe_sdk.model.task import Task
from swe_sdk.rollouts.course import Course
from swe_sdk.rollouts.episode import LiveEpisode
from swe_sdk.rollouts.failures import failure_of
from swe_sdk.rollouts.lent import Lent
from swe_sdk.rollouts.meter import Deadline
from swe_sdk.rollouts.ports import ModelSession
from swe_sdk.rollouts.transcript import Transcripts
from swe_sdk.rollouts.workplace import Workplace
from swe_sdk.sandbox.contract import Box

_ASK_S = 10.0


async def invoke(course: Course, place: Workplace, session: ModelSession | None) -> None:
    """Run the agent; how it ended is then in the course.

    Raises what keeps the attempt from being a measurement: the box was lost, the model could not be reached, the disk
    is full, or the adapter broke; and whatever else the policy does not want graded.
    """
    settings = course.job.settings
    course.lent = course.job.live.lent = Lent(place.box)
    transcripts = Transcripts(course.diary, settings.max_transcript_bytes)
    error: Exception | None = None
    try:
        with course.meter.deadline(settings.agent_timeout_s) as deadline:
            try:
                course.end = await _run(course, course.lent, session, transcripts, deadline)
            except Exception as caught:  # noqa: BLE001  # the boundary: what an adapter raises is looked at below
                error = caught
    finally:
        with anyio.move_on_after(settings.teardown_timeout_s, shield=True):
            await transcripts.aclose()
    if transcripts.dropped_bytes:
        course.flags.append("transcript_truncated")
    if deadline.passed:
        course.stopped, course.end, error = deadline.kind, _cut_short(deadline, course.end, error), None
    if session is not None and session.refused:
        course.flags.append("model_allowance_spent")
        course.end = _out_of_allowance(course.end)
    await _check_facts(course, place.box, session, transcripts, error)


async def _run(
    course: Course, lent: Lent, session: ModelSession | None, transcripts: Transcripts, deadline: Deadline
) -> AgentEnd:
    job = course.job

    async def on_boundary(state: dict[str, Any] | None) -> None:
        course.agent_state = state
        lent.came_to_a_boundary()
        await course.boundary("invoke_agent")

    episode = LiveEpisode(
        AgentTask.of(job.task, base_commit=course.base_commit),
        lent,
        session,
        live=job.live,
        diary=course.diary,
        transcripts=transcripts,
        deadline=deadline,
        command_timeout_s=job.settings.command_timeout_s,
        max_steps=job.settings.max_steps,
        saved=course.agent_state,
        on_boundary=on_boundary,
    )
    try:
        end: object = await agent_for(job.shared.agent, job.task).run(episode)
    finally:
        if episode.dropped_steps:
            course.flags.append("steps_truncated")
    if not isinstance(end, AgentEnd):
        raise TypeError(f"run() returned {type(end).__name__}, not an AgentEnd")
    return end


def agent_for(agent: Agent, task: Task) -> Agent:
    """The agent for one task: one that plays back the dataset's own solution is given it."""
    return agent.with_gold(task.grading.gold_patch) if isinstance(agent, TakesGold) else agent


def _cut_short(deadline: Deadline, end: AgentEnd | None, error: Exception | None) -> AgentEnd:
    """The end of an agent that was stopped, whatever it said or raised when it heard of that."""
    cause = "its budget was spent" if deadline.kind == "budget_spent" else "its time ran out"
    said = f", and then it raised {type(error).__name__}: {error}" if error else ""
    return (end or AgentEnd()).model_copy(update={"reason": "budget", "message": f"{cause}{said}"})


def _out_of_allowance(end: AgentEnd | None) -> AgentEnd | None:
    """An agent that fails because its calls are refused has come to a limit, and has not failed."""
    if end is None or end.reason != "error":
        return end
    message = f"its allowance of the model was spent: {end.message}"
    return end.model_copy(update={"reason": "step_limit", "message": message})


async def _check_facts(
    course: Course, box: Box, session: ModelSession | None, transcripts: Transcripts, error: Exception | None
) -> None:
    """Raise what the facts outside the agent say; what it says itself comes last."""
    assert course.lent is not None
    if course.lent.lost is not None:
        raise await _why_lost(box, course.lent.lost)
    trouble = course.diary.trouble or transcripts.error
    if trouble is not None:
        raise trouble
    failed = (
        error is not None or course.stopped is not None or (course.end is not None and course.end.reason == "error")
    )
    if failed and session is not None and session.trouble is not None:
        raise session.trouble
    if error is None:
        return
    failure = failure_of(error, "agent")
    if course.job.shared.policy.decide("agent", failure.kind).verdict not in ("grade", "masked_if_resolved"):
        raise error
    course.end = AgentEnd(reason="error", message=failure.reason)


async def _why_lost(box: Box, known: SandboxError) -> SandboxError:
    """A lost box knows best why it was lost (its own programs may have filled its memory), when it is asked."""
    with anyio.move_on_after(_ASK_S):
        try:
            await box.exec(["true"], cwd="/", timeout_s=_ASK_S)
        except SandboxError as error:
            return error
    return known
