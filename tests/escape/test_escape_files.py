"""Attacks by what lies in a box's files: links, sizes, names, owners, and what overlayfs makes of them."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import time
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import SweError, TransferFailed
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.escape.conftest import MakeBox
from tests.escape.world import World, attack, first_process, status, survivor

pytestmark = pytest.mark.anyio


def upper_of(box: LocalBox) -> Path:
    """The writable layer, as it lies on this machine."""
    from swe_sdk.sandbox.providers.local.layers import UPPER

    return box.path / UPPER


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


async def test_links_and_odd_files_in_snapshots(make_box: MakeBox, local_provider: LocalProvider, world: World) -> None:
    """A layer is sealed, copied and merged as it is: nothing in it is followed, opened as a device, or waited for."""
    program = """
        os.chdir("/testbed")
        os.symlink(sys.argv[1], "link")
        os.symlink(os.path.dirname(sys.argv[1]), "folder")
        os.mkfifo("fifo")
        socket.socket(socket.AF_UNIX).bind("socket")
        os.symlink("loop", "loop")
        os.mkdir("closed", 0)
        if daemon():
            time.sleep(60)
            os._exit(0)
    """
    box = await make_box()
    await attack(box, program, str(world.secret))
    await box.pause()
    with anyio.fail_after(20):
        copied = await local_provider.snapshot(box)
    await box.resume()
    await box.exec(["sh", "-c", "kill -9 -1"])
    while await box.processes():
        await anyio.sleep(0.01)
    sealed = await local_provider.snapshot(box)
    for snapshot in (copied, sealed):
        fork = await make_box(snapshot=snapshot.id)
        listing = (await fork.exec("stat -c '%n %F' *; cat link folder/*")).stdout
        assert "link symbolic link" in listing
        assert "fifo fifo" in listing
        assert world.marker not in listing
        for layer in fork.chain:
            link = local_provider.store.root / "layers" / layer / "diff/testbed/link"
            if link.is_symlink():
                assert os.readlink(link) == str(world.secret)
        await fork.close()
        await local_provider.delete_snapshot(snapshot.id)


async def test_attributes_of_overlayfs(make_box: MakeBox, local_provider: LocalProvider, world: World) -> None:
    """Attributes by which overlayfs looks elsewhere for a file's content, set by a program on its own files."""
    victim = await make_box()
    await victim.write("/home/agent/private-to-it", world.marker.encode())
    snapshot = await local_provider.snapshot(victim)
    (layer, *_rest) = victim.chain
    program = """
        place = sys.argv[1]
        os.chdir("/testbed")
        os.makedirs("d/e", exist_ok=True)
        open("f", "w").close()
        for prefix in ("user.overlay.", "trusted.overlay.", "user.overlay.overlay."):
            for path in ("d", "f", "/testbed", "/home/agent", "/dev/shm"):
                for name, value in (
                    ("redirect", place.encode()), ("redirect", b"/../../" + place.encode()), ("opaque", b"y"),
                    ("opaque", b"x"), ("metacopy", b""), ("origin", b"\\0\\xfb\\x1d" + bytes(20)), ("whiteout", b""),
                    ("upper", bytes(20)), ("impure", b"y"), ("protattr", b"i"),
                ):
                    attempt(prefix + name, os.setxattr, path, prefix + name, value)
        print(os.listdir("/home/agent"), os.listdir("d"))
    """
    box = await make_box()
    await attack(box, program, f"/layers/{layer}/diff/home/agent")
    forked = await local_provider.snapshot(box)
    for source in (forked.id, forked.id):
        fork = await make_box(snapshot=source)
        script = "cat private /home/agent/* d/* d/*/* f /testbed/*/private; find / -xdev -name private-to-it"
        seen = await fork.exec(script, cwd="/testbed")
        assert world.marker not in seen.stdout
        assert "private-to-it" not in seen.stdout
    for upper in [upper_of(box), *(local_provider.store.root / "layers" / name / "diff" for name in box.chain)]:
        for path in (upper, *upper.rglob("*")):
            if not path.is_symlink():
                own = {name: os.getxattr(path, name) for name in os.listxattr(path) if name.startswith("user.overlay.")}
                assert not {
                    name for name in own if name.removeprefix("user.overlay.") in ("redirect", "metacopy", "upper")
                }
    for each in (snapshot, forked):
        await local_provider.delete_snapshot(each.id)


async def test_device_nodes(box: LocalBox, user: str) -> None:
    """No program makes one, in any way; and those that are there are the six harmless ones."""
    program = """
        for kind in (stat.S_IFBLK, stat.S_IFCHR):
            for major, minor in ((8, 0), (254, 0), (253, 0), (1, 1), (1, 2), (1, 11), (5, 1), (10, 229), (4, 64)):
                for folder in ("/tmp", "/dev", "/dev/shm", "/testbed", "/dev/pts"):
                    path = "%s/node-%d-%d-%d" % (folder, kind, major, minor)
                    if attempt("node", os.mknod, path, kind | 0o666, os.makedev(major, minor)):
                        attempt("open", os.open, path, os.O_RDWR)
        for folder in ("/tmp", "/testbed", "/dev/shm"):
            if attempt("whiteout", os.mknod, folder + "/whiteout", stat.S_IFCHR | 0o666, 0):
                attempt("whiteout moved in", os.rename, folder + "/whiteout", "/testbed/moved")
        for base, _folders, files in os.walk("/dev"):
            for name in files:
                info = os.stat(os.path.join(base, name)) if os.path.exists(os.path.join(base, name)) else None
                if info and stat.S_IFMT(info.st_mode) in (stat.S_IFCHR, stat.S_IFBLK) and info.st_rdev:
                    print("device", os.major(info.st_rdev), os.minor(info.st_rdev))
    """
    result = await attack(box, program, user=user)
    seen = {tuple(map(int, line.split()[1:])) for line in result.stdout.splitlines() if line.startswith("device")}
    harmless = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)}  # null zero full random urandom tty ptmx
    assert seen <= harmless, seen - harmless
    made = [
        path for path in upper_of(box).rglob("*") if stat.S_IFMT(path.lstat().st_mode) in (stat.S_IFCHR, stat.S_IFBLK)
    ]
    assert all(path.lstat().st_rdev == 0 for path in made), made


async def test_setuid_programs(box: LocalBox, user: str, local_provider: LocalProvider) -> None:
    """Those of the host's /usr, and copies with the bits set: seen from outside, nobody becomes anybody else."""
    program = """
        import shutil
        for name in ("sh", "id"):
            shutil.copy("/bin/" + name, "/testbed/" + name)
            os.chmod("/testbed/" + name, 0o6755)
        null = subprocess.DEVNULL
        for command in (["su", "-c", "id"], ["passwd", "-S"], ["mount"], ["newgrp"], ["sg", "root", "id"],
                        ["sudo", "id"], ["pkexec", "id"], ["/testbed/id"], ["chsh"], ["gpasswd", "root"], ["unshare", "-r", "id"]):
            attempt(" ".join(command), subprocess.run, command, stdin=null, stdout=null, stderr=null, timeout=0.5)
        subprocess.Popen(["/testbed/sh", "-p", "-c", "sleep 5; true"], stdin=null, stdout=null, stderr=null)
    """
    await attack(box, program, user=user)
    shell = await survivor(box)
    expected = status(first_process(box))["Uid"].split()[0] if user == "agent" else str(local_provider.identity.first)
    assert status(shell)["Uid"].split() == [expected] * 4
    assert status(shell)["NoNewPrivs"] == "1"
    copy = (upper_of(box) / "testbed/sh").stat()
    owner = os.getuid() if local_provider.identity.first is None else local_provider.identity.first
    assert copy.st_uid in (owner, owner + 1000)
    assert copy.st_uid != 0 or os.getuid() != 0


async def test_setuid_copies_are_out_of_reach_for_others(box: LocalBox, state: Path) -> None:
    """A setuid program in a box's layer is owned by the box's user, who may be the SDK's own user: nobody runs it."""
    await attack(box, "import shutil; shutil.copy('/bin/sh', '/testbed/sh'); os.chmod('/testbed/sh', 0o6755)")
    copy = upper_of(box) / "testbed/sh"
    assert copy.stat().st_mode & stat.S_ISUID, "the attack does not work at all"
    if os.geteuid() == 0:
        # any user of this machine who can reach the state directory itself: its own parents may be open or closed
        command = ["sh", "-c", 'cd "$1" && ls; "$2" -p -c id', "sh", str(state), str(copy)]
        done = subprocess.run(command, user=4711, group=4711, extra_groups=[], capture_output=True, text=True)
        assert done.returncode != 0, done.stdout
        assert done.stdout == ""
    closed = [path for path in (copy, *copy.parents) if path.is_relative_to(state) and not path.stat().st_mode & 0o007]
    assert closed, "every directory from the state down to the copy is open to everybody"


async def test_deep_directories(make_box: MakeBox) -> None:
    """5,000 levels: the teardown neither fails nor takes long."""
    box = await make_box()
    program = """
        os.chdir("/testbed")
        for _ in range(5000):
            os.mkdir("d")
            os.chdir("d")
        open("bottom", "w").close()
    """
    await attack(box, program)
    path = box.path
    started = time.monotonic()
    await box.close()
    assert time.monotonic() - started < 15
    assert not path.exists()


async def test_names_and_modes_that_resist_deletion(make_box: MakeBox, user: str) -> None:
    box = await make_box()
    program = """
        os.chdir(b"/testbed")
        for name in (b"\\xff\\xfe", b"new\\nline", b"-rf", b" ", b"*", b"\\x01\\x7f", b"x" * 255, b"$(id)",
                     b"a" * 200 + b"\\xe9"):
            os.mkdir(name)
            with open(name + b"/" + name, "wb") as file:
                file.write(b"x")
            os.chmod(name + b"/" + name, 0)
            os.chmod(name, 0)
        os.makedirs(b"closed/closed/closed")
        for path in (b"closed/closed/closed", b"closed/closed", b"closed"):
            os.chmod(path, 0)
        attempt("immutable", fcntl.ioctl, os.open(b"/testbed", os.O_RDONLY), 0x40086602, struct.pack("l", 0x30))
        attempt("other owner", os.chown, b"-rf", 0, 0)
    """
    await attack(box, program, user=user)
    path = box.path
    await box.close()
    assert not path.exists()


async def test_fifty_thousand_names(make_box: MakeBox) -> None:
    """The teardown is as quick as the host's own deletion, and the SDK goes on answering meanwhile."""
    box, other = await make_box(), await make_box()
    program = """
        for folder in range(10):
            os.mkdir("/testbed/%d" % folder)
            for number in range(1000):
                os.close(os.open("/testbed/%d/%d" % (folder, number), os.O_CREAT | os.O_WRONLY))
                for copy in range(4):
                    os.link("/testbed/%d/%d" % (folder, number), "/testbed/%d/%d-%d" % (folder, number, copy))
    """
    await attack(box, program)
    path, worst, done = box.path, 0.0, anyio.Event()

    async def close() -> None:
        await box.close()
        done.set()

    started = time.monotonic()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close)
        while not done.is_set():
            asked = time.monotonic()
            assert (await other.exec(["/bin/true"])).ok
            worst = max(worst, time.monotonic() - asked)
    assert time.monotonic() - started < 30
    assert worst < 3
    assert not path.exists()


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
