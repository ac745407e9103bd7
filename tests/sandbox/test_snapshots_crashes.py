"""Processes that are killed, and processes that share a state directory: no snapshot is ever wrong, nothing is left."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import memory_folder, traces_of
from tests.sandbox import killed_store

REPOSITORY = Path(__file__).parents[2]
MANY = int(os.environ.get("SWE_SDK_EXAMPLES", "0")) >= 1000
DEATH_CAP_S = 10.0
COPIES = """
import sys, anyio
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local import freezing
from swe_sdk.sandbox.providers.local.provider import LocalProvider

freezing.MAX_DEPTH = 4
FILL = "mkdir -p /data; for i in $(seq 400); do echo $i > /data/$i; done; head -c 3000000 /dev/zero > /data/large"

async def main():
    provider = LocalProvider(sys.argv[1])
    box = await provider.create(SandboxSpec(workdir="/"))
    for number in range(100000):
        await box.exec(f"{FILL}; echo {number} > /data/number; sleep 100 > /dev/null 2>&1 &")
        await box.pause()
        snapshot = await provider.snapshot(box)
        await box.resume()
        await box.exec("kill -9 -1")
        while await box.processes():
            await anyio.sleep(0.001)
        await provider.delete_snapshot((await provider.snapshot(box)).id)
        fork = await provider.create(SandboxSpec(snapshot=snapshot.id, workdir="/"))
        await box.close()
        box = fork
        print(snapshot.id, flush=True)

anyio.run(main)
"""
SHARES = """
import random, sys, time, anyio
from swe_sdk.errors import SnapshotNotFound
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local import freezing
from swe_sdk.sandbox.providers.local.provider import LocalProvider

freezing.MAX_DEPTH = 6
CHECK = "cd /data; test $(cat a) = $(cat b); test $(ls c) = $(cat a); rm -r c; mkdir c;"
forks = missed = 0

async def main():
    global forks, missed
    provider = LocalProvider(sys.argv[1])
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        known = await provider.snapshots()
        chosen = random.choice(known)
        try:
            box = await provider.create(SandboxSpec(snapshot=chosen.id, workdir="/"))
        except SnapshotNotFound:
            missed += 1  # another process has deleted it meanwhile
            continue
        number = random.randrange(10**9)
        result = await box.exec(f"set -e; {CHECK} for f in a b c/{number}; do echo {number} > $f; done")
        assert result.ok, result.stderr
        await provider.snapshot(box)
        await box.close()
        forks += 1
        for snapshot in known[:-5]:
            if snapshot != known[0] and random.random() < 0.7:
                await provider.delete_snapshot(snapshot.id)
    await provider.aclose()
    print(forks, missed)

anyio.run(main)
"""


@pytest.fixture
def state() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="swe_sdk-crashes-", dir=memory_folder()) as folder:
        yield Path(folder) / "state"


def test_a_process_that_is_killed_at_any_line_leaves_no_wrong_state(state: Path) -> None:
    program = [sys.executable, "-m", killed_store.__name__, str(state), "1" if MANY else "4"]
    done = subprocess.run(program, cwd=REPOSITORY, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["problems"] == []
    assert told["lines"] > 300, "hardly anything was tried"


def test_a_process_that_is_killed_while_it_makes_snapshots(state: Path) -> None:
    """Of whatever it was doing, only complete snapshots are there afterwards, and each can be forked."""
    for _ in range(20 if MANY else 4):
        with subprocess.Popen(
            [sys.executable, "-c", COPIES, str(state)], stdout=subprocess.PIPE, cwd=REPOSITORY
        ) as child:
            assert child.stdout is not None
            made = child.stdout.readline().decode().strip()
            time.sleep(random.uniform(0, 0.3))
            child.send_signal(signal.SIGKILL)
            made = (child.stdout.read().decode().split() or [made])[-1]
        anyio.run(_check_remains, state, made)


async def _check_remains(state: Path, made: str) -> None:
    provider = LocalProvider(state)
    try:
        snapshots = await provider.snapshots()
        assert made in {snapshot.id for snapshot in snapshots}
        for snapshot in snapshots:
            box = await provider.create(SandboxSpec(snapshot=snapshot.id, workdir="/"))
            counted = await box.exec("ls /data | wc -l; cat /data/[0-9]* | wc -l; wc -c < /data/large; ls /data/number")
            assert counted.stdout == "402\n400\n3000000\n/data/number\n"
            await box.close()
            await provider.delete_snapshot(snapshot.id)
    finally:
        owner = provider.store.owner
        await provider.aclose()
    deadline = time.monotonic() + DEATH_CAP_S
    while left := traces_of(state, owner):  # the killed process's boxes may take a moment to die
        assert time.monotonic() < deadline, left
        provider.store.sweep()
        await provider.aclose()


def test_processes_share_a_state_directory(state: Path) -> None:
    """They fork, freeze and delete each other's snapshots; a fork holds one snapshot's files, or is refused."""

    async def begin() -> None:
        provider = LocalProvider(state)
        box = await provider.create(SandboxSpec(workdir="/"))
        await box.exec("mkdir -p /data/c; for f in a b c/0; do echo 0 > /data/$f; done")
        await provider.snapshot(box)
        await box.close()
        await provider.aclose()

    async def end() -> None:
        provider = LocalProvider(state)
        for snapshot in await provider.snapshots():
            await provider.delete_snapshot(snapshot.id)
        assert os.listdir(state / "layers") == []
        await provider.aclose()

    anyio.run(begin)
    program = [sys.executable, "-c", SHARES, str(state), "30" if MANY else "3"]
    children = [subprocess.Popen(program, stdout=subprocess.PIPE, cwd=REPOSITORY, text=True) for _ in range(3)]
    counts = [[int(word) for word in child.communicate(timeout=200)[0].split()] for child in children]
    assert [child.returncode for child in children] == [0, 0, 0]
    assert all(forks > 3 for forks, _missed in counts), counts
    anyio.run(end)
