"""Both wires, and no patience."""

from __future__ import annotations

import pytest

from swe_sdk.sandbox.providers.e2b import engine as e2b_engine
from swe_sdk.sandbox.providers.e2b import http
from swe_sdk.sandbox.providers.opensandbox import failures


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (http, e2b_engine):
        monkeypatch.setattr(module, "PAUSES_S", (0.01, 0.01))
    monkeypatch.setattr(failures, "_WITHIN_S", 4.0)  # its SDK asks three times more, and pauses


@pytest.fixture(params=["e2b", "opensandbox"])
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)
