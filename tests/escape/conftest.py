"""A world to protect, boxes to attack it from, and the checks that every attack has to pass afterwards."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.escape.world import Guard, World
from tests.shared import lacking

MakeBox = Callable[..., Awaitable[LocalBox]]


@pytest.fixture(scope="session", autouse=True)
def python_in_boxes() -> None:
    if not os.path.exists("/usr/bin/python3"):
        lacking("attacks need /usr/bin/python3 in the box")


@pytest.fixture(scope="session")
def world(state: Path, local_provider: LocalProvider) -> Iterator[World]:
    folder = state.with_name(f"{state.name}-world")
    folder.mkdir()
    found = World(folder, local_provider.identity.agent)
    yield found
    found.close()
    found.secret.unlink()
    folder.rmdir()


@pytest.fixture
async def make_box(local_provider: LocalProvider, world: World) -> AsyncIterator[MakeBox]:
    """Boxes, closed at the end of the test."""
    boxes: list[LocalBox] = []

    async def make(**spec: object) -> LocalBox:
        box = await local_provider.create(SandboxSpec.model_validate(spec))
        assert isinstance(box, LocalBox)
        boxes.append(box)
        return box

    yield make
    for box in boxes:
        await box.close()
    world.assert_unharmed()


@pytest.fixture
async def box(make_box: MakeBox) -> AsyncIterator[LocalBox]:
    """A box to attack, which afterwards must be what it was, and serve."""
    found = await make_box()
    guard = Guard(found)
    yield found
    await guard.assert_holds()


@pytest.fixture(params=["agent", "root"])
def user(request: pytest.FixtureRequest, local_provider: LocalProvider) -> str:
    """Both users of a box, where it has both."""
    if request.param == "root" and not local_provider.identity.has_range:
        pytest.skip("the boxes of an ordinary user have no root user")
    return str(request.param)
