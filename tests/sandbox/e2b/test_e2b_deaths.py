"""What dies on the way: the server with its gateway, envd in a sandbox, our supervisor, and what is in use."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import CreateFailed, PrerequisiteError, SnapshotNotFound
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.e2b import http
from swe_sdk.sandbox.providers.e2b.provider import E2BProvider
from swe_sdk.sandbox.providers.remote import calls
from swe_sdk.sandbox.providers.remote.failures import Silent
from swe_sdk.sandbox.reaper import reap
from tests.sandbox.e2b.conftest import MakeBox
from tests.sandbox.e2b.stubs import Server

pytestmark = pytest.mark.anyio
_COUNTS = "for i in $(seq 30); do echo $i; sleep 0.1; done; exit 6"


@pytest.fixture
def server(e2b: Server) -> Server:
    """One dialect is enough."""
    return e2b


async def test_a12_a_server_that_is_killed_takes_no_result_along(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even what is printed meanwhile; what cannot be made without it is an error of the infrastructure."""
    monkeypatch.setattr(http, "PAUSES_S", (0.01,))
    box = await make_box()
    seen: list[bytes] = []
    async with anyio.create_task_group() as tasks:

        async def restart() -> None:
            await anyio.sleep(0.7)
            server.kill()
            try:
                with pytest.raises(Silent):
                    await e2b_provider.engine.find(box.handle)
                with pytest.raises((CreateFailed, PrerequisiteError)):
                    await e2b_provider.create(SandboxSpec())
                with pytest.raises(PrerequisiteError):
                    await e2b_provider.ping()
            finally:
                await anyio.to_thread.run_sync(server.start)
            await e2b_provider.ping()

        tasks.start_soon(restart)
        result = await box.exec(_COUNTS, on_output=lambda _stream, data: seen.append(data))
    assert (result.status, result.exit_code) == ("exited", 6)
    assert result.stdout_bytes == b"".join(seen) == b"".join(b"%d\n" % number for number in range(1, 31))
    assert await box.status() == "running"
    await _forget_what_was_never_made(e2b_provider, monkeypatch)


async def test_a12_after_a_restart_a_box_is_adopted_with_its_command(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider, e2b_state: Path
) -> None:
    box = await make_box(labels={"run": "r"})
    name = await box.start("sleep 0.5; echo after; exit 3")
    server.kill()
    server.start()
    handle, spec = box.handle, box.spec
    box.let_go()
    other = E2BProvider(state=e2b_state, **server.settings)
    adopted = await other.adopt(handle, spec)
    result = await adopted.result(name, timeout_s=30)
    assert (result.exit_code, result.stdout) == (3, "after\n")
    assert await adopted.status() == "running"
    await other.aclose()


async def _forget_what_was_never_made(provider: E2BProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knew at that moment what had become of it, so it was noted."""
    monkeypatch.setattr("swe_sdk.sandbox.reaper._SETTLE_S", 0.0)
    report = await reap(provider.leases, [provider], only=provider.name)
    assert len(report.of("removed")) == 1


async def test_a14_a_box_whose_envd_is_dead_is_not_called_running(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can be connected to it any more; the system sees a sandbox that runs."""
    monkeypatch.setattr(calls, "PATIENCE_S", 1.0)
    box = await make_box()
    handle = box.handle
    async with anyio.create_task_group() as tasks:

        async def hang_up() -> None:
            await anyio.sleep(0.5)
            await anyio.to_thread.run_sync(server.hang_up)

        tasks.start_soon(hang_up)
        result = await box.exec("rm -f /.e2b/s; sleep 60", timeout_s=30)
    assert (result.status, result.exit_code, await box.status()) == ("lost", None, "lost")
    found = await e2b_provider.engine.find(handle)
    assert found is not None
    assert found.state == "running"


async def test_a14_the_supervisor_is_asked_too(server: Server, make_box: MakeBox, e2b_provider: E2BProvider) -> None:
    box = await make_box()
    handle = box.handle
    result = await box.exec("kill -9 $PPID; sleep 60", timeout_s=30)
    assert (result.status, await box.status()) == ("lost", "lost")
    assert await e2b_provider.engine.answers(handle)


async def test_a11_a_snapshot_in_use_is_deleted_when_that_is_over(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider
) -> None:
    """E2B keeps one on which paused sandboxes stand."""
    box = await make_box()
    await box.write("/tmp/f", b"kept")
    snapshot = await e2b_provider.snapshot(box)
    fork = await make_box(snapshot=snapshot.id)
    await fork.pause()
    await e2b_provider.delete_snapshot(snapshot.id)
    assert len(await e2b_provider.engine.snapshots(snapshot.id)) == 1
    assert await e2b_provider.snapshots() == []
    with pytest.raises(SnapshotNotFound):
        await make_box(snapshot=snapshot.id)
    await fork.resume()
    assert await fork.read("/tmp/f") == b"kept"
    await e2b_provider.delete_snapshot(snapshot.id)
    assert await e2b_provider.engine.snapshots(snapshot.id) == []
    await e2b_provider.delete_snapshot(snapshot.id)
    await e2b_provider.collect()
    assert list((e2b_provider.state / "deleted").glob("*")) == []
