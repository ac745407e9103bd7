from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.agents.harness_lab import close_lab
from tests.sandbox.docker.images import debian_image


@pytest.fixture(scope="session")
def docker_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerProvider]:
    """Docker boxes on Debian, for tests of agents; nothing of them may be left."""
    provider = DockerProvider(state=tmp_path_factory.mktemp("docker-lab"), base_image=debian_image())
    yield provider
    anyio.run(close_lab, provider)
    assert provider.leases.mine() == []


@pytest.fixture(params=["local", "docker"])
def provider(request: pytest.FixtureRequest) -> SandboxProvider:
    """Each of the two providers that all machines of ours have."""
    found: SandboxProvider = request.getfixturevalue("local_provider" if request.param == "local" else "docker_lab")
    return found


@pytest.fixture(params=["local", "docker"])
def usual_provider(request: pytest.FixtureRequest) -> Iterator[SandboxProvider]:
    """The same, where users have them: an environment that takes long to build is built once on a machine."""
    made = LocalProvider() if request.param == "local" else DockerProvider(base_image=debian_image())
    yield made
    anyio.run(made.aclose)
