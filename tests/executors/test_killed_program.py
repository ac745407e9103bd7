"""A program that carries out jobs itself and is killed: nothing is left once the reaper has been there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio

from swe_sdk.executors.worker import reap_here
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing.executor_work import HOLD
from swe_sdk.testing.this_machine import is_on_a_command_line

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys, anyio
from swe_sdk.executors.contract import Job
from swe_sdk.executors.local import LocalExecutor

async def main():
    async with LocalExecutor(slots=2).open() as pool, anyio.create_task_group() as tasks:
        for number in range(2):
            given = {"word": f"swe-sdk-held-killed-{number}", "seconds": 60.0, "folder": sys.argv[1]}
            tasks.start_soon(pool.run, Job(id=str(number), work=sys.argv[2], input=given))

anyio.run(main)
"""


def test_nothing_is_left_of_a_killed_program(tmp_path: Path, local_works: None, own_state: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), HOLD]
    program = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        anyio.run(_until_held, tmp_path)
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()
    assert anyio.run(_left_after_reaping, own_state) == []
    assert not is_on_a_command_line("swe-sdk-held-killed")


async def _until_held(folder: Path) -> None:
    with anyio.fail_after(120):
        while len(list(folder.glob("[0-9]*-swe-sdk-held-*"))) < 2:
            await anyio.sleep(0.1)


async def _left_after_reaping(state: Path) -> list[str]:
    await reap_here()
    provider = LocalProvider(state)
    try:
        return [box.handle for box in await provider.owned()]
    finally:
        await provider.aclose()
