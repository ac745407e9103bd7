from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

from swe_sdk.sandbox.providers.opensandbox.provider import OpenSandboxProvider
from swe_sdk.sandbox.providers.remote.box import RemoteBox
from tests.sandbox.boxes import made_for_a_test
from tests.sandbox.opensandbox.osb_lab import (
    MakeBox,
    connections,
    delete_snapshot,
    forget_connections,
    ground,
    is_loopback,
    left_over,
    make_provider,
)
from tests.sandbox.opensandbox.server import API_KEY, Server, shared_server


@pytest.fixture(scope="session", autouse=True)
def osb_key() -> Iterator[None]:
    """Where every process looks for the key; and at the end, the common ground goes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPEN_SANDBOX_API_KEY", API_KEY)
        yield
        if ground.cache_info().currsize:
            anyio.run(delete_snapshot, ground())


@pytest.fixture(scope="session")
def osb_server(osb_key: None) -> Server:
    """One server for all tests."""
    return shared_server()


@pytest.fixture
def osb_provider(osb_server: Server) -> Iterator[OpenSandboxProvider]:
    """A provider for one test; nothing of it may be left."""
    provider = make_provider()
    yield provider
    anyio.run(provider.aclose)
    assert provider.leases.mine() == []


@pytest.fixture
async def osb_box(osb_provider: OpenSandboxProvider) -> AsyncIterator[MakeBox]:
    """Boxes, closed at the end of the test; they stand on the common ground, unless they are told otherwise."""
    snapshot = await anyio.to_thread.run_sync(ground)
    async with made_for_a_test(osb_provider, RemoteBox, snapshot=snapshot) as make:
        yield make


@pytest.fixture(autouse=True)
def nothing_is_left(osb_server: Server) -> Iterator[None]:
    """After every test: no container, no snapshot's image, no metadata file of ours, and no word to the outside."""
    ground()
    before = left_over(osb_server)
    forget_connections()
    yield
    assert left_over(osb_server) == before
    assert [host for host, _port in connections() if not is_loopback(host)] == []
