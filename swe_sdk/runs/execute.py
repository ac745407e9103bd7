"""Carry out a run: one journal, one verifier, one model gateway, and the engine between them."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Literal

from swe_sdk.agents.contract import Prepares
from swe_sdk.errors import InputError
from swe_sdk.rollouts.many import Planned, run_many
from swe_sdk.rollouts.ports import ModelSource, Verifier
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.rollouts.verifier import LocalVerifier
from swe_sdk.runs.progress import Progress, run_progress
from swe_sdk.runs.setup import Setup, rollout_budget, rollout_settings, run_limits
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.registry import get_provider
from swe_sdk.store.events import RunEnded, RunStarted
from swe_sdk.store.writer import RunWriter

_log = logging.getLogger(__name__)
TOKEN_VARIABLE = "SWE_SDK_VERIFIER_TOKEN"  # noqa: S105  # its name, not itself
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

    @property
    def total(self) -> int:
        """All rollouts of the run."""
        return sum(self.kept.values()) + len(self.planned)


async def ready_provider(setup: Setup) -> SandboxProvider:
    """The provider, once it is known that it works here and that the agent has all that it needs.

    Raises ``PrerequisiteError`` and ``InputError``, before anything of the run is made.
    """
    provider = await get_provider(setup.provider)
    if isinstance(setup.agent, Prepares):
        await setup.agent.prepare()
    if setup.agent.needs.egress == "model" and setup.endpoint is None:
        remedy = "give model=swe.ModelEndpoint(base_url=..., model=...), or a [model] table in the configuration"
        raise InputError(f"the agent {setup.agent.name!r} needs a model, and there is none", remedy=remedy)
    return provider


async def execute(order: Order, provider: SandboxProvider, writer: RunWriter, *, resumed: bool) -> None:
    """Run what is planned, and write down how it ended, however it ends.

    Cancellation stops it in order: every sandbox is closed, and what is finished stays finished.
    """
    setup = order.setup
    writer.append(_started(order, resumed))
    with run_progress(order.total, kept=order.kept, enabled=order.progress) as bar:
        ending = _Ending(order, writer)
        with ending.told():
            async with _verifier(order, provider) as verifier, _model(setup, writer) as model:
                results = await run_many(
                    order.planned,
                    setup.agent,
                    limits=run_limits(setup.config),
                    deadline_s=setup.config.deadline_s,
                    provider=provider,
                    budget=rollout_budget(setup.config),
                    settings=rollout_settings(setup.config, provider.name),
                    policy=setup.policy,
                    verifier=verifier,
                    model=model,
                    journal=writer,
                    on_result=lambda result: ending.add(result, bar),
                    on_progress=bar.say,
                    keep_results=False,
                )
            ending.stopped = results.stopped


class _Ending:
    """How a run comes to its end."""

    def __init__(self, order: Order, writer: RunWriter) -> None:
        self._order, self._writer = order, writer
        self._done = sum(order.kept.values())
        self.stopped: str | None = None
        """Why the engine stopped before everything was finished."""

    def add(self, result: RolloutResult, bar: Progress) -> None:
        """One more is finished."""
        self._done += 1
        bar.add(result.outcome.status, result.outcome.mask)
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
        finally:
            if reason != "finished":
                path, count = self._writer.path, f"{self._done} of {self._order.total} rollouts are finished"
                why = f" ({message})" if message else ""
                _log.warning(
                    "%s%s: %s, and kept. Go on with: swe-sdk resume %s", reason, why, count, shlex.quote(str(path))
                )


def _started(order: Order, resumed: bool) -> RunStarted:
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
async def _verifier(order: Order, provider: SandboxProvider) -> AsyncIterator[Verifier]:
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
async def _model(setup: Setup, writer: RunWriter) -> AsyncIterator[ModelSource | None]:
    """The gateway in front of the user's endpoint, if the agent wants a model."""
    needs = setup.agent.needs
    if setup.endpoint is None or needs.egress == "none":
        yield None
        return
    from swe_sdk.agents.gateway.gateway import open_gateway
    from swe_sdk.agents.gateway.settings import GatewaySettings
    from swe_sdk.agents.model_endpoint import ModelEgress
    from swe_sdk.rollouts.model_ledger import RunLedger

    calls = setup.config.max_model_calls
    settings = GatewaySettings() if calls is None else GatewaySettings(max_calls=calls)
    async with open_gateway(setup.endpoint, RunLedger(writer), settings=settings) as gateway:
        yield ModelEgress(gateway, must_reach=needs.model_from_box)
