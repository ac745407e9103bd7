"""Requests that make no sense and places that do not work: a typed error or a plain result, and the box lives on."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from swe_sdk.errors import InputError, NoSpace, SandboxError, SweError, TransferFailed
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Mount, SandboxSpec
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.sandbox.boxes import create, ok

pytestmark = pytest.mark.anyio


ODD_COMMANDS = {
    "an argument that is no text": (["echo", "\ud800"], {}),
    "a missing directory": (["true"], {"cwd": "/nonexistent"}),
    "a directory that is a file": (["true"], {"cwd": "/etc/passwd"}),
    "an argument beyond the kernel's limit": (["echo", "x" * 200_000], {}),
    "a variable beyond the kernel's limit": (["true"], {"env": {"A": "x" * 200_000}}),
    "more variables than the kernel takes": (["true"], {"env": {f"A{n}": "x" * 100_000 for n in range(40)}}),
    "an argument beyond our own limit": (["echo", "x" * (70 << 20)], {}),
}


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ([], {}),
        ([""], {}),
        (["echo", "a\0b"], {}),
        (["true"], {"cwd": "a\0b"}),
        (["true"], {"timeout_s": float("nan")}),
        (["true"], {"timeout_s": -1.0}),
        (["true"], {"env": {"A": "a\0b"}}),
        (["true"], {"env": {"A=B": ""}}),
        (["true"], {"env": {"": ""}}),
    ],
)
async def test_what_no_system_can_express_is_bad_input(
    box: LocalBox, command: list[str], options: dict[str, object]
) -> None:
    with pytest.raises(InputError):
        await box.exec(command, **options)  # type: ignore[arg-type]
    assert await ok(box, "echo fine") == "fine\n"


@pytest.mark.parametrize(("command", "options"), ODD_COMMANDS.values(), ids=list(ODD_COMMANDS))
async def test_a_command_that_cannot_start_is_a_plain_result(
    box: LocalBox, command: list[str], options: dict[str, object]
) -> None:
    result = await box.exec(command, **options)  # type: ignore[arg-type]
    assert result.status == "exited"
    assert result.exit_code in (126, 127)
    assert result.stderr.startswith("cannot start: ")
    assert await ok(box, "echo fine") == "fine\n"


async def test_a_relative_directory_starts_at_the_workdir(provider: LocalProvider) -> None:
    box = await create(provider, SandboxSpec(workdir="/testbed"))
    await box.write("sub/dir/file", b"")
    assert (await box.exec("pwd", cwd="sub/dir")).stdout == "/testbed/sub/dir\n"
    assert (await box.exec("pwd", cwd="..")).stdout == "/\n"
    assert (await box.exec("pwd")).stdout == "/testbed\n"
    await box.close()


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "", ".", "/dev/null", "/proc/self/mem/x", "x" * 300, "y/" * 3000])
async def test_a_path_that_is_none_is_a_failed_transfer(box: LocalBox, tmp_path: Path, path: str) -> None:
    (tmp_path / "local").write_bytes(b"content")
    with pytest.raises(TransferFailed):
        await box.read(path)
    with pytest.raises(TransferFailed):
        await box.write(path, b"x")
    with pytest.raises(TransferFailed):
        await box.upload(tmp_path / "local", path)
    with pytest.raises(TransferFailed):
        await box.download(path, tmp_path / "copy")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["local"]
    assert await ok(box, "echo fine") == "fine\n"


@pytest.mark.parametrize("local", ["missing", "folder", "folder/x/y", "n" * 255])
async def test_a_local_place_that_is_none_is_a_failed_transfer(box: LocalBox, tmp_path: Path, local: str) -> None:
    (tmp_path / "folder").mkdir()
    await box.write("/tmp/file", b"content")
    if not local.startswith("n"):
        with pytest.raises((TransferFailed, FileNotFoundError)):
            await box.upload(tmp_path / local, "/tmp/other")
    if local not in ("missing", "n" * 255):
        with pytest.raises(TransferFailed):
            await box.download("/tmp/file", tmp_path / local)
    else:
        await box.download("/tmp/file", tmp_path / local)
        assert (tmp_path / local).read_bytes() == b"content"
    assert await ok(box, "echo fine") == "fine\n"


@pytest.mark.parametrize("port", [70_000, -1])
async def test_a_port_that_there_is_not_is_refused(box: LocalBox, port: int) -> None:
    with pytest.raises(SweError, match=str(port)):
        await box.listen(port)
    assert await ok(box, "echo fine") == "fine\n"


async def test_a_port_that_is_taken_is_refused(box: LocalBox) -> None:
    port, listener = await box.listen()
    with listener, pytest.raises(SandboxError, match=str(port)):
        await box.listen(port)


@pytest.mark.parametrize("mode", [1 << 40, -1])
async def test_a_mode_that_is_none_does_not_end_the_box(box: LocalBox, mode: int) -> None:
    try:
        await box.write("/tmp/file", b"", mode=mode)
    except SweError:
        pass
    assert await ok(box, "echo fine") == "fine\n"


async def test_a_negative_limit_of_output_is_refused(box: LocalBox) -> None:
    with pytest.raises(ValueError, match="-5 bytes"):
        await box.exec("echo x", output_bytes=-5)
    assert (await box.exec("echo x", output_bytes=0)).stdout_dropped_bytes == 2


async def test_a_callback_that_fails_ends_its_command_alone(box: LocalBox) -> None:
    def fail(stream: str, data: bytes) -> None:
        raise ZeroDivisionError(stream)

    with pytest.raises((ZeroDivisionError, BaseExceptionGroup)):
        await box.exec("setsid sleep 600 & echo x; sleep 600", on_output=fail, timeout_s=30)
    assert await box.processes() == []
    assert await ok(box, "echo fine") == "fine\n"


async def test_processes_with_huge_command_lines_are_listed(box: LocalBox) -> None:
    start = "x=$(head -c 100000 /dev/zero | tr '\\0' x); for n in $(seq 30); do bash -c 'sleep 600; :' $x & done"
    await ok(box, f"{start} > /dev/null 2>&1; sleep 0.3")
    found = await box.processes()
    assert sum("xxxx" in process.command for process in found) >= 30
    assert all(len(process.command) <= 4096 for process in found)


# -- places that do not work ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("snapshot", [None, "snap-1"])
async def test_a_state_directory_that_cannot_be_made_is_a_typed_error(tmp_path: Path, snapshot: str | None) -> None:
    (tmp_path / "file").write_text("")
    provider = LocalProvider(tmp_path / "file" / "state")
    for call in (lambda: provider.create(SandboxSpec(snapshot=snapshot)), provider.snapshots):
        with pytest.raises(SweError, match="SWE_SDK_STATE") as caught:
            await call()
        assert str(tmp_path) in str(caught.value)
    health = await provider.probe()
    assert not health.works
    assert health.remedy
    await provider.aclose()


async def test_one_killed_program_is_not_taken_for_a_machine_without_boxes(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a kill point: "auto" then took another provider."""
    run, times = LocalBox.exec, iter(range(10))

    async def killed_at_first(self: LocalBox, command: list[str], **options: Any) -> ExecResult:
        return await run(self, ["/bin/sh", "-c", "kill -9 $$"] if next(times) == 0 else command, **options)

    monkeypatch.setattr(LocalBox, "exec", killed_at_first)
    assert (await provider.probe()).works
    assert next(times) == 2


async def test_a_mount_that_is_not_there_is_a_typed_error(provider: LocalProvider) -> None:
    with pytest.raises(SweError, match="/nonexistent"):
        await provider.create(SandboxSpec(mounts=(Mount(source="/nonexistent", target="/x"),)))
    assert provider.boxes == {}


async def test_a_single_file_can_be_mounted(provider: LocalProvider, tmp_path: Path) -> None:
    tool = tmp_path / "tools" / "hello"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho hello\n")
    tool.chmod(0o755)
    (tool.parent / "secret").write_text("")
    box = await create(provider, SandboxSpec(workdir="/tmp", mounts=(Mount(source=str(tool), target=str(tool)),)))
    assert await ok(box, f"{tool}; ls {tool.parent}") == "hello\nhello\n"
    assert not (await box.exec(f"echo x > {tool}")).ok
    await box.close()


async def test_a_full_disk_is_said_to_be_full(tmp_path: Path) -> None:
    """A small memory file system of our own, where we may mount one."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root can mount a small file system")
    provider = LocalProvider(place / "state")
    try:
        box = await create(provider)
        result = await box.exec("head -c 20000000 /dev/zero > /tmp/large")
        assert result.exit_code == 1
        assert "No space left" in result.stderr
        with pytest.raises(NoSpace):
            await box.write("/tmp/more", b"x" * 1_000_000)
        await box.close()
        again = await create(provider)
        assert await ok(again, "echo enough again") == "enough again\n"
        await again.close()
    finally:
        await provider.aclose()
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("name", ["colons: and, commas", 'quo"te\\slash', "latin-\udcff\nline", "x" * 200])
async def test_a_state_directory_may_have_any_name(local_provider: LocalProvider, name: str) -> None:
    """Overlay options are no place for most of these."""
    provider = LocalProvider(local_provider.state / "elsewhere" / name)
    try:
        box = await create(provider)
        assert await ok(box, "echo kept > file; cat file") == "kept\n"
        snapshot = await provider.snapshot(box)
        twin = await create(provider, SandboxSpec(workdir="/tmp", snapshot=snapshot.id))
        assert await ok(twin, "cat file") == "kept\n"
    finally:
        await provider.aclose()
