from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import pytest

from swe_sdk.sandbox.providers.docker.box import DockerBox
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from tests.sandbox.boxes import made_for_a_test
from tests.sandbox.docker.images import debian_image, need_engine

MakeBox = Callable[..., Awaitable[DockerBox]]


@pytest.fixture(scope="session")
def docker_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory for all tests here: what boxes get from this machine is made once."""
    need_engine()
    return tmp_path_factory.mktemp("docker-state")


@pytest.fixture
def docker_provider(docker_state: Path) -> Iterator[DockerProvider]:
    """A provider for one test; nothing of it may be left."""
    provider = DockerProvider(state=docker_state, base_image=debian_image())
    yield provider
    anyio.run(provider.aclose)
    assert provider.leases.mine() == []


@pytest.fixture
async def make_box(docker_provider: DockerProvider) -> AsyncIterator[MakeBox]:
    """Boxes, closed at the end of the test."""
    async with made_for_a_test(docker_provider, DockerBox) as make:
        yield make
