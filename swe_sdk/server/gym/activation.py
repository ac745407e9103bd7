"""One activation: an agent at work in a borrowed sandbox, and the report of how that went."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from swe_sdk.agents.contract import Agent
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.checkpoint.participants.activation import Activation
from swe_sdk.exports.record import Turn
from swe_sdk.model.budget import Budget
from swe_sdk.model.policy import Policy
from swe_sdk.model.task import Task
from swe_sdk.rollouts.attempt import model_session
from swe_sdk.rollouts.bookmark import Bookmark
from swe_sdk.rollouts.course import Course
from swe_sdk.rollouts.environments import RunEnvironments
from swe_sdk.rollouts.failures import failure_of
from swe_sdk.rollouts.invoke import invoke
from swe_sdk.rollouts.job import Job, Shared
from swe_sdk.rollouts.live import LiveRollout, LiveRollouts
from swe_sdk.rollouts.no_journal import NoJournal
from swe_sdk.rollouts.plan import Planned
from swe_sdk.rollouts.ports import ModelSource
from swe_sdk.rollouts.settings import RolloutSettings
from swe_sdk.rollouts.verifier import LocalVerifier
from swe_sdk.rollouts.workplace import Workplace
from swe_sdk.sandbox.admission import Admission, AdmissionLimits
from swe_sdk.sandbox.lent_environment import LentEnvironment
from swe_sdk.sandbox.prepared import PreparedEnvironment
from swe_sdk.server.gym.borrowed import BorrowedBox
from swe_sdk.server.gym.report import AgentReport, ReportedFailure, response_of
from swe_sdk.store.events import Event, StepTaken

_MOST_TURNS = 10_000


@dataclass(frozen=True)
class Workshop:
    """What all activations of an agent server have in common."""

    agent: Agent
    policy: Policy
    settings: RolloutSettings
    model: ModelSource | None = None


@dataclass(frozen=True)
class _Served(Planned):
    """A rollout that has the name which its episode has elsewhere."""

    name: str = ""

    @property
    def rollout_id(self) -> str:
        """As the episode's owner calls it."""
        return self.name


@dataclass
class _Steps(NoJournal):
    """Forgets all but the numbers of the agent's steps."""

    turns: list[Turn] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def append(self, event: Event, /) -> None:
        """Keep the numbers of a step."""
        if isinstance(event, StepTaken) and len(self.turns) < _MOST_TURNS:
            numbers = {"seconds": event.seconds, "tokens_in": event.tokens_in, "tokens_out": event.tokens_out}
            self.turns.append(Turn(kind=event.step_kind, **numbers))


class _ParkedByActivation(LiveRollout):
    """Stands where the agent's checkpoint participant says so, and is saved by it."""

    def __init__(self, task: Task, rollout_id: str, activation: Activation) -> None:
        super().__init__(task, rollout_id)
        self._activation = activation

    @property
    def park_requested(self) -> bool:
        """Whether a checkpoint is open."""
        return self._activation.park_requested

    async def wait_park_requested(self) -> None:
        """Until one is."""
        await self._activation.wait_park_requested()

    async def stand(self, bookmark: Bookmark) -> None:
        """Until it is over."""
        self.bookmark = bookmark
        await self._activation.boundary(bookmark.model_dump(mode="json"))


async def activate(
    workshop: Workshop, task: Task, box: BorrowedBox, episode_id: EpisodeId, activation: Activation
) -> dict[str, Any]:
    """The agent's response; whatever went wrong is in its report, never an exception."""
    journal = _Steps()
    live = _ParkedByActivation(task, episode_id.rollout_id, activation)
    saved = activation.take_continuation()
    start = None if saved is None else Bookmark.model_validate(saved)
    planned = _Served(task, attempt=episode_id.attempt + 1, name=episode_id.rollout_id)
    job = Job(_shared(workshop, box, journal), planned, live)
    course = Course(job, planned.attempt, start.budget if start else Budget(), start)
    course.base_commit = box.task.base_commit
    broke = None
    try:
        await _work(course, box)
    except Exception as error:  # noqa: BLE001  the boundary: whatever goes wrong is told in the report
        broke = ReportedFailure.of(failure_of(error, course.stage))
    finally:
        journal.close()
    return response_of(_report(course, journal.turns, broke), course.end.patch if course.end else None)


async def _work(course: Course, box: BorrowedBox) -> None:
    course.stage = "seed"
    prepared = PreparedEnvironment(key="", workdir=box.task.workdir, base_commit=box.task.base_commit or "HEAD")
    place = Workplace(box, LentEnvironment(prepared=prepared))
    async with AsyncExitStack() as stack:
        session = await model_session(course, stack, place)
        async with course.within("invoke_agent"):
            await invoke(course, place, session)


def _report(course: Course, turns: list[Turn], broke: ReportedFailure | None) -> AgentReport:
    agent, end, met = course.job.shared.agent, course.end, course.end_failure
    told = course.report(None)
    return AgentReport(
        agent=agent.name,
        agent_version=agent.version,
        model=course.model.access.name if course.model else "",
        end=None if end is None else end.model_copy(update={"patch": None}),
        met=None if met is None or broke is not None else ReportedFailure.of(met),
        broke=broke,
        flags=told.flags,
        stages_s=told.stages_s,
        commands=told.commands,
        commands_s=told.commands_s,
        turns=tuple(turns),
    )


def _shared(workshop: Workshop, box: BorrowedBox, journal: NoJournal) -> Shared:
    """Of one activation: its provider is where its sandbox was lent from. Nothing is made there, and nothing graded."""
    provider = box.provider
    return Shared(
        agent=workshop.agent,
        provider=provider,
        environments=RunEnvironments(provider, build_timeout_s=1.0, scrub=False),
        settings=workshop.settings,
        policy=workshop.policy,
        budget=Budget(),
        verifier=LocalVerifier(provider=provider, policy=workshop.policy),
        model=workshop.model,
        journal=journal,
        admission=Admission(AdmissionLimits(creates=None, boxes=None, execs=None)),
        lives=LiveRollouts(),
        clock=time.monotonic,
    )
