from __future__ import annotations

import os

import anyio
import pytest

from swe_sdk.sandbox.contract import ProviderHealth
from swe_sdk.sandbox.providers.local.provider import LocalProvider


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def local_works() -> None:
    """Skips where local sandboxes do not work, unless this is a continuous-integration run."""

    async def probe() -> ProviderHealth:
        provider = LocalProvider()
        try:
            return await provider.probe()
        finally:
            await provider.aclose()

    health = anyio.run(probe)
    if not health.works and not os.environ.get("CI"):
        pytest.skip(f"local sandboxes do not work here: {health.reason} ({health.remedy})")
