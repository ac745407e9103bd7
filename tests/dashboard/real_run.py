"""A real run for others to watch: ``python -m tests.dashboard.real_run PLACE ROLLOUTS`` with a run at PLACE/runs/live.

A scripted agent works on the tiny task in local sandboxes, and is graded in others; the run saves itself now and then.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from swe_sdk import aio
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.grading.tiny import make_task
from tests.runs.checkpointed import steps

_SAMPLES = 4


async def carry_out(place: Path, rollouts: int) -> None:
    """Warm up, say so, wait for a line on standard input, then do it."""
    task = make_task(place / "repo")
    tasks = [task.model_copy(update={"instance_id": f"tiny__answer-{n}"}) for n in range(rollouts // _SAMPLES)]
    provider = LocalProvider(place / "state")
    try:
        (await aio.run(task, "noop", provider=provider, path=place / "warm", progress=False)).close()
        print("ready", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        run = await aio.run(
            TaskSet(tasks, name="tiny"),
            steps(2, wait_s=0.2),
            provider=provider,
            path=place / "runs" / "live",
            samples=_SAMPLES,
            limit=4,
            budget=600,
            checkpoint_every=3,
            progress=False,
        )
        print(run.metrics.summary, flush=True)
        run.close()
    finally:
        await provider.aclose()


if __name__ == "__main__":
    anyio.run(carry_out, Path(sys.argv[1]), int(sys.argv[2]))
