"""Attacks by what lies in a box's files: links, sizes, names, owners, and what overlayfs makes of them."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import SweError, TransferFailed
from swe_sdk.sandbox.providers.local.box import LocalBox
from tests.escape.conftest import MakeBox
from tests.escape.world import World, attack, upper_of

pytestmark = pytest.mark.anyio


async def test_links_to_files_of_this_machine(box: LocalBox, world: World, tmp_path: Path) -> None:
    """Absolute, relative and in the middle of a path: they end in the box, for whoever follows them."""
    await attack(
        box,
        """
        secret = sys.argv[1]
        os.makedirs("/testbed/links", exist_ok=True)
        os.chdir("/testbed/links")
        os.symlink(secret, "absolute")
        os.symlink("../" * 40 + secret[1:], "relative")
        os.symlink(os.path.dirname(secret), "folder")
        os.symlink("/etc/shadow", "shadow")
        os.symlink("/", "root")
        """,
        str(world.secret),
    )
    names = [
        "absolute",
        "relative",
        f"folder/{world.secret.name}",
        f"root{world.secret}",
        "../" * 30 + str(world.secret),
    ]
    for name in [f"links/{name}" for name in names]:
        with pytest.raises(TransferFailed):
            await box.read(name)
        with pytest.raises(TransferFailed):
            await box.download(name, tmp_path / "stolen")
    with pytest.raises(TransferFailed):
        await box.read("links/shadow")
    with pytest.raises(TransferFailed):
        await box.write(f"links/folder/{world.secret.name}", b"replaced")
    await box.write(f"links/root{world.secret}", b"replaced")
    assert world.secret.read_text() == world.marker
    assert list(tmp_path.iterdir()) == []


async def test_hard_links_to_files_of_this_machine(box: LocalBox, user: str) -> None:
    program = """
        for path in ("/usr/bin/env", "/dev/null", "/proc/self/exe", "/proc/self/fd/0", "/proc/1/exe"):
            attempt("link", os.link, path, "/tmp/linked" + path.replace("/", "-"))
            followed = "/tmp/followed" + path.replace("/", "-")
            attempt("link to what it points to", os.link, path, followed, follow_symlinks=True)
        fd = os.open("/usr/bin/env", os.O_RDONLY)
        EMPTY_PATH, FOLLOW = 0x1000, 0x400
        linkat = 37 if ARM else 265
        attempt("by descriptor", call, linkat, fd, b"", -100, b"/tmp/empty", EMPTY_PATH)
        attempt("by /proc", call, linkat, -100, b"/proc/self/fd/%d" % fd, -100, b"/tmp/proc", FOLLOW)
        attempt("rename", os.rename, "/usr/bin/env", "/tmp/env")
    """
    before = os.stat("/usr/bin/env").st_nlink
    await attack(box, program, user=user)
    assert os.stat("/usr/bin/env").st_nlink == before
    assert list(upper_of(box).glob("tmp/*")) == []


async def test_a_folder_swapped_for_a_link_meanwhile(box: LocalBox, world: World, tmp_path: Path) -> None:
    """While the SDK uploads into it, and downloads from it; and renames that make the kernel give up on ".."."""
    program = """
        os.makedirs("/testbed/a/b", exist_ok=True)
        os.makedirs("/testbed/c/b", exist_ok=True)
        os.symlink(os.path.dirname(sys.argv[1]), "/testbed/link")
        os.symlink("../testbed/../testbed/a/b", "/testbed/dots")
        if daemon():
            RENAME_EXCHANGE = 2
            renameat2 = 276 if ARM else 316
            end = time.monotonic() + 3
            while time.monotonic() < end:
                call(renameat2, -100, b"/testbed/a", -100, b"/testbed/link", RENAME_EXCHANGE)
                call(renameat2, -100, b"/testbed/c", -100, b"/testbed/a", RENAME_EXCHANGE)
            os._exit(0)
    """
    local = tmp_path / "local"
    local.write_bytes(b"uploaded" * 100_000)
    await attack(box, program, str(world.secret))
    with anyio.move_on_after(2):
        while True:
            for name in (f"a/{world.secret.name}", "a/b/deep/new", "dots/new"):
                try:
                    await box.upload(local, name)
                    await box.download(name, tmp_path / "back")
                except TransferFailed:
                    pass
    assert world.secret.read_text() == world.marker
    assert not (tmp_path / "back").exists() or (tmp_path / "back").read_bytes() == local.read_bytes()


async def test_a_sparse_file_of_exabytes(box: LocalBox, tmp_path: Path) -> None:
    """Its size costs nothing in the box; read or downloaded, it would fill this machine's memory or disk.

    Found by this test: a download wrote until the disk was full, and a read until the memory was.
    """
    await attack(
        box, "os.truncate('/testbed/huge', 0) if os.path.exists('/testbed/huge') else open('/testbed/huge', 'w')"
    )
    await attack(box, "size = 1 << 62\nwhile not attempt('size', os.truncate, '/testbed/huge', size): size >>= 1")
    with anyio.fail_after(10):
        with pytest.raises(TransferFailed, match="bytes"):
            await box.read("huge")
        with pytest.raises(TransferFailed, match="bytes"):
            await box.download("huge", tmp_path / "huge")
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_grows_as_it_is_read(box: LocalBox, tmp_path: Path) -> None:
    """It is copied as long as it was when it was opened, and no longer."""
    program = """
        fd = os.open("/testbed/growing", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.write(fd, b"x" * (8 << 20))
        if daemon():
            end = time.monotonic() + 4
            while time.monotonic() < end and os.lseek(fd, 0, os.SEEK_END) < 1 << 30:
                os.write(fd, b"y" * (1 << 20))
            os._exit(0)
    """
    await attack(box, program)
    with anyio.fail_after(30):
        await box.download("growing", tmp_path / "copy")
        content = await box.read("growing")
    assert (tmp_path / "copy").stat().st_size <= 1 << 30
    assert 8 << 20 <= len(content) <= 1 << 30


async def test_reading_what_is_larger_than_the_boxs_memory(make_box: MakeBox, tmp_path: Path) -> None:
    """The SDK's copy counts as the SDK's memory: else the kernel would end the supervisor for it."""
    box = await make_box(limits={"memory_mib": 48})
    await attack(box, "open('/testbed/large', 'w').truncate(200 << 20)")
    assert len(await box.read("large")) == 200 << 20
    await box.download("large", tmp_path / "large")
    assert (await box.exec(["echo", "alive"])).stdout == "alive\n"


async def test_files_beyond_their_limit(make_box: MakeBox) -> None:
    """``file_size_bytes``, which no program raises, in any way of making a file larger."""
    box = await make_box(limits={"file_size_bytes": 1 << 20})
    program = """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        attempt("raise", resource.setrlimit, resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))
        attempt("raise", resource.prlimit, os.getppid() or 1, resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))
        for folder in ("/testbed", "/tmp", "/dev/shm"):
            path = folder + "/big"
            fd = os.open(path, os.O_CREAT | os.O_RDWR)
            attempt("truncate", os.ftruncate, fd, 2 << 20)
            attempt("allocate", os.posix_fallocate, fd, 0, 2 << 20)
            attempt("at", os.pwrite, fd, b"x", 2 << 20)
            for _ in range(40):
                try:
                    os.write(fd, b"x" * (64 << 10))
                except OSError:
                    break
            attempt("send", os.sendfile, fd, os.open("/usr/bin/python3", os.O_RDONLY), None, 8 << 20)
            print(os.fstat(fd).st_size)
    """
    await attack(box, program)
    for path in upper_of(box).rglob("big"):
        assert path.stat().st_size <= 1 << 20


async def test_an_unreadable_box_is_no_mask(make_box: MakeBox, world: World) -> None:
    """A program that closes its files to everybody keeps the SDK from none of them, nor from writing new ones."""
    box = await make_box()
    await box.write("f", b"content")
    await box.exec("chmod 0 f . ; chmod 0 /tmp /home/agent", cwd="/testbed")
    assert await box.read("f") == b"content"
    await box.write("f", b"new")
    await box.write("/tmp/deep/er", b"new")
    with pytest.raises(SweError):
        await box.read("absent")
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0
