"""The local provider keeps every promise of the sandbox contract by its second engine, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing.provider_suite import ProviderSuite


@pytest.fixture(scope="module", autouse=True)
def state(folder: Path) -> None:
    TestBubblewrap.state = folder


class TestBubblewrap(ProviderSuite):
    state: Path

    def make_provider(self) -> SandboxProvider:
        return LocalProvider(self.state, engine="bwrap")
