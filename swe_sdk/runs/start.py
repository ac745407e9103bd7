"""Start a run, go on with one, open one."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread

from swe_sdk import paths
from swe_sdk.agents.contract import Agent
from swe_sdk.agents.gateway.endpoint import ModelEndpoint
from swe_sdk.config.model import ModelConfig
from swe_sdk.config.resolve import ConfigLike, validated
from swe_sdk.errors import InputError
from swe_sdk.executors.registry import ExecutorLike, executor_name, require_own_limit
from swe_sdk.model.ids import safe_name
from swe_sdk.model.policy import Policy
from swe_sdk.rollouts.many import Planned, plan
from swe_sdk.rollouts.ports import Verifier
from swe_sdk.runs.checkpoints.places import require_original
from swe_sdk.runs.elsewhere import way_to_carry_out
from swe_sdk.runs.execute import OnResult, Order
from swe_sdk.runs.folder import RunPlan, is_half_made, never_began, save_plan
from swe_sdk.runs.given import TasksLike, require_given
from swe_sdk.runs.lock import held_run
from swe_sdk.runs.run import Run
from swe_sdk.runs.setup import Setup, from_plan, set_up
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.store.layout import is_run, last_attempt, make_run
from swe_sdk.store.rows import RolloutRow
from swe_sdk.store.writer import RunWriter

Duration = float | str | timedelta
"""Seconds, or a text such as "30m"."""


async def run(
    tasks: TasksLike,
    agent: Agent | str | None = None,
    *,
    budget: Duration | None = None,
    checkpoint_every: Duration | None = None,
    samples: int | None = None,
    provider: SandboxProvider | str | None = None,
    limit: int | None = None,
    policy: Policy | str | None = None,
    verifier: Verifier | str | None = None,
    model: ModelEndpoint | ModelConfig | None = None,
    executor: ExecutorLike = None,
    config: ConfigLike = None,
    preset: str | None = None,
    path: Path | str | None = None,
    name: str = "",
    progress: bool = True,
    on_result: OnResult | None = None,
    **settings: Any,
) -> Run:
    """Let an agent work on each task, grade what it did, and keep all of it in a run directory.

    ``tasks`` are tasks or where to load them from, ``agent`` is a name (``swe_sdk.agents.registry``) or an agent.
    ``budget`` is for all stages of a rollout together, ``samples`` how many rollouts each task gets, ``limit`` how many
    run at a time. ``verifier`` is the URL of a verifier that grades instead of this process. ``model`` is the endpoint
    for agents that want one. ``executor`` is where rollouts run ("ray", "slurm", or an executor of
    ``swe_sdk.executors``; by default this process); ``limit`` is then for each node. ``preset`` ("evaluation" or
    "training") and ``config`` (a file, or settings by name) say the rest, and so does any other setting of
    :class:`~swe_sdk.config.model.RunConfig` by its name; arguments win.

    With ``checkpoint_every`` all rollouts that are under way are saved so often, and :func:`resume` goes on from there;
    ``keep_last`` (2), ``keep_every`` and ``keep_best`` say which checkpoints are kept.

    ``path`` = the run directory, new or empty; by default one below ``paths.runs_dir()``. No rollout can stop the
    others: whatever goes wrong in one is in its outcome. Cancellation (Ctrl-C) closes every sandbox and leaves a run
    that :func:`resume` goes on with.

    Raises ``InputError`` and ``PrerequisiteError``, before anything is made.
    """
    require_own_limit(executor, limit)
    setup: Setup = await to_thread.run_sync(
        partial(
            set_up,
            tasks,
            agent,
            provider=provider,
            policy=policy,
            model=model,
            config=config,
            preset=preset,
            name=name,
            handed_over=tuple(
                what
                for what, given in (("verifier", verifier), ("executor", executor))
                if not isinstance(given, str | None)
            ),
            **{
                "budget_s": budget,
                "checkpoint_every_s": checkpoint_every,
                "samples": samples,
                "limit": limit,
                "verifier": _url(verifier),
                "executor": None if executor is None else executor_name(executor),
                **settings,
            },
        )
    )
    order = Order(
        setup,
        plan(setup.tasks, setup.config.samples),
        verifier=None if isinstance(verifier, str | None) else verifier,
        progress=progress,
        on_result=on_result,
    )
    async with way_to_carry_out(order, executor or setup.config.executor) as carry_out:
        folder = await to_thread.run_sync(_new_folder, path, setup)
        with held_run(folder), await to_thread.run_sync(_new_writer, folder, setup) as writer:
            await carry_out(writer, resumed=False)
    return await open_run(folder)


async def resume(
    path: Path | str | Run,
    *,
    agent: Agent | str | None = None,
    provider: SandboxProvider | str | None = None,
    verifier: Verifier | str | None = None,
    model: ModelEndpoint | ModelConfig | None = None,
    executor: ExecutorLike = None,
    limit: int | None = None,
    retry_masked: bool = False,
    progress: bool = True,
    on_result: OnResult | None = None,
) -> Run:
    """Go on with a run that was stopped or killed: with its own tasks and settings, in its own directory.

    Finished rollouts are kept as they are (``retry_masked`` tries those again whose mask is worth it). What the newest
    complete checkpoint holds goes on from there, as a new attempt with what is left of its budget. All others start
    over, with a whole budget; what earlier attempts left stays there to be looked at. What was handed to :func:`run` as
    an object, and has no name to make it by, has to be handed over again.

    Raises ``InputError`` where there is no such run, it is under way in another process, or something is missing.
    """
    found = await open_run(path.path if isinstance(path, Run) else path)
    with found, held_run(found.path):
        setup = await to_thread.run_sync(
            partial(
                _setup_of,
                found,
                agent=agent,
                provider=provider,
                verifier=verifier,
                model=model,
                executor=executor,
                limit=limit,
            )
        )
        again = await to_thread.run_sync(_retryable, found) if retry_masked else frozenset[str]()
        left, kept = await to_thread.run_sync(_left_and_kept, found, setup, again)
        order = Order(
            setup,
            left,
            kept=kept,
            afresh=again,
            verifier=None if isinstance(verifier, str | None) else verifier,
            progress=progress,
            on_result=on_result,
        )
        async with way_to_carry_out(order, executor or setup.config.executor) as carry_out:
            with await to_thread.run_sync(RunWriter, found.path) as writer:
                await carry_out(writer, resumed=True)
    return await open_run(found.path)


async def open_run(path: Path | str) -> Run:
    """A run, to look at; ``InputError`` where there is none."""
    return await to_thread.run_sync(Run, path)


def _url(verifier: Verifier | str | None) -> str | None:
    return verifier if isinstance(verifier, str) else None


def _new_folder(path: Path | str | None, setup: Setup) -> Path:
    folder = _new_path(setup) if path is None else Path(path).absolute()
    _require_new(folder)
    make_run(folder)
    return folder


def _new_writer(folder: Path, setup: Setup) -> RunWriter:
    """Of a run that we hold: whoever asked for the same directory at the same time has begun, or never will."""
    _require_new(folder)
    writer = RunWriter(folder)
    try:
        save_plan(writer, setup.plan, setup.tasks)
    except BaseException:
        writer.close()
        raise
    return writer


def _require_new(folder: Path) -> None:
    if is_run(folder):
        if not never_began(folder):
            remedy = f"swe.resume({str(folder)!r}), or another path"
            raise InputError(f"there is a run at {folder} already", remedy=remedy)
    elif folder.is_dir() and not is_half_made(folder):
        raise InputError(f"the directory {folder} is not empty", remedy="give a new one")


def _new_path(setup: Setup) -> Path:
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
    return paths.runs_dir() / f"{stamp}-{safe_name(setup.agent.name)}"


def _setup_of(
    run: Run,
    *,
    agent: Agent | str | None,
    provider: SandboxProvider | str | None,
    verifier: Verifier | str | None,
    model: ModelEndpoint | ModelConfig | None,
    executor: ExecutorLike,
    limit: int | None,
) -> Setup:
    """The run as it was set up, but for what the caller hands over now."""
    plan = run.plan
    if plan is None or not run.tasks:
        raise InputError(f"{run.path} was imported, or never began", remedy="start a new run")
    if run.row.alive:
        raise InputError(f"the run {run.path} is under way in another process", remedy="stop that one first")
    require_original(run.path)
    require_own_limit(executor, limit)
    require_given(agent=agent, provider=provider, model=model)
    _require_same(plan, agent, model)
    handed = {"agent": agent, "provider": provider, "verifier": verifier, "model": model, "executor": executor}
    _require(plan, handed)
    name = None if executor is None else executor_name(executor)
    changes = {"limit": limit, "verifier": _url(verifier), "executor": name}
    told = {key: value for key, value in changes.items() if value is not None}
    config = validated({**plan.config.model_dump(), **told}, dict.fromkeys(told, "argument"))
    return from_plan(plan.model_copy(update={"config": config}), run.tasks, agent=agent, provider=provider, model=model)


def _require_same(plan: RunPlan, agent: Agent | str | None, model: ModelEndpoint | ModelConfig | None) -> None:
    """A run is of one agent and one model: else its numbers are about nobody."""
    named = agent if isinstance(agent, str | None) else agent.name
    asked = None if model is None else model.name if isinstance(model, ModelConfig) else model.model
    known = None if plan.config.model is None else plan.config.model.name
    for what, now, before in (("agent", named, plan.config.agent), ("model", asked, known)):
        if now is not None and before is not None and now != before:
            remedy = f"leave {what} out, or start a new run"
            raise InputError(f"the {what} of this run is {before!r}, and not {now!r}", remedy=remedy)


def _require(plan: RunPlan, handed: Mapping[str, object]) -> None:
    missing = [what for what in plan.given if handed.get(what) is None]
    if missing:
        again = ", ".join(f"{what}=..." for what in missing)
        raise InputError(
            f"the run was started with {' and '.join(missing)} as objects", remedy=f"hand them over again: {again}"
        )


def _left_and_kept(run: Run, setup: Setup, again: Collection[str]) -> tuple[list[Planned], Counter[str]]:
    """What is still to be done, as new attempts; and how many rollouts are finished, by status."""
    rows = {row.rollout_id: row for row in run.rollouts.rows()}
    left, kept = [], Counter[str]()
    for planned in plan(setup.tasks, setup.config.samples):
        row = rows.get(planned.rollout_id)
        if row is not None and _is_kept(row, again):
            kept[row.status] += 1
        else:
            last = max(row.attempt if row else 0, last_attempt(run.path, planned.rollout_id))
            left.append(Planned(planned.task, planned.sample, attempt=last + 1))
    return left, kept


def _is_kept(row: RolloutRow, again: Collection[str]) -> bool:
    """Finished, and not to be tried again. A rollout that was stopped has come to nothing yet."""
    return row.status in ("resolved", "unresolved", "masked") and row.rollout_id not in again


def _retryable(run: Run) -> frozenset[str]:
    masked = run.rollouts.where(status="masked").values()
    return frozenset(each.id for each in masked if each.mask is not None and each.mask.retryable)
