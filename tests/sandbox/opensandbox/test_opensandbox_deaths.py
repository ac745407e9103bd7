"""What dies on the way: the server, a container, the daemon in it, this process, and time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import anyio
import pytest

from swe_sdk.errors import CreateFailed, PrerequisiteError, SandboxClosed, SandboxError, SandboxLost
from swe_sdk.sandbox import reaper
from swe_sdk.sandbox.contract import Limits, SandboxSpec
from swe_sdk.sandbox.leases import LABEL_LEASE, Lease
from swe_sdk.sandbox.owner import current_owner
from swe_sdk.sandbox.providers.opensandbox import engine
from swe_sdk.sandbox.providers.opensandbox.provider import OpenSandboxProvider
from swe_sdk.sandbox.providers.remote import calls
from swe_sdk.sandbox.providers.remote.engine import Wanted
from swe_sdk.sandbox.providers.remote.failures import Silent
from swe_sdk.sandbox.providers.remote.labels import metadata_of
from tests.sandbox.docker.images import debian_image
from tests.sandbox.opensandbox.osb_lab import MakeBox, container_of, make_provider
from tests.sandbox.opensandbox.server import Server, provider_settings

pytestmark = pytest.mark.anyio
_DIES = """
import anyio, json, os, signal, sys
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.opensandbox.provider import OpenSandboxProvider

async def main():
    made_of, line, pause = json.loads(sys.argv[1])
    box = await OpenSandboxProvider(**made_of).create(SandboxSpec())
    name = await box.start(line)
    if pause:
        await box.pause()
    print(json.dumps([box.handle, name]), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


def start_and_die(server: Server, line: str, *, pause: bool = False) -> list[str]:
    """Another process makes a box, starts a command in it, and is killed; the box's handle, and the command's name."""
    made_of = {**provider_settings(), "state": str(server.home / "state"), "base_image": debian_image()}
    what = json.dumps([made_of, line, pause])
    done = subprocess.run([sys.executable, "-c", _DIES, what], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    told: list[str] = json.loads(done.stdout)
    return told


async def test_a12_a_server_that_is_killed_takes_no_result_along(
    osb_server: Server, osb_provider: OpenSandboxProvider, osb_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = await osb_box()
    await box.exec("true")
    async with anyio.create_task_group() as tasks:

        async def kill() -> None:
            await anyio.sleep(0.7)
            osb_server.kill()

        tasks.start_soon(kill)
        result = await box.exec("sleep 1.5; echo delivered; exit 6")
    assert (result.status, result.exit_code, result.stdout) == ("exited", 6, "delivered\n")
    try:
        with pytest.raises(Silent):
            await osb_provider.engine.find(box.handle)
        with pytest.raises((CreateFailed, PrerequisiteError)):
            await osb_provider.create(SandboxSpec())
        with pytest.raises(PrerequisiteError):
            await osb_provider.ping()
        name = await box.start("sleep 1; echo after")
    finally:
        osb_server.start()
    monkeypatch.setattr(reaper, "_SETTLE_S", 0.0)
    report = await reaper.reap(osb_provider.leases, [osb_provider], only=osb_provider.name)
    assert len(report.of("removed")) == 1, "what could not be made was noted, as nobody knows what became of it"
    handle, spec = box.handle, box.spec
    box.let_go()
    second = make_provider()
    try:
        adopted = await second.adopt(handle, spec)
        assert (await adopted.result(name)).stdout == "after\n"
        assert await adopted.status() == "running"
    finally:
        await second.aclose()


async def test_a12_what_goes_through_a_server_waits_until_it_is_back(osb_server: Server) -> None:
    provider = make_provider(use_server_proxy=True)
    box = await provider.create(SandboxSpec())
    try:
        async with anyio.create_task_group() as tasks:

            async def restart() -> None:
                await anyio.sleep(0.7)
                osb_server.kill()
                await anyio.to_thread.run_sync(osb_server.start)

            tasks.start_soon(restart)
            seen: list[bytes] = []
            result = await box.exec(
                "for i in $(seq 30); do echo $i; sleep 0.1; done", on_output=lambda _stream, data: seen.append(data)
            )
        assert result.exit_code == 0
        assert result.stdout_bytes == b"".join(seen) == b"".join(b"%d\n" % number for number in range(1, 31))
    finally:
        await provider.aclose()


async def test_a12_a_command_outlives_the_process_that_started_it(
    osb_server: Server, osb_provider: OpenSandboxProvider
) -> None:
    handle, name = start_and_die(osb_server, "sleep 1; echo survived; exit 9")
    box = await osb_provider.adopt(handle, SandboxSpec())
    result = await box.result(name)
    assert (result.status, result.exit_code, result.stdout) == ("exited", 9, "survived\n")
    found = await osb_provider.engine.find(handle)
    assert found is not None
    assert found.metadata[LABEL_LEASE] == box.lease.id
    report = await reaper.reap(osb_provider.leases, [osb_provider], only=osb_provider.name)
    assert report.of("removed") == ()
    assert await box.status() == "running"


async def test_a13_a_command_whose_container_is_killed_is_lost(osb_box: MakeBox) -> None:
    box = await osb_box()
    async with anyio.create_task_group() as tasks:

        async def kill() -> None:
            await anyio.sleep(0.7)
            container = await anyio.to_thread.run_sync(container_of, box)
            await anyio.run_process(["docker", "kill", container])

        tasks.start_soon(kill)
        begin = time.monotonic()
        result = await box.exec("sleep 30; exit 0")
    assert (result.status, result.exit_code) == ("lost", None)
    assert time.monotonic() - begin < 15
    assert await box.status() == "lost"
    with pytest.raises(SandboxLost):
        await box.exec("true")


async def test_a14_a_box_whose_daemon_is_dead_is_not_called_running(
    osb_provider: OpenSandboxProvider, osb_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "PATIENCE_S", 1.0)
    box = await osb_box()
    result = await box.exec("pkill -9 -f opensandbox/execd; sleep 60", timeout_s=30)
    assert (result.status, result.exit_code) == ("lost", None)
    found = await osb_provider.engine.find(box.handle) if not box.is_lost else None
    assert found is None
    assert await box.status() == "lost"


async def test_a14_the_supervisor_is_asked_too(osb_provider: OpenSandboxProvider, osb_box: MakeBox) -> None:
    box = await osb_box()
    handle = box.handle
    result = await box.exec("kill -9 $PPID; sleep 60", timeout_s=30)
    assert (result.status, await box.status()) == ("lost", "lost")
    found = await osb_provider.engine.find(handle)
    assert found is not None
    assert found.state == "running"


async def test_a_box_without_our_programs_is_lost_and_hangs_nobody(osb_box: MakeBox) -> None:
    box = await osb_box()
    await box.exec("true")
    with anyio.fail_after(30):
        result = await box.exec("rm -rf /.swe_sdk/*/bin; sleep 0.2; pkill -f boxside")
        if result.status != "lost":
            with pytest.raises(SandboxLost):
                await box.read("/etc/hostname")
    assert await box.status() == "lost"


async def test_a15_a_box_whose_time_is_over_is_gone(osb_provider: OpenSandboxProvider, osb_box: MakeBox) -> None:
    box = await osb_box()
    handle = box.handle
    await box.renew(1.5)
    with anyio.fail_after(20):
        while await osb_provider.engine.find(handle) is not None:
            await anyio.sleep(0.2)
    with pytest.raises(SandboxLost):
        await box.read("/etc/hostname")
    assert await box.status() == "lost"
    assert (await box.exec("true")).status == "lost" if not box.is_lost else True
    await box.close()


async def test_renewals_keep_a_box(osb_provider: OpenSandboxProvider, osb_box: MakeBox) -> None:
    box = await osb_box()
    await box.renew(1.0)
    await osb_provider.heartbeat.renew_all()
    await anyio.sleep(1.5)
    assert (await box.exec("echo there")).stdout == "there\n"


async def test_a16_a_reaper_sees_all_pages(osb_provider: OpenSandboxProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their labels alone, as there is no lease of them. ``SWE_SDK_WHOLE_SUITE``: more than a page of the server."""
    count, page = (30, 20) if "SWE_SDK_WHOLE_SUITE" in os.environ else (5, 2)
    monkeypatch.setattr(engine, "_PAGE", page)
    dead = current_owner().model_copy(update={"started": 1})
    handles: set[str] = set()

    async def make(number: int) -> None:
        lease = Lease(id=f"box-{number}", provider="opensandbox", owner=dead, created_at=0.0, renewed_at=0.0)
        wanted = Wanted(debian_image(), None, metadata_of(lease, lease.id), 600.0, "none", Limits())
        handles.add(await osb_provider.engine.create(wanted))

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(make, number)
    assert handles <= {box.handle for box in await osb_provider.owned()}
    report = await reaper.reap(osb_provider.leases, [osb_provider], only=osb_provider.name)
    assert handles <= {item.handle for item in report.of("removed")}
    assert not handles & {box.handle for box in await osb_provider.owned()}


async def test_a17_a_paused_box_is_adopted_as_it_is(osb_server: Server, osb_provider: OpenSandboxProvider) -> None:
    line = "while :; do echo tick >> /tmp/ticks; sleep 0.05; done"
    handle, name = start_and_die(osb_server, line, pause=True)
    begin = time.monotonic()
    box = await osb_provider.adopt(handle, SandboxSpec())
    assert time.monotonic() - begin < 1.0
    assert await box.status() == "paused"
    with pytest.raises(SandboxError, match="paused"):
        await box.exec("true")
    await box.resume()
    before = len(await box.read("/tmp/ticks"))
    await anyio.sleep(0.3)
    assert len(await box.read("/tmp/ticks")) > before
    result = await box.result(name, timeout_s=0.1)
    assert result.status == "timeout"
    assert await box.processes() == []


async def test_only_what_is_ours_is_adopted(osb_provider: OpenSandboxProvider, osb_box: MakeBox) -> None:
    with pytest.raises(SandboxLost, match="gone"):
        await osb_provider.adopt("no-such-sandbox", SandboxSpec())
    box = await osb_box()
    await box.close()
    with pytest.raises(SandboxClosed):
        await box.exec("true")


def test_a18_this_process_may_be_asked_where_it_has_connected(osb_server: Server) -> None:
    """Every test of this folder looks at the connections of its process: here is that they are seen at all."""
    from tests.sandbox.opensandbox.osb_lab import connections

    anyio.run(make_provider().engine.introduce)
    assert {host for host, _port in connections()} == {"127.0.0.1"}
    assert os.environ["OPEN_SANDBOX_API_KEY"]
