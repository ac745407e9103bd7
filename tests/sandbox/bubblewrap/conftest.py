from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from swe_sdk.errors import ProviderUnavailable
from swe_sdk.sandbox.providers.local.bubblewrap import find_bubblewrap
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import memory_folder, processes_of, traces_of
from tests.shared import lacking


@pytest.fixture(scope="session", autouse=True)
def a_bubblewrap() -> None:
    """One that is new enough."""
    try:
        find_bubblewrap()
    except ProviderUnavailable as missing:
        lacking(str(missing))


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A state directory that everybody may pass through to."""
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-bwrap-", dir=memory_folder()))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def bwrap(folder: Path) -> AsyncIterator[LocalProvider]:
    """A provider on the second engine; nothing of it may be left."""
    provider = LocalProvider(folder, engine="bwrap")
    owner = provider.store.owner
    yield provider
    await provider.aclose()
    assert traces_of(folder, owner) == {}
    assert list(processes_of(owner)) == []
