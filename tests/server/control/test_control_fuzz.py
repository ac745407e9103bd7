"""No control call, however odd, is answered with a 500: schemathesis over the document, against a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from swe_sdk.checkpoint import AgentParticipant
from swe_sdk.server.control import ControlLimits, HttpParticipant, serve_control
from tests.server.control.over_http import SETTINGS, TOKEN

_EXAMPLES = int(os.environ.get("SWE_SDK_EXAMPLES") or 15)


def _schemathesis(url: str, place: Path) -> subprocess.CompletedProcess[str]:
    """All its checks but one: that every request which fits the schema is accepted. In which phase, no schema says."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--seed", "1"]
    command += ["--max-examples", str(_EXAMPLES), "--exclude-checks", "positive_data_acceptance"]
    command += ["--header", f"Authorization: Bearer {TOKEN}", "--continue-on-failure", "--generation-database", "none"]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=250, check=False)


def test_schemathesis_finds_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> subprocess.CompletedProcess[str]:
        limits = ControlLimits(checkpoint_root=tmp_path / "checkpoints")
        async with AgentParticipant() as agent, serve_control(agent, SETTINGS, limits=limits) as url:
            done = await to_thread.run_sync(_schemathesis, url, tmp_path)
            async with HttpParticipant(url, token=TOKEN) as client:
                assert (await client.status()).kind == "agent"
            return done

    done = anyio.run(main)
    assert done.returncode == 0, done.stdout[-5000:]
    assert "Operations:       9 selected / 9 total" in done.stdout, done.stdout
    assert [record for record in caplog.records if record.exc_info] == []
