"""Carry out a run: one journal, one verifier, one model gateway, and the engine between them."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import anyio

from swe_sdk.agents.contract import Prepares
from swe_sdk.errors import SandboxError
from swe_sdk.progress import Progress, shown_progress
from swe_sdk.rollouts.many import Planned, run_many
from swe_sdk.rollouts.ports import Verifier
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.rollouts.verifier import LocalVerifier
from swe_sdk.runs.model_way import opened_model, require_model, require_way
from swe_sdk.runs.setup import Setup, terms
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.registry import get_provider
from swe_sdk.store.events import RunEnded, RunStarted
from swe_sdk.store.writer import RunWriter

if TYPE_CHECKING:
    from swe_sdk.agents.model_endpoint import ModelEgress
    from swe_sdk.runs.checkpoints.keeper import Keeper

_log = logging.getLogger(__name__)
TOKEN_VARIABLE = "SWE_SDK_VERIFIER_TOKEN"  # noqa: S105  # its name, not itself
_CLOSE_CAP_S = 60.0
PATIENCE_S = 60.0
"""How long a verifier elsewhere may be gone: long enough to be restarted."""
OnResult = Callable[[RolloutResult], None]
EndReason = Literal["finished", "stopped", "failed"]


@dataclass(frozen=True)
class Order:
    """What is to be done of a run, and who hears of it."""

    setup: Setup
    planned: Sequence[Planned]
    kept: Mapping[str, int] = field(default_factory=dict)
    """How many rollouts are finished already, by status."""
    verifier: Verifier | None = None
    """The caller's own; None = as configured."""
    progress: bool = True
    on_result: OnResult | None = None
    afresh: Collection[str] = ()
    """Rollouts that start over, even where a checkpoint holds them."""

    @property
    def total(self) -> int:
        """All rollouts of the run."""
        return sum(self.kept.values()) + len(self.planned)


@asynccontextmanager
async def ready_provider(setup: Setup) -> AsyncIterator[SandboxProvider]:
    """The provider, once it is known that it works here and that the agent has all that it needs.

    Raises ``PrerequisiteError`` and ``InputError``, before anything of the run is made.
    """
    provider = await get_provider(setup.provider)
    try:
        await _check_agent(setup, provider)
        yield provider
    finally:
        if setup.owns_provider:
            with anyio.move_on_after(_CLOSE_CAP_S, shield=True):
                await provider.aclose()


async def _check_agent(setup: Setup, provider: SandboxProvider) -> None:
    if isinstance(setup.agent, Prepares):
        await setup.agent.prepare()
    require_model(setup)
    require_way(setup, provider)


async def execute(order: Order, provider: SandboxProvider, writer: RunWriter, *, resumed: bool) -> None:
    """Run what is planned, and write down how it ended, however it ends.

    Cancellation stops it in order: every sandbox is closed, and what is finished stays finished.
    """
    setup = order.setup
    writer.append(started_event(order, resumed))
    with shown_progress(order.total, "rollouts", kept=order.kept, enabled=order.progress) as bar:
        ending = Ending(order, writer)
        with ending.told():
            async with (
                opened_verifier(order, provider) as verifier,
                opened_model(setup, writer) as model,
                _checkpoints(order, provider, writer, model) as keeper,
            ):

                def finished(result: RolloutResult) -> None:
                    if result.is_recorded:
                        keeper.finished(result)
                    ending.add(result, bar)

                results = await run_many(
                    keeper.planned,
                    setup.agent,
                    **terms(setup, provider.name),
                    deadline_s=setup.config.deadline_s,
                    provider=provider,
                    verifier=verifier,
                    model=model,
                    journal=writer,
                    live=keeper.lives,
                    on_result=finished,
                    on_progress=bar.say,
                    keep_results=False,
                )
                keeper.is_finished = results.stopped is None
            ending.stopped = results.stopped


class Ending:
    """How a run comes to its end."""

    def __init__(self, order: Order, writer: RunWriter) -> None:
        self._order, self._writer = order, writer
        self._done = sum(order.kept.values())
        self.stopped: str | None = None
        """Why the engine stopped before everything was finished."""

    def add(self, result: RolloutResult, bar: Progress) -> None:
        """One more is finished."""
        self._done += result.is_recorded
        mask = result.outcome.mask
        bar.add(result.outcome.status, None if mask is None else mask.kind)
        if self._order.on_result is not None:
            self._order.on_result(result)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Write the end into the journal and, where something is left to do, say how to go on."""
        try:
            yield
        except Exception as error:
            self._tell("failed", f"{type(error).__name__}: {error}")
            raise
        except BaseException:  # cancelled, by Ctrl-C or by who awaits us
            self._tell("stopped", "interrupted")
            raise
        self._tell("stopped" if self.stopped else "finished", self.stopped or "")

    def _tell(self, reason: EndReason, message: str) -> None:
        try:
            self._writer.append(RunEnded(reason=reason, message=message))
        except (SandboxError, OSError):
            if reason == "finished":
                raise
            _log.exception("the end of the run could not be written down")  # what led to it says more
        if reason != "finished":
            why = f" ({message})" if message else ""
            count = f"{self._done} of {self._order.total} rollouts are finished, and kept"
            ways = self._order.setup.plan.ways_on(self._writer.path)
            _log.warning("%s%s: %s. Go on with %s", reason, why, count, ways)


def started_event(order: Order, resumed: bool) -> RunStarted:
    """What the journal hears when a run begins."""
    setup = order.setup
    return RunStarted(
        name=setup.plan.name,
        resumed=resumed,
        rollouts=order.total,
        agent=setup.agent.name,
        model=setup.endpoint.model if setup.endpoint else "",
        dataset=setup.plan.dataset,
        config=setup.config.model_dump(mode="json"),
    )


@asynccontextmanager
async def opened_verifier(order: Order, provider: SandboxProvider) -> AsyncIterator[Verifier]:
    """The caller's, one elsewhere, or this process."""
    config = order.setup.config
    if order.verifier is not None:
        yield order.verifier
    elif config.verifier is not None:
        from swe_sdk.runs.remote_verifier import open_verifier

        token = os.environ.get(TOKEN_VARIABLE)
        async with open_verifier(
            config.verifier, tests_timeout_s=config.tests_timeout_s, patience_s=PATIENCE_S, token=token
        ) as remote:
            yield remote
    else:
        yield LocalVerifier(
            provider=provider,
            policy=order.setup.policy,
            tests_timeout_s=config.tests_timeout_s,
            build_timeout_s=config.build_timeout_s,
        )


@asynccontextmanager
async def _checkpoints(
    order: Order, provider: SandboxProvider, writer: RunWriter, model: ModelEgress | None
) -> AsyncIterator[Keeper]:
    """What is planned, with where it goes on; saved now and then, if that is wanted."""
    from swe_sdk.runs.checkpoints.keeper import kept_checkpoints
    from swe_sdk.runs.checkpoints.keeping import Keeping

    async with kept_checkpoints(
        writer,
        order.planned,
        order.setup.agent,
        provider,
        keeping=Keeping.of(order.setup.config),
        gateway=None if model is None else model.gateway,
        results=order.kept,
        afresh=order.afresh,
    ) as keeper:
        yield keeper
