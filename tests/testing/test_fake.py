"""The fake provider: boxes in memory, faults where they are asked for, and honest counters."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import (
    CapabilityMissing,
    CreateFailed,
    NoSpace,
    SandboxClosed,
    SandboxLost,
    SnapshotNotFound,
    TransferFailed,
)
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import (
    Box,
    SandboxProvider,
    SandboxSpec,
    SupportsBuild,
    SupportsSnapshots,
)
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing.fake import Command, FakeBox, FakeProvider, Fault, MemoryBox, Reply

pytestmark = pytest.mark.anyio
SPEC = SandboxSpec(env={"A": "spec", "B": "spec"})


async def test_it_is_a_provider() -> None:
    provider = FakeProvider()
    box = await provider.create(SPEC)
    assert isinstance(provider, SandboxProvider)
    assert isinstance(provider, SupportsSnapshots)
    assert not isinstance(provider, SupportsBuild)
    assert isinstance(box, Box)
    assert (await provider.probe()).works
    assert box.spec == SPEC


async def test_the_handler_plays_the_program() -> None:
    def handler(command: Command, box: MemoryBox) -> Reply:
        if command.argv is not None:
            return ExecResult(status="exited", exit_code=3, stderr_bytes=repr(command.argv).encode())
        if "circumstances" in command:
            return f"{command.cwd} {command.env['A']} {command.env['B']} {command.user}".encode() + command.stdin
        return "text"

    box = await FakeProvider(handler=handler).create(SPEC)
    assert (await box.exec("x")).stdout == "text"
    result = await box.exec(["a", "b c"])
    assert (result.exit_code, result.stderr) == (3, "('a', 'b c')")
    told = await box.exec("circumstances", cwd="/c", env={"B": "exec"}, user="me", stdin=b" in")
    assert told.stdout == "/c spec exec me in"
    assert (await box.exec("circumstances")).stdout.startswith("/testbed spec spec None")


async def test_programs_succeed_without_a_handler() -> None:
    result = await (await FakeProvider().create(SPEC)).exec("anything")
    assert result.ok
    assert result.stdout_bytes == b""


async def test_a_handler_sees_and_changes_the_files(tmp_path: Path) -> None:
    def handler(command: Command, box: MemoryBox) -> Reply:
        box.files["/testbed/made"] = box.files["/testbed/given"]._replace(mode=0o700)
        return b""

    box = await FakeProvider(handler=handler).create(SPEC)
    await box.write("given", b"data")
    await box.exec("copy")
    await box.download("/testbed/made", tmp_path / "local")
    assert (tmp_path / "local").read_bytes() == b"data"
    assert (tmp_path / "local").stat().st_mode & 0o777 == 0o700
    await box.upload(tmp_path / "local", "/up/there")
    assert await box.read("/up/there") == b"data"


async def test_an_asynchronous_handler_is_subject_to_the_timeout() -> None:
    async def handler(command: Command, box: MemoryBox) -> Reply:
        await anyio.sleep(float(command))
        return "slept"

    box = await FakeProvider(handler=handler).create(SPEC)
    assert (await box.exec("0.01", timeout_s=5)).stdout == "slept"
    late = await box.exec("30", timeout_s=0.05)
    assert (late.status, late.exit_code) == ("timeout", None)


async def test_output_is_shaped_as_by_a_provider() -> None:
    def handler(command: Command, box: MemoryBox) -> Reply:
        return ExecResult(status="exited", exit_code=0, stdout_bytes=b"0123456789A", stderr_bytes=b"err")

    box = await FakeProvider(handler=handler).create(SPEC)
    pieces: list[tuple[str, bytes]] = []
    result = await box.exec("x", output_bytes=10, on_output=lambda stream, data: pieces.append((stream, data)))
    assert (result.stdout_bytes, result.stdout_dropped_bytes, result.stderr_bytes) == (b"012346789A", 1, b"err")
    assert pieces == [("stdout", b"0123456789A"), ("stderr", b"err")]
    merged = await box.exec("x", merge_stderr=True)
    assert (merged.stdout_bytes, merged.stderr_bytes) == (b"0123456789Aerr", b"")
    assert (await box.exec("x", output_bytes=0)).stdout_dropped_bytes == 11


async def test_what_is_not_there_or_closed_is_refused(tmp_path: Path) -> None:
    box = await FakeProvider().create(SPEC)
    await box.write("/d/f", b"")
    for attempt in (
        box.read("/none"),
        box.download("/none", tmp_path / "x"),
        box.upload(tmp_path / "none", "/x"),
        box.write("/d", b"a directory"),
    ):
        with pytest.raises(TransferFailed):
            await attempt
    await box.close()
    await box.close()
    for attempt in (box.exec("x"), box.read("/d/f"), box.write("/f", b"")):
        with pytest.raises(SandboxClosed):
            await attempt
    assert await box.status() == "stopped"


async def test_snapshots_in_memory() -> None:
    provider = FakeProvider()
    box = await provider.create(SPEC)
    await box.write("/f", b"old")
    snapshot = await provider.snapshot(box)
    await box.write("/f", b"new")
    fork = await provider.create(SandboxSpec(snapshot=snapshot.id))
    await fork.write("/g", b"")
    assert await fork.read("/f") == b"old"
    assert await provider.snapshots() == [snapshot]
    await provider.delete_snapshot(snapshot.id)
    await provider.delete_snapshot(snapshot.id)
    with pytest.raises(SnapshotNotFound):
        await provider.create(SandboxSpec(snapshot=snapshot.id))
    await box.close()
    with pytest.raises(SandboxClosed):
        await provider.snapshot(box)


async def test_capabilities_can_be_hidden() -> None:
    provider = FakeProvider(inner=LocalProvider(), capabilities=["streaming"])
    assert provider.capabilities == {"streaming"}
    assert not isinstance(provider, SupportsBuild)
    with pytest.raises(CapabilityMissing):
        await provider.snapshots()
    assert isinstance(FakeProvider(inner=LocalProvider()), SupportsBuild)
    box = await FakeProvider().create(SPEC)
    assert isinstance(box, FakeBox)
    for attempt in (box.pause(), box.resume(), box.processes(), box.listen()):
        with pytest.raises(CapabilityMissing):
            await attempt


async def test_only_the_nth_matching_call_goes_wrong() -> None:
    faults = [Fault("exec", nth=2, match="^pytest", error=NoSpace("disk full")), Fault("read", nth=None, error=OSError)]
    provider = FakeProvider(faults=faults)
    box = await provider.create(SPEC)
    await box.exec("pytest -q")
    await box.exec("echo pytest")
    with pytest.raises(NoSpace, match="disk full"):
        await box.exec(["pytest", "a b"])
    await box.exec("pytest")
    for _ in range(2):
        with pytest.raises(OSError):  # noqa: PT011  the class alone was asked for
            await box.read("/x")
    assert provider.calls == {"create": 1, "exec": 4, "read": 2}
    assert [(call.op, call.subject, call.outcome) for call in provider.log[1:4]] == [
        ("exec", "pytest -q", "done"),
        ("exec", "echo pytest", "done"),
        ("exec", "pytest 'a b'", "NoSpace"),
    ]
    assert provider.log[3].fault is faults[0]
    assert provider.log[3].box_id == box.id


async def test_the_reply_to_a_create_is_lost_but_the_box_lives() -> None:
    """The leak that adoption by label, or a lease written before, has to find."""
    provider = FakeProvider(faults=[Fault("create", match='"run":"7"', error="reply_lost")])
    await provider.create(SPEC)
    with pytest.raises(CreateFailed, match="reply was lost"):
        await provider.create(SandboxSpec(labels={"run": "7"}))
    assert [box.spec.labels for box in provider.live] == [{}, {"run": "7"}]
    await provider.aclose()
    assert provider.live == ()


async def test_a_lost_reply_has_done_its_work() -> None:
    runs: list[str] = []

    def handler(command: Command, box: MemoryBox) -> Reply:
        runs.append(command)
        return b""

    operations = ("exec", "write", "snapshot", "close")
    provider = FakeProvider(handler=handler, faults=[Fault(op, error="reply_lost") for op in operations])
    box = await provider.create(SPEC)
    with pytest.raises(SandboxLost):
        await box.exec("run")
    with pytest.raises(TransferFailed):
        await box.write("/f", b"written")
    with pytest.raises(SandboxLost):
        await provider.snapshot(box)
    assert runs == ["run"]
    assert await box.read("/f") == b"written"
    assert len(await provider.snapshots()) == 1
    with pytest.raises(SandboxLost):
        await box.close()
    assert await box.status() == "stopped"


async def test_a_box_that_is_lost_stays_lost() -> None:
    provider = FakeProvider(faults=[Fault("exec", nth=2, error="lost")])
    box = await provider.create(SPEC)
    await box.exec("one")
    result = await box.exec("two")
    assert (result.status, result.exit_code) == ("lost", None)
    for attempt in (box.exec("three"), box.read("/f"), box.write("/f", b""), provider.snapshot(box)):
        with pytest.raises(SandboxLost):
            await attempt
    assert await box.status() == "lost"
    assert provider.live == ()
    await box.close()
    assert await box.status() == "stopped"


async def test_a_box_can_be_lost_by_a_transfer_and_never_be_made() -> None:
    provider = FakeProvider(faults=[Fault("read", error="lost"), Fault("create", nth=2, error="lost")])
    box = await provider.create(SPEC)
    with pytest.raises(SandboxLost):
        await box.read("/f")
    assert await box.status() == "lost"
    with pytest.raises(CreateFailed):
        await provider.create(SPEC)
    assert len(provider.boxes) == 1


async def test_a_hang_ends_by_cancellation_only() -> None:
    provider = FakeProvider(faults=[Fault("exec", error="hang"), Fault("close", error="hang")])
    box = await provider.create(SPEC)
    with anyio.move_on_after(0.1) as scope:
        await box.exec("x", timeout_s=0.01)
    assert scope.cancelled_caught
    assert provider.log[-1].outcome == "CancelledError"
    with anyio.move_on_after(0.05):
        await box.close()
    assert provider.live == (box,)
    await box.close()
    assert provider.live == ()


async def test_a_delay_comes_before_the_call() -> None:
    provider = FakeProvider(faults=[Fault("create", delay_s=0.1)])
    begin = anyio.current_time()
    await provider.create(SPEC)
    assert anyio.current_time() - begin >= 0.1


async def test_a_failing_probe_is_a_provider_that_does_not_work() -> None:
    health = await FakeProvider(faults=[Fault("probe", error=SandboxLost("no daemon", remedy="start it"))]).probe()
    assert (health.works, health.reason, health.remedy) == (False, "no daemon", "start it")


async def test_concurrent_calls_are_counted_once_each() -> None:
    provider = FakeProvider(faults=[Fault("exec", nth=50, error=NoSpace("full"))])
    box = await provider.create(SPEC)
    full: list[int] = []

    async def one(number: int) -> None:
        try:
            await box.exec(f"run {number}")
        except NoSpace:
            full.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(one, number)
    assert provider.calls["exec"] == 100
    assert len(full) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"op": "explode", "error": "hang"},
        {"op": "exec", "error": "bang"},
        {"op": "exec", "error": "hang", "nth": 0},
        {"op": "exec"},
        {"op": "exec", "error": "hang", "match": "("},
    ],
    ids=str,
)
def test_a_fault_that_means_nothing_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(Exception, match=r"no operation|no trouble|counts from 1|needs an error|missing|unterminated"):
        Fault(**arguments)  # type: ignore[arg-type]


@pytest.mark.usefixtures("local_works")
async def test_a_real_box_is_lost_under_a_running_command() -> None:
    provider = FakeProvider(inner=LocalProvider(), faults=[Fault("exec", match="sleep 60", error="lost", delay_s=0.3)])
    try:
        box = await provider.create(SandboxSpec())
        await box.exec("echo kept > /tmp/f")
        result = await box.exec("sleep 60")
        assert (result.status, await box.status()) == ("lost", "lost")
        with pytest.raises(SandboxLost):
            await box.exec("cat /tmp/f")
    finally:
        await provider.aclose()
