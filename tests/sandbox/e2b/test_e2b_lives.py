"""Lives and ends of boxes, where the dialects do not differ: on the stand-in for E2B."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import InputError, SandboxClosed, SandboxLost, SnapshotBusy, TransferFailed
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.e2b.provider import E2BProvider
from tests.sandbox.e2b.conftest import MakeBox
from tests.sandbox.e2b.stubs import Server

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(e2b: Server) -> Server:
    """One dialect is enough."""
    return e2b


async def test_a_box_without_a_network_is_asked_for(server: Server, make_box: MakeBox) -> None:
    offline, online = await make_box(), await make_box(network="host")
    routes = "tail -n +2 /proc/net/route | wc -l"
    assert ((await offline.exec(routes)).stdout, (await online.exec(routes)).stdout != "0\n") == ("0\n", True)


async def test_secrets_of_a_command_stay_out_of_a_snapshot(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider
) -> None:
    """A10."""
    box = await make_box(env={"FROM_SPEC": "secret-of-spec"})
    result = await box.exec('echo "$TOKEN $FROM_SPEC"', env={"TOKEN": "secret-of-call"})
    assert result.stdout == "secret-of-call secret-of-spec\n"
    snapshot = await e2b_provider.snapshot(box)
    (image,) = server.images()
    told = subprocess.run(["docker", "inspect", image, *server.containers()], capture_output=True, check=True).stdout
    assert b"secret-of" not in told
    await e2b_provider.delete_snapshot(snapshot.id)


async def test_snapshots_of_e2b_may_hold_memory_if_that_is_wanted(e2b: Server, e2b_state: Path) -> None:
    provider = E2BProvider(state=e2b_state, **e2b.settings, snapshot_scope="memory")
    box = await provider.create(SandboxSpec())
    await box.exec("sleep 600 > /dev/null 2>&1 &")
    with pytest.raises(SnapshotBusy, match="sleep 600"):
        await provider.snapshot(box)
    await provider.aclose()


async def test_what_cannot_be_adopted_is_not(server: Server, e2b_provider: E2BProvider) -> None:
    with pytest.raises(SandboxLost):
        await e2b_provider.adopt("i-never-was", SandboxSpec())


async def test_a_command_outlives_the_process_that_began_it(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider, e2b_state: Path
) -> None:
    """A harness runs for hours: its result is fetched by whoever has the box then."""
    box = await make_box()
    name = await box.start("sleep 0.5; echo done; exit 7")
    other = E2BProvider(state=e2b_state, **server.settings)
    adopted = await other.adopt(box.handle, box.spec)
    server.hang_up()
    result = await adopted.result(name, timeout_s=30)
    assert (result.status, result.exit_code, result.stdout) == ("exited", 7, "done\n")
    with pytest.raises(InputError):
        await adopted.result("exec-of-nobody", timeout_s=30)
    await adopted.close()
    await other.aclose()


async def test_all_pages_are_reaped(server: Server, make_box: MakeBox, e2b_provider: E2BProvider) -> None:
    """A16: there are more boxes than the system tells at once."""
    boxes = [await make_box() for _ in range(5)]
    listed = await e2b_provider.owned()
    assert {one.handle for one in listed} == {box.handle for box in boxes}
    assert len(server.requests("GET /v2/sandboxes")) > 1
    for one in listed:
        await e2b_provider.remove(one.handle)
        await e2b_provider.remove(one.handle)
    assert server.containers() == []


async def test_a_paused_box_is_not_renewed_and_does_not_end(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider
) -> None:
    box = await make_box()
    await e2b_provider.engine.renew(box.handle, 1.0)
    await box.pause()
    await e2b_provider.engine.renew(box.handle, 60.0)
    await anyio.sleep(1.2)
    await box.resume()
    assert (await box.exec("echo lives")).stdout == "lives\n"


async def test_a_box_that_dies_under_a_command_is_lost(server: Server, make_box: MakeBox) -> None:
    """A13: never an exit code."""
    box = await make_box()
    (container,) = server.containers()
    async with anyio.create_task_group() as tasks:

        async def die() -> None:
            await anyio.sleep(0.5)
            await anyio.run_process(["docker", "kill", container])

        tasks.start_soon(die)
        result = await box.exec("sleep 60")
    assert (result.status, result.exit_code) == ("lost", None)
    assert await box.status() == "lost"


@pytest.mark.parametrize("error", [SandboxLost("that of another box"), TransferFailed("of another box")])
async def test_what_a_callback_raises_is_not_the_boxs_end(server: Server, make_box: MakeBox, error: Exception) -> None:
    """Whether it is called while the command runs, or when it has ended."""
    box = await make_box()

    def take(_stream: str, _data: bytes) -> None:
        raise error

    for command in ("echo x", "echo x; sleep 60"):
        with pytest.raises(type(error)) as raised:
            await box.exec(command, on_output=take)
        assert raised.value is error
    assert await box.status() == "running"
    assert (await box.exec("echo y")).stdout == "y\n"


async def test_bytes_survive_the_way(server: Server, make_box: MakeBox, tmp_path: Path) -> None:
    """A5: a patch with CRLF, without a last newline, not UTF-8; and files larger than one request takes."""
    box, patch = await make_box(), b"--- a\r\n+++ b\r\n\xff\xfe no newline"
    await box.write("/tmp/p", patch)
    assert await box.read("/tmp/p") == patch
    large = tmp_path / "large"
    large.write_bytes(bytes(range(256)) * (3 << 12))
    await box.upload(large, "/tmp/large")
    await box.download("/tmp/large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == large.read_bytes()


async def test_a_closed_provider_leaves_nothing(server: Server, e2b_state: Path) -> None:
    provider = E2BProvider(state=e2b_state, **server.settings)
    box = await provider.create(SandboxSpec())
    await provider.aclose()
    assert await box.status() == "stopped"
    with pytest.raises(SandboxClosed):
        await box.exec("true")
    assert server.containers() == []


@pytest.fixture
def orphan(server: Server, e2b_state: Path) -> str:
    """The sandbox of a process that was killed."""
    program = (
        "import anyio, json, os, sys\nfrom swe_sdk.sandbox.providers.e2b.provider import E2BProvider\n"
        "from swe_sdk.sandbox.contract import SandboxSpec\n"
        "async def main():\n"
        "    box = await E2BProvider(**json.loads(sys.argv[1])).create(SandboxSpec())\n"
        "    print(box.handle, flush=True)\n    os.kill(os.getpid(), 9)\n"
        "anyio.run(main)\n"
    )
    settings = json.dumps({**server.settings, "state": str(e2b_state)})
    done = subprocess.run([sys.executable, "-c", program, settings], capture_output=True, text=True, timeout=120)
    assert done.returncode == -9, done.stderr
    return done.stdout.strip()


async def test_the_boxes_of_a_dead_process_are_reaped(
    server: Server, e2b_provider: E2BProvider, orphan: str, make_box: MakeBox
) -> None:
    """By the next one that opens a provider; its own stay."""
    box = await make_box()
    assert [one.handle for one in await e2b_provider.owned()] == [box.handle]
    assert await e2b_provider.engine.find(orphan) is None
