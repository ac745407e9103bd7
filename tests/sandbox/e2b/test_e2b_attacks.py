"""A sandbox in which a program with root's powers works against us; and what an interruption leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import SandboxError, SandboxLost, TransferFailed
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox import build
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.e2b.provider import E2BProvider
from swe_sdk.sandbox.providers.remote import calls, execution
from swe_sdk.sandbox.providers.remote.box import RemoteBox
from swe_sdk.sandbox.providers.remote.failures import Silent
from swe_sdk.sandbox.reaper import reap
from tests.sandbox.e2b.conftest import MakeBox
from tests.sandbox.e2b.stubs import Server

pytestmark = pytest.mark.anyio
_USURPS = """
import glob, os, socket, sys
(place,) = glob.glob("/.swe_sdk/box/*")
listener = socket.socket(socket.AF_UNIX)
listener.bind(place + "/new")
listener.listen(100)
with open("/tmp/huge", "wb") as file:
    file.truncate(1 << 40)
os.rename(place + "/new", place + "/socket")
open("/tmp/done", "w")
while True:
    caller = listener.accept()[0]
    caller.recv(1 << 20)
    caller.sendall(sys.argv[1].encode().decode("unicode_escape").encode())
    caller.close()
"""
_BEGIN = 'setsid python3 /tmp/usurp.py "$1" > /tmp/log 2>&1 & until [ -e /tmp/done ]; do sleep 0.05; done'
_FORGED_EXIT = json.dumps(
    {
        "ev": "exit",
        "exit_code": 0,
        "killed": False,
        "tree_gone": True,
        "has_starved": False,
        "duration_s": 0.1,
        "kept": [1 << 40, 0],
        "dropped": [0, 0],
    }
)


@pytest.fixture
def server(e2b: Server) -> Server:
    """One dialect is enough."""
    return e2b


@pytest.mark.parametrize(
    "lines",
    [
        "taken\\nended /tmp/huge\\n",
        "taken\\nended /dev/zero\\n",
        "taken\\nended /etc/passwd\\n",
        "more\\n",
        'taken\\ntold {\\"ev\\": \\"exit\\"}\\n',
        "taken\\nwho knows\\n",
    ],
    ids=["huge", "device", "other", "more", "half", "nonsense"],
)
async def test_whoever_takes_our_supervisors_place_has_lost_the_box(
    server: Server, make_box: MakeBox, lines: str
) -> None:
    """What it says instead of our supervisor is no result, and does no harm here."""
    box = await _usurped(make_box, lines)
    with anyio.fail_after(30):
        result = await box.exec("echo never")
    assert (result.status, result.exit_code, await box.status()) == ("lost", None, "lost")


async def test_a_forged_end_is_told_without_what_never_came(server: Server, make_box: MakeBox) -> None:
    """One that is like ours in every field cannot be told from ours: a program with root's powers can pretend that a
    command went well, as the code under test can anyway. It costs nothing here."""
    box = await _usurped(make_box, f"taken\\ntold {_FORGED_EXIT}\\n")
    with anyio.fail_after(30):
        result = await box.exec("echo never")
    assert (result.stdout_bytes, result.stdout_dropped_bytes) == (b"", 1 << 40)


async def _usurped(make_box: MakeBox, lines: str) -> RemoteBox:
    box = await make_box()
    await box.write("/tmp/usurp.py", _USURPS.encode())
    assert (await box.exec(["sh", "-c", _BEGIN, "sh", lines])).ok
    return box


async def test_a_supervisor_that_is_stopped_loses_the_box(
    server: Server, make_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for it longer than for anybody."""
    box = await make_box()
    await box.exec("true")
    monkeypatch.setattr(execution, "KILL_CAP_S", 1.0)
    monkeypatch.setattr(calls, "_QUICK_S", 3.0)
    with anyio.fail_after(30):
        result = await box.exec("kill -STOP $PPID; sleep 60", timeout_s=1)
    assert (result.status, result.exit_code) == ("timeout", None)
    assert await box.status() == "lost"
    assert server.containers() == []


async def test_a_file_behind_a_stopped_supervisor_is_not_waited_for(
    server: Server, make_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = await make_box()
    await box.exec("setsid sh -c 'sleep 0.5; kill -STOP '$PPID > /dev/null 2>&1 &")
    await anyio.sleep(1)
    monkeypatch.setattr(calls, "_QUICK_S", 2.0)
    with anyio.fail_after(20), pytest.raises(SandboxLost):
        await box.read("/etc/hostname")
    assert await box.status() == "lost"


async def test_a_crowd_of_processes_is_ended_with_its_box(
    server: Server, make_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves no room even for the word to stop it."""
    monkeypatch.setattr(execution, "KILL_CAP_S", 3.0)
    box = await make_box()
    (container,) = server.containers()
    await anyio.run_process(["docker", "update", "--pids-limit", "60", container])
    with anyio.fail_after(60):
        result = await box.exec("bomb() { bomb | bomb & }; bomb; sleep 60", timeout_s=2)
    assert result.status in ("timeout", "lost")
    if server.containers():  # it was stopped in time
        assert await box.processes() == []


async def test_what_a_build_leaves_running_is_ended_and_the_box_is_not(server: Server, make_box: MakeBox) -> None:
    """A signal to everybody would be one to our supervisor and to envd as well."""
    box = await make_box()
    await box.exec("(setsid sleep 600 > /dev/null 2>&1 &); sleep 600 > /dev/null 2>&1 &")
    assert len(await box.processes()) == 2
    await build.stop_everything(box)
    assert await box.processes() == []
    assert await box.status() == "running"
    assert (await box.exec("echo lives")).stdout == "lives\n"


async def test_places_that_are_read_back_lead_nowhere(server: Server, make_box: MakeBox, tmp_path: Path) -> None:
    box = await make_box()
    await box.exec("ln -s /proc/self/environ /tmp/link; mkfifo /tmp/pipe; ln -s /dev/zero /tmp/zero; mkdir /tmp/dir")
    with anyio.fail_after(20):
        for name in ("link", "pipe", "zero", "dir", "none"):
            with pytest.raises(TransferFailed):
                await box.read(f"/tmp/{name}")
            with pytest.raises(TransferFailed):
                await box.download(f"/tmp/{name}", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


async def test_large_files_are_downloaded_and_not_read(server: Server, make_box: MakeBox, tmp_path: Path) -> None:
    """A gigabyte, most of it holes; and one that claims to be larger than any disk."""
    box = await make_box()
    await box.exec("truncate -s 1G /tmp/large; echo end >> /tmp/large; truncate -s 900T /tmp/huge || true")
    with pytest.raises(TransferFailed, match="bytes"):
        await box.read("/tmp/large")
    (there,) = (await box.exec("stat -c %s /tmp/huge")).stdout.split()
    if int(there):
        with pytest.raises(TransferFailed, match="bytes"):
            await box.download("/tmp/huge", tmp_path / "huge")


async def test_what_failed_before_does_not_delete_what_came_later(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider
) -> None:
    """A snapshot that was asked for in vain is noted, as something of it may be there; its later success stays."""
    box, wanted = await make_box(), new_id("snap")
    server.refuse(f"POST /sandboxes/{box.handle}/snapshots", 502)
    with pytest.raises(Silent):
        await e2b_provider.snapshot(box, snapshot_id=wanted)
    taken = await e2b_provider.snapshot(box, snapshot_id=wanted)
    await reap(e2b_provider.leases, [e2b_provider], only="e2b")
    assert await e2b_provider.snapshots() == [taken]
    await e2b_provider.delete_snapshot(wanted)


async def test_what_came_late_is_not_deleted_once_it_was_found(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same where it is the first attempt that came to its end after all."""
    box, wanted = await make_box(), new_id("snap")
    with monkeypatch.context() as patched:
        freeze = type(e2b_provider.engine).snapshot

        async def freeze_and_lose(*arguments: object) -> object:
            await freeze(*arguments)  # type: ignore[arg-type]
            raise Silent("the answer is lost")

        patched.setattr(type(e2b_provider.engine), "snapshot", freeze_and_lose)
        with pytest.raises(Silent):
            await e2b_provider.snapshot(box, snapshot_id=wanted)
    taken = await e2b_provider.snapshot(box, snapshot_id=wanted)
    await reap(e2b_provider.leases, [e2b_provider], only="e2b")
    assert await e2b_provider.snapshots() == [taken]
    await e2b_provider.delete_snapshot(wanted)


_DIES_BEFORE_IT_IS_NOTED = """
import anyio, json, os, sys
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.sandbox.providers.e2b.provider import E2BProvider
LeaseBook.confirm = lambda *_: os.kill(os.getpid(), 9)
anyio.run(E2BProvider(**json.loads(sys.argv[1])).create, SandboxSpec())
"""


async def test_a_death_between_create_and_record_leaves_nothing(
    server: Server, e2b_provider: E2BProvider, e2b_state: Path
) -> None:
    """The lease was there before, and the sandbox says whose it is."""
    settings = json.dumps({**server.settings, "state": str(e2b_state)})
    words = [sys.executable, "-c", _DIES_BEFORE_IT_IS_NOTED, settings]
    done = await anyio.to_thread.run_sync(lambda: subprocess.run(words, capture_output=True, timeout=120))
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(server.containers()) == 1
    await reap(e2b_provider.leases, [e2b_provider], only="e2b")
    assert server.containers() == []
    assert [lease for lease in e2b_provider.leases.leases() if lease.owner.pid != os.getpid()] == []


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.05, 0.15, 0.4])
async def test_a_cancellation_anywhere_leaves_what_was_there(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider, tmp_path: Path, delay_s: float
) -> None:
    """In an upload, in a command, and in a snapshot: either it is there, or it can be asked for again."""
    box, wanted = await make_box(), new_id("snap")
    large = tmp_path / "large"
    large.write_bytes(os.urandom(8 << 20))
    with anyio.move_on_after(delay_s):
        await box.upload(large, "/tmp/large")
    with anyio.move_on_after(delay_s):
        await box.exec("sleep 60")
    assert await box.processes() == []
    with anyio.move_on_after(delay_s):
        await e2b_provider.snapshot(box, snapshot_id=wanted)
    await box.upload(large, "/tmp/large")
    taken = await e2b_provider.snapshot(box, snapshot_id=wanted)
    await reap(e2b_provider.leases, [e2b_provider], only="e2b")
    assert await e2b_provider.snapshots() == [taken]
    assert len(server.images()) == 1
    await e2b_provider.delete_snapshot(wanted)
    assert [lease for lease in e2b_provider.leases.mine() if lease.id != box.lease.id] == []


async def test_the_box_of_somebody_else_is_not_adopted(server: Server, e2b_provider: E2BProvider) -> None:
    """Handles are from outside: none is a way to another route of the system."""
    for handle in ("../templates/debian", "i1?x=1", "a b", "", "..", "%2e%2e"):
        with pytest.raises(SandboxError):
            await e2b_provider.adopt(handle, SandboxSpec())
    assert not [one for one in server.requests() if one["request"].startswith("GET /templates")]
