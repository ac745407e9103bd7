"""The local provider keeps every promise of the sandbox contract by its second engine, too."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from swe_sdk.errors import ProviderUnavailable
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.providers.local.bubblewrap import find_bubblewrap
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing.provider_suite import ProviderSuite
from tests.leaks import memory_folder

try:
    find_bubblewrap()
except ProviderUnavailable as missing:
    if not os.environ.get("CI"):
        pytest.skip(str(missing), allow_module_level=True)


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[Path]:
    TestBubblewrap.state = Path(tempfile.mkdtemp(prefix="swe_sdk-bwrap-", dir=memory_folder()))
    yield TestBubblewrap.state
    shutil.rmtree(TestBubblewrap.state)


class TestBubblewrap(ProviderSuite):
    state: Path

    def make_provider(self) -> SandboxProvider:
        return LocalProvider(self.state, engine="bwrap")
