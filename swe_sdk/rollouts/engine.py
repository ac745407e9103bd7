"""One rollout: its attempts, until one of them is a measurement or none is left."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from swe_sdk.agents.contract import Agent, Prepares
from swe_sdk.agents.registry import make_agent
from swe_sdk.errors import SandboxError
from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.policy import Policy, get_policy
from swe_sdk.model.task import Task
from swe_sdk.rollouts.attempt import Finding, run_attempt
from swe_sdk.rollouts.bookmark import Bookmark
from swe_sdk.rollouts.diary import Diary
from swe_sdk.rollouts.environments import RunEnvironments
from swe_sdk.rollouts.failures import unrecorded_outcome
from swe_sdk.rollouts.job import Job, Shared
from swe_sdk.rollouts.live import LiveRollout, LiveRollouts
from swe_sdk.rollouts.meter import Clock
from swe_sdk.rollouts.no_journal import NoJournal
from swe_sdk.rollouts.plan import Planned
from swe_sdk.rollouts.ports import EventSink, ModelSource, Verifier
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.rollouts.settings import RolloutSettings, RunLimits
from swe_sdk.rollouts.verifier import LocalVerifier
from swe_sdk.sandbox.admission import Admission, AdmissionLimits
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.registry import get_provider
from swe_sdk.store.events import RolloutEnded, RolloutQueued


async def run_rollout(
    task: Task,
    agent: Agent | str,
    *,
    provider: SandboxProvider | str = "auto",
    sample: int = 0,
    attempt: int = 1,
    budget: Budget | None = None,
    settings: RolloutSettings | None = None,
    policy: Policy | str = "default",
    verifier: Verifier | None = None,
    model: ModelSource | None = None,
    journal: EventSink | None = None,
    live: LiveRollouts | None = None,
    start: Bookmark | None = None,
    on_progress: Callable[[str], None] | None = None,
    clock: Clock = time.monotonic,
) -> RolloutResult:
    """Let ``agent`` work on ``task`` in a sandbox, and grade its patch in another.

    Whatever the agent and its program do is in the result, never an exception; infrastructure trouble is a mask, as the
    ``policy`` says. A mask that is worth it is followed by a new attempt (``settings.retries``), which starts over with
    the ``budget`` of the first, or only verifies again where that is all that failed; ``evidence`` keeps what was lost.

    ``verifier`` grades; by default this process does, on the same provider. ``model`` is needed by agents that talk to
    one. ``journal`` hears of everything before anybody else. ``live`` gets the rollout while it runs. ``start`` is
    where it goes on, with ``attempt`` and ``budget``.

    Raises ``InputError`` for arguments that make no sense, and ``PrerequisiteError`` where the provider does not work.
    """
    planned = Planned(task, sample, attempt, budget, start)
    async with shared_by_run(
        agent,
        provider=provider,
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
        queue(shared, planned)
        return await roll_out(shared, planned)


@asynccontextmanager
async def shared_by_run(
    agent: Agent | str,
    *,
    provider: SandboxProvider | str = "auto",
    limits: RunLimits | None = None,
    budget: Budget | None = None,
    settings: RolloutSettings | None = None,
    policy: Policy | str = "default",
    verifier: Verifier | None = None,
    model: ModelSource | None = None,
    journal: EventSink | None = None,
    live: LiveRollouts | None = None,
    on_progress: Callable[[str], None] | None = None,
    clock: Clock = time.monotonic,
) -> AsyncIterator[Shared]:
    """What all rollouts of a run have in common. Raises ``InputError`` and ``PrerequisiteError``."""
    settings, limits, policy = settings or RolloutSettings(), limits or RunLimits(), get_policy(policy)
    agent = make_agent(agent)
    with anyio.fail_after(settings.build_timeout_s):
        provider = await get_provider(provider)
        if isinstance(agent, Prepares):
            await agent.prepare()
    environments = RunEnvironments(
        provider, build_timeout_s=settings.build_timeout_s, scrub=settings.scrub_history, on_progress=on_progress
    )
    forgetting = NoJournal()
    try:
        yield Shared(
            agent=agent,
            provider=provider,
            environments=environments,
            settings=settings,
            policy=policy,
            budget=budget or Budget(),
            verifier=verifier or LocalVerifier(provider=provider, policy=policy),
            model=model,
            journal=journal or forgetting,
            admission=Admission(AdmissionLimits(creates=limits.creates, boxes=limits.boxes, execs=None)),
            lives=live if live is not None else LiveRollouts(),
            clock=clock,
            on_progress=on_progress,
        )
    finally:
        forgetting.close()


def queue(shared: Shared, planned: Planned) -> None:
    """Tell the journal that there is to be such a rollout. Raises ``NoSpace``."""
    shared.journal.append(queued_event(planned, shared.agent, shared.provider.name))


def queued_event(planned: Planned, agent: Agent, provider: str) -> RolloutQueued:
    """What the journal hears of a rollout before it begins."""
    task = planned.task
    return RolloutQueued(
        rollout_id=planned.rollout_id,
        instance_id=task.instance_id,
        sample=planned.sample,
        family=task.family,
        repo=task.repo,
        agent=agent.name,
        agent_version=agent.version,
        provider=provider,
    )


async def roll_out(shared: Shared, planned: Planned) -> RolloutResult:
    """One rollout to its end. Raises nothing but cancellation."""
    live = LiveRollout(planned.task, planned.rollout_id, attempt=planned.attempt)
    shared.lives.add(live)
    try:
        findings = await _attempts(Job(shared, planned, live))
        attempt = planned.attempt + len(findings) - 1
        outcome, is_recorded = await _ended(shared, planned, attempt, findings[-1].outcome)
    finally:
        shared.lives.remove(live)  # not before its end is written down: a checkpoint holds it, or the journal does
    return RolloutResult(
        rollout_id=planned.rollout_id,
        instance_id=planned.task.instance_id,
        sample=planned.sample,
        attempt=attempt,
        agent=shared.agent.name,
        agent_version=shared.agent.version,
        outcome=outcome,
        patch=findings[-1].patch,
        attempts=tuple(finding.report for finding in findings),
        is_recorded=is_recorded,
    )


async def _attempts(job: Job) -> list[Finding]:
    """All attempts; the last of them counts."""
    planned, retries = job.planned, job.settings.retries
    fresh = planned.budget or job.shared.budget
    budget, start = fresh, planned.start
    findings: list[Finding] = []
    earlier: list[dict[str, Any]] = []
    while True:
        number = planned.attempt + len(findings)
        finding = await run_attempt(job, number, budget, start, earlier, last=len(findings) >= retries)
        findings.append(finding)
        mask = finding.outcome.mask
        if mask is None or not mask.retryable or len(findings) > retries:
            return findings
        earlier.append({"attempt": number, **mask.model_dump(mode="json"), "stages_s": finding.report.stages_s})
        start = finding.resume or job.live.newest or planned.start
        budget = fresh if start is None or start is planned.start else start.budget


async def _ended(shared: Shared, planned: Planned, attempt: int, outcome: Outcome) -> tuple[Outcome, bool]:
    """Tell the journal that the rollout is over; where that fails, its outcome is masked. And whether it succeeded."""
    diary = Diary(shared.journal, planned.rollout_id, attempt)
    try:
        await diary.tell(RolloutEnded, status=outcome.status, reward=outcome.reward, reason=outcome.reason)
    except (SandboxError, OSError) as error:
        return unrecorded_outcome(planned.task, shared.policy, shared.provider.name, outcome, error), False
    return outcome, True
