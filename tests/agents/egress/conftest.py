"""Boxes of the three real providers, without a network, and a gateway that they may reach."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import pytest

from swe_sdk.sandbox.contract import Box, SandboxProvider, SandboxSpec
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.sandbox.apptainer.images import apptainer, debian_sif
from tests.sandbox.docker.images import debian_image

MakeBox = Callable[..., Awaitable[Box]]
NAMES = ("local", "docker", "apptainer")


@pytest.fixture(scope="module", params=NAMES)
def provider(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxProvider]:
    """Each provider in turn, on a state directory of its own; a missing one is skipped."""
    made = _make(request.param, tmp_path_factory.mktemp(request.param))
    yield made
    anyio.run(made.aclose)


def _make(name: str, state: Path) -> SandboxProvider:
    if name == "local":
        return LocalProvider(state)
    if name == "docker":
        return DockerProvider(state=state, base_image=debian_image())
    options = ApptainerSettings(program=apptainer(), base_image=str(debian_sif()), build_attempts=1, free_bytes=1 << 20)
    return ApptainerProvider(state, options=options)


@pytest.fixture
async def make_box(provider: SandboxProvider) -> AsyncIterator[MakeBox]:
    """Boxes of the provider, closed at the end of the test."""
    boxes: list[Box] = []

    async def make(**spec: object) -> Box:
        boxes.append(await provider.create(SandboxSpec.model_validate({"workdir": "/tmp", **spec})))
        return boxes[-1]

    yield make
    for box in boxes:
        await box.close()
