"""Apptainer boxes on a state directory of their own, of which nothing may be left."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from swe_sdk.sandbox.contract import Box, SandboxSpec
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings
from tests.leaks import memory_folder, processes_of, traces_of
from tests.sandbox.apptainer.images import apptainer, debian_sif


@pytest.fixture(scope="session")
def apptainer_state() -> Iterator[Path]:
    """In memory where that is possible."""
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-apptainer-", dir=memory_folder()))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def options(tmp_path: Path) -> ApptainerSettings:
    """Settings that know nothing of this machine's, and give up soon."""
    (tmp_path / "images").mkdir()
    return ApptainerSettings(
        program=apptainer(),
        image_dirs=(str(tmp_path / "images"),),
        base_image=str(debian_sif()),
        build_attempts=1,
        free_bytes=1 << 20,
    )


@pytest.fixture
def provider(apptainer_state: Path, options: ApptainerSettings) -> Iterator[ApptainerProvider]:
    """A provider for one test."""
    provider = ApptainerProvider(apptainer_state, options=options)
    owner = provider.store.owner
    yield provider
    anyio.run(provider.aclose)
    left = traces_of(apptainer_state, owner)
    assert left == {}, json.dumps(left, indent=1)
    assert list(processes_of(str(apptainer_state))) == []


@pytest.fixture
async def box(provider: ApptainerProvider) -> AsyncIterator[Box]:
    """A box on Debian."""
    box = await provider.create(SandboxSpec(workdir="/tmp"))
    yield box
    await box.close()
