"""Engines and providers of both wires on a faulty server, and what their systems tell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from swe_sdk.sandbox.contract import Limits
from swe_sdk.sandbox.providers.e2b.engine import E2BEngine
from swe_sdk.sandbox.providers.e2b.provider import E2BProvider
from swe_sdk.sandbox.providers.e2b.settings import read_settings as e2b_settings
from swe_sdk.sandbox.providers.opensandbox.engine import OpenSandboxEngine
from swe_sdk.sandbox.providers.opensandbox.provider import OpenSandboxProvider
from swe_sdk.sandbox.providers.opensandbox.settings import read_settings as osb_settings
from swe_sdk.sandbox.providers.remote.engine import Engine, Wanted
from tests.sandbox.remote.faulty import Faulty, Request

KEY = "a-key-that-nobody-else-may-see"
OURS = {"swe_sdk.lease": "box-1"}
WANTED = Wanted("image", None, OURS, 600.0, "none", Limits())
IMPATIENT = 0.3
Script = Callable[[Request], None]


@asynccontextmanager
async def engine_on(wire: str, server: Faulty, tmp_path: Path, key: str = KEY) -> AsyncIterator[Engine]:
    engine: Engine
    if wire == "e2b":
        settings = e2b_settings({"api_url": server.url, "sandbox_url": server.url, "dialect": "e2b"}, {})
        short = settings.model_copy(update={"request_timeout_s": IMPATIENT, "create_timeout_s": IMPATIENT})
        engine = E2BEngine(short, tmp_path / "labels", ttl_s=600.0, api_key=key)
    else:
        engine = OpenSandboxEngine(osb_settings({"domain": server.domain}, {}), api_key=key)
    yield engine
    await engine.aclose()


def sandbox(wire: str, name: str, metadata: dict[str, str]) -> dict[str, Any]:
    """As it is told of in a list."""
    if wire == "e2b":
        return {"sandboxID": name, "metadata": metadata, "state": "running"}
    return {
        "id": name,
        "metadata": metadata,
        "status": {"state": "Running"},
        "entrypoint": ["true"],
        "createdAt": "2026-01-01T00:00:00Z",
        "image": {"uri": "x"},
    }


def snapshot(wire: str, name: str) -> dict[str, Any]:
    if wire == "e2b":
        return {"snapshotID": f"{name}-id", "names": [f"{name}-at-1764470000000"]}
    told = {"id": f"{name}-id", "name": name, "sandboxId": "s", "status": {"state": "Ready"}}
    return {**told, "createdAt": "2026-01-01T00:00:00Z"}


def page(wire: str, items: list[dict[str, Any]], *, more: str = "") -> tuple[Any, dict[str, str]]:
    """A page of a list, and its headers; ``more``: what the next one is called."""
    if wire == "e2b":
        return items, {"X_Next_Token": more} if more else {}
    numbers = {"page": 1, "pageSize": 100, "totalItems": 9, "totalPages": 9, "hasNextPage": bool(more)}
    return {"items": items, "pagination": numbers}, {}


def provider_on(wire: str, server: Faulty, **settings: Any) -> E2BProvider | OpenSandboxProvider:
    if wire == "e2b":
        return E2BProvider(api_url=server.url, sandbox_url=server.url, dialect="e2b", template="t", **settings)
    return OpenSandboxProvider(domain=server.domain, base_image="image", **settings)
