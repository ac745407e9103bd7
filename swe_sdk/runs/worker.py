"""What a worker does for a run that is carried out on many nodes: its rollouts, into a journal of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import anyio
from anyio import to_thread
from pydantic import Field

from swe_sdk.executors.contract import Done
from swe_sdk.executors.grade_work import seen_from
from swe_sdk.executors.place import Place
from swe_sdk.model.record import Record
from swe_sdk.model.task import Task
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.rollouts.engine import roll_out, shared_by_run
from swe_sdk.rollouts.job import Shared
from swe_sdk.rollouts.many import Planned
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.runs.checkpoints.keeping import Keeping
from swe_sdk.runs.checkpoints.node_keeper import NodeKeeper, kept_on_node
from swe_sdk.runs.checkpoints.series import has_indexes
from swe_sdk.runs.checkpoints.snapshots import tidy_node
from swe_sdk.runs.execute import Order, opened_verifier, ready_provider
from swe_sdk.runs.folder import RunPlan
from swe_sdk.runs.model_way import opened_model
from swe_sdk.runs.setup import from_plan, terms
from swe_sdk.store.writer import RunWriter

_OVER_CAP_S = 60.0
ROLL_OUT, PUT_AWAY = f"{__name__}:carry_out_rollout", f"{__name__}:put_run_away"


class RolloutOrder(Record):
    """A rollout of a run. No key of a model is in it: workers have that in their environment."""

    run: str
    """The run directory of who asks."""
    plan: RunPlan
    task: dict[str, Any]
    """All of it, hidden tests included (``Task.private``)."""
    sample: int
    attempt: int
    retries: int = Field(ge=0)
    """Further attempts that it has left."""
    missed: str = ""
    """Why it is not given to the node that has its snapshot."""
    afresh: bool = False
    """Whether it starts over, whatever is saved of it."""


class PutAwayOrder(Record):
    """A run that is over."""

    run: str


async def carry_out_rollout(order: dict[str, Any], place: Place) -> Done:
    """A RolloutResult; all of it is in the run directory, in this process's journal.

    What was masked is rolled out again when it is asked for again.
    """
    asked = RolloutOrder.model_validate(order)
    task = Task.model_validate(asked.task)
    opened = await place.keep(_name(asked.run), partial(_opened_run, asked, task, place))
    settings = opened.shared.settings.model_copy(update={"retries": asked.retries})
    planned = Planned(task, asked.sample, attempt=asked.attempt)
    result: RolloutResult | None = None
    try:
        planned = await opened.keeper.begins(planned, missed=asked.missed, afresh=asked.afresh)
        result = await roll_out(replace(opened.shared, settings=settings), planned)
    finally:
        with anyio.move_on_after(_OVER_CAP_S, shield=True):
            await opened.keeper.is_over(planned.rollout_id, result)
    outcome = seen_from(asked.run, place.folder(asked.run), result.outcome)
    result = result.model_copy(update={"outcome": outcome})
    return Done(result.model_dump(mode="json"), reusable=not outcome.masked)


async def put_run_away(order: dict[str, Any], place: Place) -> None:
    """Close what this process has open for a run: its journal is complete then. Snapshots that nobody needs go."""
    run = PutAwayOrder.model_validate(order).run
    await place.let_go(_name(run))
    if await to_thread.run_sync(has_indexes, place.folder(run)):
        await tidy_node(place.folder(run))


def _name(run: str) -> str:
    return f"run {run}"


class OpenedRun(NamedTuple):
    """A run, as one process works on it."""

    shared: Shared
    keeper: NodeKeeper


@asynccontextmanager
async def _opened_run(order: RolloutOrder, task: Task, place: Place) -> AsyncIterator[OpenedRun]:
    """What all rollouts of the run have in common in this process."""
    setup = await to_thread.run_sync(from_plan, order.plan, TaskSet([task]))
    async with ready_provider(setup) as provider:
        with await to_thread.run_sync(RunWriter, place.folder(order.run)) as writer:
            async with (
                opened_verifier(Order(setup, ()), provider) as verifier,
                opened_model(setup, writer) as model,
                kept_on_node(
                    writer,
                    setup.agent,
                    provider,
                    keeping=Keeping.of(setup.config),
                    gateway=None if model is None else model.gateway,
                ) as keeper,
                shared_by_run(
                    setup.agent,
                    **terms(setup, provider.name),
                    provider=provider,
                    verifier=verifier,
                    model=model,
                    journal=writer,
                    live=keeper.lives,
                ) as shared,
            ):
                yield OpenedRun(shared, keeper)
