"""A run's way to the model: what must be there before it begins, and the gateway while it lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from swe_sdk.errors import CapabilityMissing, InputError, ModelEgressUnavailable
from swe_sdk.runs.setup import Setup, model_allowance
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.store.writer import RunWriter

if TYPE_CHECKING:
    from swe_sdk.agents.gateway.settings import GatewaySettings
    from swe_sdk.agents.model_endpoint import ModelEgress


def require_model(setup: Setup) -> None:
    """Raises ``InputError`` where the agent needs a model and there is none."""
    if setup.agent.needs.egress == "model" and setup.endpoint is None:
        remedy = "give model=swe.ModelEndpoint(base_url=..., model=...), or a [model] table in the configuration"
        raise InputError(f"the agent {setup.agent.name!r} needs a model, and there is none", remedy=remedy)


def require_way(setup: Setup, provider: SandboxProvider) -> None:
    """Raises ``CapabilityMissing`` where the agent calls the model from its box, and boxes of the provider cannot.

    An agent that is driven from this process needs no way there: it works with any provider.
    """
    needs = setup.agent.needs
    if needs.egress == "none" or not needs.model_from_box:
        return
    from swe_sdk.agents.model_endpoint import find_way

    try:
        find_way(provider.name, "none", can_listen="listen" in provider.capabilities, service_url=_service_url(setup))
    except ModelEgressUnavailable as error:
        remedy = "set model.service_url, or take an agent that is driven from outside, such as mini-swe-agent"
        problem = f"{setup.agent.name} calls the model from its box, and {error.message}"
        raise CapabilityMissing(problem, remedy=remedy) from error


@asynccontextmanager
async def opened_model(setup: Setup, writer: RunWriter) -> AsyncIterator[ModelEgress | None]:
    """The gateway in front of the user's endpoint, if the agent wants a model."""
    needs = setup.agent.needs
    if setup.endpoint is None or needs.egress == "none":
        yield None
        return
    from swe_sdk.agents.gateway.gateway import open_gateway
    from swe_sdk.agents.model_endpoint import ModelEgress
    from swe_sdk.rollouts.model_ledger import RunLedger

    async with open_gateway(setup.endpoint, RunLedger(writer), settings=_settings(setup)) as gateway:
        yield ModelEgress(
            gateway,
            service_url=_service_url(setup),
            allowance=model_allowance(setup.config),
            must_reach=needs.model_from_box,
        )


def _settings(setup: Setup) -> GatewaySettings:
    from swe_sdk.agents.gateway.settings import GatewaySettings

    config, model = setup.config, setup.config.model
    told = {
        "max_calls": config.max_model_calls,
        "host": model.gateway_host if model else None,
        "port": model.gateway_port if model else None,
    }
    return GatewaySettings.model_validate({name: value for name, value in told.items() if value is not None})


def _service_url(setup: Setup) -> str | None:
    model = setup.config.model
    return model.service_url if model else None
