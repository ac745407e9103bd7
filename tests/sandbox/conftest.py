from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import processes_of, traces_of
from tests.sandbox.boxes import create


@pytest.fixture
def provider(local_provider: LocalProvider) -> Iterator[LocalProvider]:
    """A provider for one test, on the state directory that all share; nothing of it may be left."""
    provider = LocalProvider(local_provider.state)
    owner = provider.store.owner
    yield provider
    anyio.run(provider.aclose)
    traces = traces_of(provider.state, owner)
    assert not [each for what in traces.values() for each in what if owner in each]
    assert list(processes_of(owner)) == []


@pytest.fixture
async def box(provider: LocalProvider) -> AsyncIterator[LocalBox]:
    """A box for one test."""
    box = await create(provider)
    yield box
    await box.close()
