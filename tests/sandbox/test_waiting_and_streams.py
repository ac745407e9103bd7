"""Calls that wait for a snapshot, what commands leave behind, what callbacks raise, whole output without room."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import SandboxLost
from swe_sdk.sandbox import whole_output
from swe_sdk.sandbox.contract import Limits, SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("calls", [1, 2, 5])
async def test_calls_that_wait_for_a_snapshot_go_on_after_it(provider: LocalProvider, calls: int) -> None:
    """Two were enough to hand the lock to one another for ever."""
    box = await provider.create(SandboxSpec())
    done: list[str] = []

    async def one(number: int) -> None:
        done.append((await box.exec(f"echo {number}")).stdout)

    with anyio.move_on_after(10):
        async with anyio.create_task_group() as group:
            async with box.changing:  # type: ignore[attr-defined]  # what a snapshot holds
                for number in range(calls):
                    group.start_soon(one, number)
                await anyio.sleep(0.05)
    assert sorted(done) == [f"{number}\n" for number in range(calls)]
    await box.close()


async def test_output_of_background_processes_does_not_use_up_the_supervisor(provider: LocalProvider) -> None:
    box = await provider.create(SandboxSpec(limits=Limits(open_files=64)))
    for _ in range(80):
        result = await box.exec("sleep 300 & echo started", timeout_s=20, merge_stderr=True)
        assert result.stdout == "started\n", result
    results = []

    async def one() -> None:
        results.append(await box.exec("sleep 0.3; echo x", timeout_s=20))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(one)
    assert [result.stdout for result in results] == ["x\n"] * 10, "an agent could have its box counted as lost"
    await box.close()


@pytest.mark.parametrize("error", [TimeoutError("mine"), SandboxLost("that of another box")])
async def test_what_a_callback_raises_is_not_the_boxs_end(provider: LocalProvider, error: Exception) -> None:
    box = await provider.create(SandboxSpec())

    def take(_stream: str, _data: bytes) -> None:
        raise error

    with pytest.raises(type(error), match=str(error)):
        await box.exec("echo x; sleep 5", on_output=take)
    assert (await box.exec("echo y")).stdout == "y\n"
    await box.close()


async def test_our_own_full_disk_ends_no_command(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(tmp_path)], check=False).returncode:
        pytest.skip("needs root")
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        box = await provider.create(SandboxSpec())
        with whole_output.WholeOutput(None) as output:
            result = await box.exec("head -c 3000000 /dev/zero; sleep 0.1; echo end", on_output=output.take)
            result = await output.put(box, "/tmp/all", result)
        assert (result.status, result.output_file) == ("exited", None)
        await box.close()
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=False)


async def test_a_list_of_processes_with_long_unprintable_arguments(provider: LocalProvider) -> None:
    """It must fit into a frame: snapshots and pauses ask for it."""
    program = (
        "import os, sys, time\n"
        "if len(sys.argv) < 3:\n"
        "    words = open('/proc/self/cmdline', 'rb').read().split(b'\\0')\n"
        "    os.execv('/usr/bin/python3', [b'python3', b'-c', words[2], b'x', b'\\xff' * 20000])\n"
        "for _ in range(3300):\n"
        "    if os.fork() == 0:\n"
        "        os.close(1); os.close(2); time.sleep(40); os._exit(0)\n"
    )
    box = await provider.create(SandboxSpec())
    assert (await box.exec(["python3", "-c", program], timeout_s=60)).ok
    assert len(await box.processes()) > 3000
    await box.close()
