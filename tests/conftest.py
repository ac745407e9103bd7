"""What all tests share: one local provider on a state directory of its own, which must be empty at the end."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import memory_folder, traces_of
from tests.shared import lacking

# a script that starts tests in the background has them ignore Ctrl-C, and with them all programs that they interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _indexes_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs that tests look at have their indexes among what tests leave, and not in the user's own directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWE_SDK_INDEX", str(tmp_path_factory.mktemp("index")))
        yield


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The private state directory: in memory where that is possible, because removing layers is slow on some disks."""
    memory = memory_folder()
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-tests-", dir=memory)) if memory else tmp_path_factory.mktemp("state")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def local_provider(state: Path) -> Iterator[LocalProvider]:
    """A provider that works here, for all tests; nothing that lived in it may outlive it."""
    provider = LocalProvider(state)
    health = anyio.run(provider.probe)
    if not health.works:
        lacking(f"local sandboxes do not work here: {health.reason} ({health.remedy})")
    yield provider
    open_boxes, owner = sorted(provider.boxes), provider.store.owner
    anyio.run(provider.aclose)
    assert open_boxes == [], "tests left boxes open"
    left = traces_of(state, owner)
    assert left == {}, json.dumps(left, indent=1)
