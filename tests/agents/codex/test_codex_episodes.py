"""Codex itself against a scripted model, in local boxes. How it ends is in ``test_in_box_ends.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_sdk.agents.codex import Codex
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.agents.dialects import CODEX
from tests.agents.harness_lab import KEY, played

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(500)]


async def test_its_commands_do_not_see_the_key(local_provider: LocalProvider, tmp_path: Path) -> None:
    end, _ = await played(Codex(), CODEX.script("env"), local_provider, tmp_path)
    said = (tmp_path / "codex.jsonl").read_text()
    assert end.reason == "done"
    assert "PATH=" in said
    assert KEY not in said
