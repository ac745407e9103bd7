"""A run installs what its agent drives before its first rollout, or says what is missing before anything is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_sdk.agents.opencode import OpenCode
from swe_sdk.errors import HarnessUnavailable
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.testing.fake import FakeProvider
from tests.agents.tasks import mini_task


@pytest.mark.anyio
async def test_what_is_missing_is_said_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWE_SDK_HARNESSES", str(tmp_path / "harnesses"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    provider = FakeProvider()
    with pytest.raises(HarnessUnavailable, match="opencode-linux-x64-baseline") as caught:
        await run_rollout(mini_task(), OpenCode(), provider=provider)
    assert "npm" in caught.value.remedy
    with pytest.raises(HarnessUnavailable, match="swe-sdk agents install opencode"):
        _ = OpenCode().needs
