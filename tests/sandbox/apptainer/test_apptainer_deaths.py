"""Whoever dies, at whatever moment: nothing is left behind, and nobody else is hurt."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import SandboxLost
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings
from swe_sdk.sandbox.reaper import reap
from tests.leaks import processes_of, traces_of
from tests.sandbox.apptainer.images import apptainer, busybox_directory, debian_sif
from tests.sandbox.boxes import output

pytestmark = pytest.mark.anyio

_WORK = """
import anyio, sys
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings

state, program, image, directory = sys.argv[1:]

async def main():
    provider = ApptainerProvider(state, options=ApptainerSettings(program=program, build_attempts=1, free_bytes=0))
    print("began", flush=True)
    while True:
        for name in (image, directory):
            box = await provider.create(SandboxSpec(image=name, workdir="/"))
            await box.exec("setsid sleep 600 > /dev/null 2>&1 & echo x > made; head -c 3000000 /dev/zero > large")
            await box.exec("kill -9 -1 2> /dev/null; true")
            snapshot = await provider.snapshot(box)
            fork = await provider.create(SandboxSpec(snapshot=snapshot.id, workdir="/"))
            await fork.exec("cat made; setsid sleep 600 > /dev/null 2>&1 &")
            await fork.pause()
            await provider.delete_snapshot((await provider.snapshot(fork)).id)
            for each in (fork, box):
                await each.close()
            await provider.delete_snapshot(snapshot.id)

anyio.run(main)
"""
KILLS = int(os.environ.get("SWE_SDK_KILL_POINTS", "12"))


@pytest.fixture
def work(apptainer_state: Path, tmp_path: Path) -> list[str]:
    """The command line of a program that does everything, over and over, on a state directory of its own."""
    directory = busybox_directory(tmp_path / "root")
    state = apptainer_state / "worked"
    return [sys.executable, "-c", _WORK, str(state), apptainer(), str(debian_sif()), str(directory)]


async def test_killed_at_any_moment_it_leaves_nothing_that_a_reaper_does_not_remove(
    work: list[str], apptainer_state: Path, tmp_path: Path
) -> None:
    """The first 200 ms included, in which Apptainer itself is on its way up. A live sibling is not touched."""
    state = apptainer_state / "worked"
    sibling = ApptainerProvider(state, options=ApptainerSettings(program=apptainer()))
    try:
        box = await sibling.create(SandboxSpec(image=str(debian_sif()), workdir="/tmp"))
        await output(box, "echo mine > file")
        moments, book = random.Random(KILLS), LeaseBook(tmp_path / "leases")
        for _ in range(KILLS):
            await _begin_and_kill(work, after_s=moments.uniform(0, 0.8))
            report = await reap(book, [sibling])
            assert (report.unreachable, report.of("failed")) == ({}, ())
        assert await output(box, "cat file") == "mine"
        await box.close()
        for snapshot in await sibling.snapshots():
            await sibling.delete_snapshot(snapshot.id)
    finally:
        await sibling.aclose()
    await _gone(str(state))
    assert traces_of(state) == {}


async def _begin_and_kill(work: list[str], after_s: float) -> None:
    with subprocess.Popen(work, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"began\n"
        await anyio.sleep(after_s)
        process.kill()


async def test_a_killed_zygote_takes_its_boxes_and_the_next_box_lives(provider: ApptainerProvider) -> None:
    boxes = [await provider.create(SandboxSpec(workdir="/tmp")) for _ in range(2)]
    await output(boxes[0], "setsid sleep 600 > /dev/null 2>&1 &")
    (zygote,) = provider.images.all
    assert zygote._process is not None
    os.kill(zygote._process.pid, signal.SIGKILL)  # Apptainer's own process, above the zygote
    with anyio.fail_after(10):
        while [await box.status() for box in boxes] != ["lost", "lost"]:
            await anyio.sleep(0.02)
    for box in boxes:
        with pytest.raises(SandboxLost):
            await box.exec("true")
    fresh = await provider.create(SandboxSpec(workdir="/tmp"))
    assert await output(fresh, "echo works") == "works"
    assert await fresh.status() == "running"


async def test_a_box_whose_supervisor_is_killed_is_lost_alone(provider: ApptainerProvider) -> None:
    lost, other = [await provider.create(SandboxSpec(workdir="/tmp")) for _ in range(2)]
    signal.pidfd_send_signal(lost._pidfd, signal.SIGKILL)  # type: ignore[attr-defined]
    with anyio.fail_after(5):
        while await lost.status() != "lost":
            await anyio.sleep(0.01)
    assert await output(other, "echo works") == "works"
    await lost.close()


async def test_a_cancelled_start_leaves_nothing(apptainer_state: Path, options: ApptainerSettings) -> None:
    state = apptainer_state / "cancelled"
    for wait_s in (0.0, 0.05, 0.15):
        provider = ApptainerProvider(state, options=options)
        with anyio.move_on_after(wait_s):
            await provider.create(SandboxSpec(workdir="/"))
        await provider.aclose()
        await _gone(str(state))
    assert traces_of(state) == {}


def test_a_program_that_ends_without_closing_anything_leaves_nothing(work: list[str], apptainer_state: Path) -> None:
    program = work[2].replace("while True:", "for _ in range(1):").replace("for each in (fork, box)", "for each in ()")
    subprocess.run([*work[:2], program, *work[3:]], check=True, timeout=60, stdout=subprocess.DEVNULL)
    assert list(processes_of(str(apptainer_state / "worked"))) == []
    assert not list((apptainer_state / "worked/boxes").iterdir())


async def _gone(state: str, quiet_s: float = 1.0) -> None:
    """Until no process has had to do with ``state`` for a while: Apptainer's own, on their way up, do not name it."""
    with anyio.fail_after(15):
        seen_at = anyio.current_time()
        while anyio.current_time() < seen_at + quiet_s:
            if list(processes_of(state)):
                seen_at = anyio.current_time()
            await anyio.sleep(0.05)


_PULL = """
import anyio, sys
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings
provider = ApptainerProvider(sys.argv[1], options=ApptainerSettings(program=sys.argv[2], free_bytes=0))
anyio.run(provider.find_image, sys.argv[3])
"""


async def test_a_pull_ends_with_the_process_that_wanted_it(apptainer_state: Path, options: ApptainerSettings) -> None:
    state = apptainer_state / "pulled"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-c", _PULL, str(state), apptainer(), f"docker://{host}/team/image"]
        with subprocess.Popen(command) as process:
            silent.settimeout(30)
            silent.accept()[0].close()  # it has asked, so that Apptainer is at work
            assert any("apptainer build" in what for _pid, what in processes_of(host))
            process.kill()
        await _gone(host)
    after = ApptainerProvider(state, options=options)
    assert after.store.root == state
    await after.aclose()
    assert traces_of(state) == {}
    assert not list((state / "sif").glob("*.sif"))
