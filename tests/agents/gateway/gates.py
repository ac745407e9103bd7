"""What tests of the gateway share: a scripted model, a gateway in front of it, a client with a session's key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from swe_sdk.agents.gateway.endpoint import ModelEndpoint
from swe_sdk.agents.gateway.gateway import Gateway, open_gateway
from swe_sdk.agents.gateway.ledger import FolderLedger
from swe_sdk.agents.gateway.session import GatewaySession
from swe_sdk.agents.gateway.settings import GatewaySettings, ModelAllowance
from swe_sdk.testing import ScriptedModel

REAL_KEY = "sk-the-users-own-key-4711"
USER = {"role": "user", "content": "fix it"}
QUICK = GatewaySettings(connect_tries=2, connect_pause_s=0.01, silence_timeout_s=20, check_timeout_s=3)


@dataclass
class Bench:
    """Everything of one test."""

    model: ScriptedModel
    gateway: Gateway
    ledger: FolderLedger
    session: GatewaySession
    client: httpx.AsyncClient
    """Of the session, with the gateway's address as its base."""

    async def ask(self, route: str = "/chat/completions", **body: Any) -> httpx.Response:
        """One call."""
        return await self.client.post(route, json={"model": "scripted", "messages": [USER], **body})


def endpoint_of(model: ScriptedModel) -> ModelEndpoint:
    return ModelEndpoint(base_url=model.url, model=model.model, api_key=REAL_KEY)


def client_of(gateway: Gateway, session: GatewaySession) -> httpx.AsyncClient:
    key = {"authorization": f"Bearer {session.key.get_secret_value()}"}
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(
        base_url=gateway.url, headers=key, timeout=30, limits=limits, trust_env=False, verify=False
    )


@asynccontextmanager
async def bench(
    script: Sequence[Any] | dict[str, Any],
    folder: Path,
    *,
    settings: GatewaySettings = QUICK,
    allowance: ModelAllowance | None = None,
) -> AsyncIterator[Bench]:
    ledger = FolderLedger(folder)
    async with ScriptedModel(script, title=None, api_key=REAL_KEY) as model:
        async with open_gateway(endpoint_of(model), ledger, settings=settings) as gateway:
            async with gateway.session("task__a-1.0", 1, allowance=allowance) as session:
                async with client_of(gateway, session) as client:
                    yield Bench(model, gateway, ledger, session, client)
