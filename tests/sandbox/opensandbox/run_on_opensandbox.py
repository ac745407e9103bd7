"""A checkpointed run on OpenSandbox in real time: ``python -m ... SETTINGS DIRECTORY``, SETTINGS as JSON.

It may be killed at any time and started again: it goes on from its newest checkpoint, and ends when all rollouts have
their results.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio

from swe_sdk.sandbox.providers.opensandbox.provider import OpenSandboxProvider
from tests.checkpoint.real_run import OnDisk
from tests.checkpoint.runs import Plan, Process, Universe

PLAN = Plan(rollouts=1, steps=3, slots=1, last_life=(*[1.0] * 60, 0.0), pace=0.2, tolerance_s=5.0)


async def main(settings: str, directory: str) -> None:
    """One life."""
    provider = OpenSandboxProvider(**json.loads(settings))
    found = Universe(Path(directory), PLAN, provider=provider)
    found.results, found.cuts, found.attempts = (
        OnDisk(Path(directory) / name) for name in ("results", "cuts", "attempts")
    )  # type: ignore[assignment]
    try:
        await Process(found).live(None)
    finally:
        await provider.aclose()


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
