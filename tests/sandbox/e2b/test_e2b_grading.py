"""Patches are worth on the stand-ins for E2B and AgentENV what they are worth in a local box, to the last test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import swe_sdk as swe
from swe_sdk.model.outcome import Outcome
from swe_sdk.sandbox.providers.e2b.provider import E2BProvider
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.sandbox.registry import named_provider
from tests.sandbox.e2b.stubs import KEY, TEMPLATE, Server

TASK = "mini__fairsplit-1"
"""Its environment takes nothing from a package index."""


@pytest.fixture
def by_name(server: Server, e2b_state: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The provider as its environment variables make it; what was built is gone afterwards."""
    variables = {
        "E2B_API_KEY": KEY,
        "E2B_API_URL": server.url,
        "E2B_SANDBOX_URL": server.url,
        "SWE_SDK_E2B_TEMPLATE": TEMPLATE,
        "SWE_SDK_STATE": str(e2b_state),
        "SWE_SDK_RESULTS": str(tmp_path / "results"),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    yield "e2b"
    provider = named_provider("e2b")
    assert isinstance(provider, E2BProvider)

    async def tidy() -> None:
        for snapshot in await provider.snapshots():
            await provider.delete_snapshot(snapshot.id)
        await provider.aclose()

    anyio.run(tidy)


def test_verdicts_are_those_of_a_local_box(server: Server, by_name: str, tmp_path: Path) -> None:
    task = swe.load_tasks("mini")[TASK]
    local = LocalProvider(tmp_path / "local")
    patches = {"resolved": task.grading.gold_patch, "unresolved": task.grading.wrong_patch}
    for status, patch in patches.items():
        here = swe.grade(task, patch, provider=by_name)
        assert here.status == status
        assert _told(here) == _told(swe.grade(task, patch, provider=local))
    asked = [one["body"] for one in server.requests("POST") if "metadata" in (one["body"] or {})]
    online = [body.get("allow_internet_access", body.get("allowInternetAccess")) for body in asked]
    assert online.count(False) >= len(patches), "a grade has no network"
    anyio.run(local.aclose)


def _told(outcome: Outcome) -> dict[str, Any]:
    told = outcome.model_dump(include={"status", "reward", "mask", "tests"})
    return {**told, "applied": outcome.patch.applied, "rung": outcome.patch.rung}
