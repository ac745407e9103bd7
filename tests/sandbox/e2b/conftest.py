from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.sandbox.providers.e2b.provider import E2BProvider
from swe_sdk.sandbox.providers.remote.box import RemoteBox
from tests.sandbox.boxes import made_for_a_test
from tests.sandbox.e2b.stubs import Server, serving, shared_state

MakeBox = Callable[..., Awaitable[RemoteBox]]
_HERE = ("127.0.0.1", "::1", "localhost", b"127.0.0.1", None)
_reached: list[Any] = []
"""Hosts that were connected to, or whose addresses were asked for."""


def _note_connections(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.getaddrinfo":
        _reached.append(arguments[0])
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        _reached.append(arguments[1][0])


sys.addaudithook(_note_connections)


@pytest.fixture(autouse=True)
def only_loopback() -> Iterator[None]:
    """A18: no test here, nor what it tests, reaches for anything but this machine."""
    _reached.clear()
    yield
    assert [host for host in _reached if host not in _HERE] == []


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[str], Server]]:
    """One of each dialect for all tests here, when it is first needed."""
    running: dict[str, Server] = {}
    with ExitStack() as stack:

        def server(dialect: str) -> Server:
            if dialect not in running:
                running[dialect] = stack.enter_context(serving(dialect))
            return running[dialect]

        yield server


@contextmanager
def _one_test_on(server: Server) -> Iterator[Server]:
    """Nothing was asked of it before, and nothing is left on it."""
    server.log.unlink(missing_ok=True)
    yield server
    assert (server.containers(), server.images()) == ([], [])


@pytest.fixture(params=["e2b", "agentenv"])
def server(request: pytest.FixtureRequest, servers: Callable[[str], Server]) -> Iterator[Server]:
    """One of each dialect."""
    with _one_test_on(servers(request.param)) as server:
        yield server


@pytest.fixture
def e2b(servers: Callable[[str], Server]) -> Iterator[Server]:
    """For what has nothing to do with dialects."""
    with _one_test_on(servers("e2b")) as server:
        yield server


@pytest.fixture(scope="session")
def e2b_state() -> Path:
    """The state directory of all tests here."""
    return shared_state()


@pytest.fixture
def e2b_provider(server: Server, e2b_state: Path) -> Iterator[E2BProvider]:
    """A provider for one test; nothing of it may be left."""
    provider = E2BProvider(state=e2b_state, **server.settings)
    yield provider
    anyio.run(provider.aclose)
    assert provider.leases.mine() == []
    assert list((e2b_state / "e2b" / "labels").glob("*")) == []


@pytest.fixture
async def make_box(e2b_provider: E2BProvider) -> AsyncIterator[MakeBox]:
    """Boxes, closed at the end of the test."""
    async with made_for_a_test(e2b_provider, RemoteBox) as make:
        yield make
