"""The local provider keeps every promise of the sandbox contract, one test item a check."""

from __future__ import annotations

import os
import subprocess
import sys

import anyio
import pytest

from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.registry import named_provider
from swe_sdk.testing.provider_suite import ProviderSuite

health = anyio.run(named_provider("local").probe)
if not health.works and not os.environ.get("CI"):
    pytest.skip(f"local sandboxes do not work here: {health.reason} ({health.remedy})", allow_module_level=True)


class TestLocal(ProviderSuite):
    def make_provider(self) -> SandboxProvider:
        return named_provider("local")


def test_signals_that_this_process_ignores_are_not_ignored_in_a_box() -> None:
    """As under ``nohup`` or in a shell's background job, where SIGHUP and SIGINT are ignored from the start."""
    program = (
        "import anyio\n"
        "from swe_sdk.sandbox.providers.local.provider import LocalProvider\n"
        "from swe_sdk.testing import run_provider_suite\n"
        "async def main():\n"
        "    provider = LocalProvider()\n"
        "    report = await run_provider_suite(provider, select=['exec/signals_have_their_default_effect'])\n"
        "    await provider.aclose()\n"
        "    raise SystemExit(None if report.ok else str(report))\n"
        "anyio.run(main)\n"
    )
    script = ["sh", "-c", 'trap "" INT HUP TERM QUIT; exec "$@"', "sh", sys.executable, "-c", program]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
