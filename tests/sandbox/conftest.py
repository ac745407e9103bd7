from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from swe_sdk.model.environment import DirectorySource
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import processes_of, traces_of
from tests.sandbox.boxes import create

_numbers = iter(range(1000))


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


@pytest.fixture
def source(tmp_path: Path) -> DirectorySource:
    """A small project whose content no other test has."""
    root = tmp_path / "project"
    (root / "pkg").mkdir(parents=True)
    (root / "pkg/__init__.py").write_text(f"number = {next(_numbers)}\n")
    (root / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (root / "run.sh").chmod(0o755)
    (root / ".gitignore").write_text("*.log\nbuild/\n")
    (root / "old.log").write_text("ignored, and there\n")
    return DirectorySource(path=str(root))
