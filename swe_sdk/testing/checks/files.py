"""Files: in and out byte for byte, of any size and name, and never past the walls of the box."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import anyio

from swe_sdk.errors import InputError, SweError, TransferFailed
from swe_sdk.sandbox.contract import Box
from swe_sdk.testing.check import check
from swe_sdk.testing.expect import CheckFailed, refusal, require, require_equal
from swe_sdk.testing.lab import Lab
from swe_sdk.testing.this_machine import MemoryPeak

EVERY_BYTE = bytes(range(256)) + b"\r\n\x00"
ODD_NAMES = (
    "with space",
    "new\nline",
    "quo'te\"s",
    "-dash",
    "$HOME",
    "back\\slash",
    "\u00e9\u4e16",
    "\udcff\udcfe",
    "*",
)
BLOCK = 1 << 20


@check()
async def bytes_come_back_as_they_were(lab: Lab) -> None:
    """Every byte value survives ``write`` and ``read``, and the program sees the same; an empty file is a file."""
    box = await lab.box()
    for data in (EVERY_BYTE, b"", b"no newline", b"\xff" * 200_000):
        await box.write("/tmp/f", data)
        require_equal(await box.read("/tmp/f"), data, "what was read")
        require_equal((await lab.ok(box, "cat /tmp/f")).stdout_bytes, data, "what the program saw")


@check()
async def what_the_program_writes_can_be_read(lab: Lab) -> None:
    """Files made by a command are seen at once, with the bytes it wrote."""
    box = await lab.box()
    await lab.ok(box, r"printf 'a\0b\377' > /tmp/f; : > /tmp/empty")
    require_equal(await box.read("/tmp/f"), b"a\0b\xff", "what was read")
    require_equal(await box.read("/tmp/empty"), b"", "the empty file")


@check()
async def the_program_may_change_what_was_written(lab: Lab) -> None:
    """Files and the directories made for them belong to the user that commands run as."""
    box = await lab.box()
    await box.write("/made/for/it/f", b"one\n")
    await lab.ok(box, "echo two >> f && touch beside && rm beside", cwd="/made/for/it")
    require_equal(await box.read("/made/for/it/f"), b"one\ntwo\n", "the file")


@check()
async def writing_replaces(lab: Lab) -> None:
    """A longer file that was there before leaves nothing behind, and the mode becomes the one asked for."""
    box = await lab.box()
    await box.write("/tmp/f", b"x" * 100_000, mode=0o600)
    await box.write("/tmp/f", b"short", mode=0o755)
    require_equal(await box.read("/tmp/f"), b"short", "the file")
    require_equal(await _mode(lab, box, "/tmp/f"), "755", "its mode")


@check()
async def modes_are_kept(lab: Lab) -> None:
    """``write`` sets the mode it is given (0644 by default), ``upload`` keeps the local one, for scripts."""
    box = await lab.box()
    await box.write("/tmp/default", b"")
    require_equal(await _mode(lab, box, "/tmp/default"), "644", "the default mode")
    for mode in (0o755, 0o600, 0o444):
        await box.write(f"/tmp/w{mode:o}", b"", mode=mode)
        require_equal(await _mode(lab, box, f"/tmp/w{mode:o}"), f"{mode:o}", "the mode after write")
        local = lab.scratch / f"u{mode:o}"
        local.write_bytes(b"#!/bin/sh\n")
        local.chmod(mode)
        await box.upload(local, f"/tmp/u{mode:o}")
        require_equal(await _mode(lab, box, f"/tmp/u{mode:o}"), f"{mode:o}", "the mode after upload")


@check()
async def modes_do_not_keep_us_out(lab: Lab) -> None:
    """A program cannot withhold or protect a file by its mode or its directory's.

    What cannot be read or restored looks like trouble of the sandbox, and would be masked instead of graded.
    """
    box = await lab.box()
    await lab.ok(box, "mkdir /tmp/d && echo withheld > /tmp/d/f && chmod 000 /tmp/d/f && chmod 500 /tmp/d")
    require_equal(await box.read("/tmp/d/f"), b"withheld\n", "a file that nobody may read")
    await box.download("/tmp/d/f", lab.scratch / "f")
    require_equal((lab.scratch / "f").read_bytes(), b"withheld\n", "the same, downloaded")
    await box.write("/tmp/d/f", b"restored")
    await box.write("/tmp/d/new", b"")
    require_equal(await box.read("/tmp/d/f"), b"restored", "a file that nobody may write, after writing")


@check()
async def parent_directories_are_made(lab: Lab) -> None:
    """``write`` and ``upload`` make what is missing above the file."""
    box = await lab.box()
    (lab.scratch / "f").write_bytes(b"up")
    await box.write("/a/b/c/f", b"deep")
    await box.upload(lab.scratch / "f", "/tmp/x/y/f")
    require_equal((await lab.ok(box, "cat /a/b/c/f /tmp/x/y/f")).stdout, "deepup", "the files")


@check()
async def odd_names_work(lab: Lab) -> None:
    """Spaces, newlines, quotes, leading dashes and bytes that are not UTF-8 are ordinary in file names."""
    box = await lab.box()
    for name in ODD_NAMES:
        path, local = f"/tmp/odd {name}/{name}", lab.scratch / f"local {name}"
        await box.write(path, b"data")
        require_equal((await lab.ok(box, ["cat", path])).stdout, "data", f"the file {name!r}")
        require_equal(await box.read(path), b"data", f"what was read of {name!r}")
        await box.download(path, local)
        await box.upload(local, f"{path}2")
        require_equal(await box.read(f"{path}2"), b"data", f"what was uploaded as {name!r}")


@check()
async def large_files_go_in(lab: Lab) -> None:
    """50 MB arrive with the same digest, without being held in memory: data sets and wheels are that large."""
    box, local, size = await lab.box(), lab.scratch / "large", lab.settings.transfer_bytes
    digest = _write_random(local, size)
    peak = MemoryPeak()
    await box.upload(local, "/tmp/large")
    require(peak.growth_bytes() < size // 2 + BLOCK, f"memory grew by {peak.growth_bytes()} bytes for {size} bytes")
    require_equal((await lab.ok(box, "sha256sum < /tmp/large")).stdout.split()[0], digest, "the digest in the box")


@check()
async def large_files_come_out(lab: Lab) -> None:
    """50 MB come back with the same digest, without being held in memory: logs and archives are that large."""
    box, local, size = await lab.box(), lab.scratch / "large", lab.settings.transfer_bytes
    script = f"head -c {size} /dev/urandom > /tmp/large; sha256sum < /tmp/large"
    digest = (await lab.ok(box, script)).stdout.split()[0]
    peak = MemoryPeak()
    await box.download("/tmp/large", local)
    require(peak.growth_bytes() < size // 2 + BLOCK, f"memory grew by {peak.growth_bytes()} bytes for {size} bytes")
    require_equal(local.stat().st_size, size, "the size here")
    require_equal(_digest(local), digest, "the digest here")


@check()
async def many_files_at_once(lab: Lab) -> None:
    """Transfers in one box run side by side and do not mix."""
    box = await lab.box()

    async def one(number: int) -> None:
        data = f"{number}-".encode() * 1000
        await box.write(f"/tmp/many/{number}", data)
        require_equal(await box.read(f"/tmp/many/{number}"), data, f"file {number}")

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(one, number)


@check()
async def a_missing_file_is_a_transfer_failure(lab: Lab) -> None:
    """``read`` and ``download`` say ``TransferFailed``; an empty file would be read as "no tests ran"."""
    box = await lab.box()
    await box.write("/tmp/file", b"")
    for path in ("/no/such/file", "/tmp/file/below-a-file"):
        await _cannot_be_taken(lab, box, path)


@check()
async def a_directory_is_a_transfer_failure(lab: Lab) -> None:
    """A directory can be neither read nor replaced by a file."""
    box = await lab.box()
    await lab.ok(box, "mkdir /tmp/d && touch /tmp/d/kept")
    await _cannot_be_taken(lab, box, "/tmp/d")
    with refusal("writing onto a directory", TransferFailed):
        await box.write("/tmp/d", b"x")
    await lab.ok(box, "[ -e /tmp/d/kept ]")


@check()
async def a_file_cannot_be_made_below_a_file(lab: Lab) -> None:
    """A parent that is a regular file is ``TransferFailed``, and is left alone."""
    box = await lab.box()
    await box.write("/tmp/file", b"kept")
    with refusal("writing below a file", TransferFailed):
        await box.write("/tmp/file/below", b"x")
    require_equal(await box.read("/tmp/file"), b"kept", "the file")


@check()
async def pipes_and_devices_do_not_hang(lab: Lab) -> None:
    """A FIFO or an endless device where a result file should be is refused at once: a program can put one there."""
    box = await lab.box()
    await lab.ok(box, "mkfifo /tmp/fifo && ln -s /dev/zero /tmp/zero")
    for path in ("/tmp/fifo", "/dev/zero", "/tmp/zero"):
        with lab.promptly(f"taking {path} hangs"):
            await _cannot_be_taken(lab, box, path)
    with lab.promptly("writing to a FIFO hangs"):
        await _written_or_refused(box, "/tmp/fifo")


@check()
async def a_failed_download_leaves_nothing(lab: Lab) -> None:
    """The local file appears complete or not at all, and one that was there before stays as it was."""
    box, local = await lab.box(), lab.scratch / "taken"
    local.write_bytes(b"before")
    with refusal("downloading a missing file", TransferFailed):
        await box.download("/no/such/file", local)
    require_equal(local.read_bytes(), b"before", "the local file")
    require_equal(sorted(os.listdir(lab.scratch)), ["taken"], "files beside it")


@check()
async def an_upload_of_nothing_is_refused(lab: Lab) -> None:
    """A local file that is missing, or a directory, is an error and makes no remote file."""
    box = await lab.box()
    for local in (lab.scratch / "missing", lab.scratch):
        with refusal("uploading what is no file", TransferFailed, InputError):
            await box.upload(local, "/tmp/up")
    await lab.ok(box, "[ ! -e /tmp/up ]")


@check()
async def links_inside_are_followed_inside(lab: Lab) -> None:
    """Absolute and relative symbolic links mean files of the box, as they do for its programs."""
    box = await lab.box()
    await box.write("/tmp/real/f", b"inside")
    await lab.ok(
        box, "ln -s /tmp/real/f /tmp/absolute && ln -s ../tmp/real/f /tmp/relative && ln -s /tmp/real /tmp/dir"
    )
    for path in ("/tmp/absolute", "/tmp/relative", "/tmp/dir/f"):
        require_equal(await box.read(path), b"inside", f"what was read through {path}")
    await box.write("/tmp/dir/new", b"made inside")
    require_equal(await box.read("/tmp/real/new"), b"made inside", "the file made through a linked directory")


@check()
async def reading_never_leaves_the_box(lab: Lab) -> None:
    """Links, ``..`` and the magic links of /proc that point at a file of this machine do not reach it."""
    box, secret = await lab.box(), lab.scratch / "secret"
    secret.write_bytes(b"of this machine")
    up = "../" * 12
    await lab.ok(box, ["ln", "-s", str(secret), "/tmp/absolute"])
    await lab.ok(box, ["ln", "-s", f"{up}{str(secret)[1:]}", "/tmp/relative"])
    await lab.ok(box, ["ln", "-s", str(lab.scratch), "/tmp/dir"])
    await lab.ok(box, ["ln", "-s", "/proc/self/root", "/tmp/root"])
    tricks = ["/tmp/absolute", "/tmp/relative", "/tmp/dir/secret", f"/tmp/{up}{str(secret)[1:]}", f"/tmp/root{secret}"]
    for path in (*tricks, f"/proc/1/root{secret}", f"/proc/self/root{secret}", f"/proc/thread-self/root{secret}"):
        await _stays_inside(lab, box, path)


@check()
async def writing_never_leaves_the_box(lab: Lab) -> None:
    """A link to a file or directory of this machine does not let ``write`` or ``upload`` change it."""
    box, target, local = await lab.box(), lab.scratch / "target", lab.scratch / "local"
    target.write_bytes(b"untouched")
    local.write_bytes(b"evil")
    await lab.ok(box, ["ln", "-s", str(target), "/tmp/file"])
    await lab.ok(box, ["ln", "-s", str(lab.scratch), "/tmp/dir"])
    await lab.ok(box, ["ln", "-s", "/proc/self/root", "/tmp/root"])
    for path in (
        "/tmp/file",
        "/tmp/dir/new",
        f"/tmp/root{target}",
        f"/proc/self/root{target}",
        f"/proc/1/root{target}",
    ):
        await _written_or_refused(box, path)
        await _uploaded_or_refused(box, local, path)
    require_equal(target.read_bytes(), b"untouched", "the file of this machine")
    require_equal(sorted(os.listdir(lab.scratch)), ["local", "target"], "the directory of this machine")


@check(tools=("python3",))
async def a_link_that_is_swapped_never_leaves_the_box(lab: Lab) -> None:
    """A directory that is a link to this machine every other moment is still the box's: look and use are one step."""
    box, secret = await lab.box(), lab.scratch / "secret"
    secret.write_bytes(b"of this machine")
    program = (
        "import os, shutil, sys\nos.mkdir('/tmp/inside'); open('/tmp/inside/secret', 'w').write('of the box')\n"
        "os.symlink(sys.argv[1], '/tmp/evil')\n"
        "while not os.path.exists('/tmp/go'):\n"
        "    for name in ('/tmp/inside', '/tmp/evil'):\n"
        "        try:\n"
        "            os.rename(name, '/tmp/swap'); os.rename('/tmp/swap', name)\n"
        "        except OSError:\n"  # a write found nothing there and made a directory
        "            shutil.rmtree('/tmp/swap', ignore_errors=True)\n"
    )
    async with lab.running(box, ["python3", "-c", program, str(lab.scratch)]):
        for number in range(100):
            await _stays_inside(lab, box, "/tmp/swap/secret", also=b"of the box")
            await _written_or_refused(box, f"/tmp/swap/new{number}")
        await box.write("/tmp/go", b"")
    require_equal(sorted(os.listdir(lab.scratch)), ["secret"], "the directory of this machine")


async def _mode(lab: Lab, box: Box, path: str) -> str:
    return (await lab.ok(box, ["stat", "-c", "%a", path])).stdout.strip()


async def _cannot_be_taken(lab: Lab, box: Box, path: str) -> None:
    with refusal(f"reading {path}", TransferFailed):
        await box.read(path)
    local = lab.scratch / "must-not-appear"
    with refusal(f"downloading {path}", TransferFailed):
        await box.download(path, local)
    require(not local.exists(), f"a failed download of {path} left a local file")


async def _stays_inside(lab: Lab, box: Box, path: str, *, also: bytes | None = None) -> None:
    """Fail if this machine's file is read through ``path``; ``also`` is what may be found there in the box."""
    try:
        found = await box.read(path)
    except TransferFailed:
        return
    require(also is not None and found == also, f"read({path!r}) gave {found!r}, which is not of the box")


async def _written_or_refused(box: Box, path: str) -> None:
    try:
        await box.write(path, b"evil")
    except SweError as error:
        _must_be_transfer_failure(error, path)


async def _uploaded_or_refused(box: Box, local: Path, path: str) -> None:
    try:
        await box.upload(local, path)
    except SweError as error:
        _must_be_transfer_failure(error, path)


def _must_be_transfer_failure(error: SweError, path: str) -> None:
    if not isinstance(error, TransferFailed):
        raise CheckFailed(f"writing {path}: wanted TransferFailed, got {type(error).__name__}: {error}") from error


def _write_random(path: Path, size: int) -> str:
    """A file without repetition; its sha256."""
    with path.open("wb") as file:
        for _ in range(0, size, BLOCK):
            file.write(os.urandom(BLOCK))
        file.truncate(size)
    return _digest(path)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
