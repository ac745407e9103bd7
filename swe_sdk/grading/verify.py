"""Grade one patch: key, single flight, environment, attempts, outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar

from swe_sdk.errors import CapabilityMissing, InputError, SandboxError, UnknownProvider
from swe_sdk.grading.classify import Failure, classify
from swe_sdk.grading.job import Job
from swe_sdk.grading.key import grading_key
from swe_sdk.grading.measure import measure
from swe_sdk.grading.needs import with_mounts
from swe_sdk.grading.settings import DEFAULT_DISK_MIB, GradeSettings
from swe_sdk.grading.single_flight import FlightCancelled, SingleFlight
from swe_sdk.grading.sink import OutcomeSink
from swe_sdk.grading.trace import Trace
from swe_sdk.grading.verdict import Subject, outcome_of
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import Policy, get_policy
from swe_sdk.model.task import Task
from swe_sdk.recipes.contract import Recipe
from swe_sdk.recipes.registry import get_recipe
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.outage import outlast_outage
from swe_sdk.sandbox.registry import get_provider

_KEPT_OUTCOMES = 256
_flights: RunVar[SingleFlight[Outcome]] = RunVar("swe_sdk_grades")


@dataclass(frozen=True)
class Request:
    """What :func:`grade` was asked for, checked."""

    task: Task
    patch: Patch
    provider: SandboxProvider | str
    policy: Policy
    settings: GradeSettings
    results: OutcomeSink | None = None
    share: bool = True
    reuse: bool = False
    on_progress: Callable[[str], None] | None = None


async def grade(
    task: Task,
    patch: Patch | bytes | str | None,
    *,
    provider: SandboxProvider | str = "auto",
    policy: Policy | str = "default",
    tests_timeout_s: float = 1800.0,
    attempt_timeout_s: float | None = None,
    build_timeout_s: float = 1800.0,
    disk_mib: int | None = DEFAULT_DISK_MIB,
    retries: int = 1,
    results: OutcomeSink | None = None,
    share: bool = True,
    reuse: bool = False,
    on_progress: Callable[[str], None] | None = None,
) -> Outcome:
    """What ``patch`` is worth on ``task``, measured in a fresh sandbox.

    Whatever the submission does is in the Outcome, never an exception. So is infrastructure trouble: it becomes a mask
    as the ``policy`` says, and attempts whose mask is retryable are repeated up to ``retries`` times, each in a fresh
    sandbox; ``evidence["earlier_attempts"]`` keeps what they met.

    ``tests_timeout_s`` is for the tests alone, ``attempt_timeout_s`` (default: ten minutes more) for a whole attempt,
    ``build_timeout_s`` for an environment that must be built first (``on_progress`` hears of its steps). ``disk_mib``
    is for all files that the graded programs write. With ``results``, log, patch and outcome are on disk before this
    returns.

    Equal grades that run at the same time in one event loop share one execution (``share``); none of their callers can
    cancel it for the others. ``reuse=True`` accepts an earlier outcome of the same content key from this loop;
    masked outcomes are never reused.

    Raises ``InputError`` for arguments that make no sense (an unknown provider or policy, impossible timeouts).
    """
    settings = GradeSettings.of(
        tests_timeout_s=tests_timeout_s,
        attempt_timeout_s=attempt_timeout_s,
        build_timeout_s=build_timeout_s,
        disk_mib=disk_mib,
        retries=retries,
    )
    request = Request(task, Patch.of(patch), provider, get_policy(policy), settings, results, share, reuse, on_progress)
    return await _record(request, await _with_retries(request))


async def _with_retries(request: Request) -> Outcome:
    earlier: list[dict[str, Any]] = []
    while True:
        outcome = await _once(request, earlier)
        if outcome.mask is None or not outcome.mask.retryable or len(earlier) >= request.settings.retries:
            return outcome
        earlier.append({**outcome.mask.model_dump(mode="json"), "timings_s": outcome.timings_s})


async def _once(request: Request, earlier: list[dict[str, Any]]) -> Outcome:
    """One attempt, or a share in one that is under way."""
    trace = Trace()
    try:
        job = await _prepared_job(request, trace)
    except UnknownProvider:
        raise
    except Exception as error:  # noqa: BLE001  # the boundary: what keeps a grade from starting becomes a mask
        return _never_started(request, classify(error, trace.stage), trace, earlier)
    work = partial(measure, job, trace, request.results, earlier)
    if not request.share:
        return await work()
    try:
        return await _shared().run(job.key, work, reuse=request.reuse)
    except FlightCancelled as error:
        return _never_started(request, Failure("cancelled", trace.stage, str(error)), trace, earlier)


async def _prepared_job(request: Request, trace: Trace) -> Job:
    """Everything that a grade needs before its sandbox is made."""
    task, settings = request.task, request.settings
    recipe = _gradable(task)
    provider = await get_provider(request.provider)
    await outlast_outage(provider, on_progress=request.on_progress)
    with trace.step("environment", "environment"), anyio.fail_after(settings.build_timeout_s):
        prepared = await prepare(provider, task.environment, on_progress=request.on_progress)
    prepared = with_mounts(prepared, recipe, task)
    key = _key(request, recipe=recipe, provider=provider.name, environment_key=prepared.key)
    return Job(task, request.patch, recipe, request.policy, settings, provider, prepared, key)


def _gradable(task: Task) -> Recipe:
    """The task's recipe, if the task can be graded at all; ``InputError`` or ``PrerequisiteError`` if not."""
    recipe = get_recipe(task.family)
    if not task.grading.fail_to_pass + task.grading.pass_to_pass:
        raise InputError(f"{task.instance_id}: the task requires no test", remedy="give it fail_to_pass ids")
    if not task.grading.test_command.strip():
        raise InputError(f"{task.instance_id}: nothing says how to run the tests", remedy="give it a test_command")
    if task.grading.test_assets:
        raise CapabilityMissing("binary test files from the network cannot be installed yet")
    recipe.parse(task, "")  # an unknown parser shows itself before anything is run
    return recipe


def _never_started(request: Request, failure: Failure, trace: Trace, earlier: list[dict[str, Any]]) -> Outcome:
    provider = request.provider if isinstance(request.provider, str) else request.provider.name
    key = _key(request, recipe=None, provider=provider, environment_key=None)
    if earlier:
        trace.evidence["earlier_attempts"] = list(earlier)
    return outcome_of(Subject(request.task, request.patch, request.policy, provider, key), failure, trace)


def _key(request: Request, *, recipe: Recipe | None, provider: str, environment_key: str | None) -> str:
    return grading_key(
        request.task,
        request.patch,
        recipe=recipe,
        policy=request.policy,
        provider=provider,
        environment_key=environment_key,
        bounds=request.settings.bounds,
    )


async def _record(request: Request, outcome: Outcome) -> Outcome:
    """Put the outcome on the list of its sink; where that fails, a masked outcome says so instead."""
    if request.results is None:
        return outcome
    try:
        await to_thread.run_sync(request.results.append, outcome)
    except (SandboxError, OSError) as error:
        failure = classify(error, "teardown")
        trace = Trace(evidence={"unrecorded": outcome.model_dump(mode="json")})
        subject = Subject(request.task, request.patch, request.policy, outcome.provider, outcome.key)
        return outcome_of(subject, failure, trace)
    return outcome


def _shared() -> SingleFlight[Outcome]:
    """The grades under way in this event loop."""
    try:
        return _flights.get()
    except LookupError:
        flights: SingleFlight[Outcome] = SingleFlight(keep=_KEPT_OUTCOMES, keepable=lambda o: not o.masked)
        _flights.set(flights)
        return flights
