"""Attacks on what a box sees of this machine's files: mounts, roots, handles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from swe_sdk.errors import CreateFailed
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.escape.conftest import MakeBox
from tests.escape.world import World, attack

pytestmark = pytest.mark.anyio


@pytest.fixture
def shelf(tmp_path_factory: pytest.TempPathFactory, local_provider: LocalProvider, state: Path) -> Iterator[Path]:
    """A folder to be mounted. Nothing but the mount keeps a box's programs from writing to it."""
    folder = state.with_name(f"{state.name}-shelf")
    folder.mkdir()
    (folder / "book").write_text("the book")
    for path in (folder, folder / "book"):
        path.chmod(0o777)
        local_provider.identity.own(path)
    yield folder
    (folder / "book").unlink()
    folder.rmdir()


async def test_new_mounts(box: LocalBox, user: str) -> None:
    """The box's own table of mounts, as the guard sees it from outside, must stay the same."""
    program = """
        REMOUNT, BIND, MOVE, PRIVATE, REC = 32, 4096, 8192, 1 << 18, 16384
        n = None
        for fs in ("tmpfs", "proc", "sysfs", "devtmpfs", "overlay", "cgroup2", "cgroup", "bpf", "fuse", "mqueue"):
            attempt("mount " + fs, call, "mount", b"x", b"/mnt", fs.encode(), 0, n)
        attempt("bind over /proc", call, "mount", b"/tmp", b"/proc", n, BIND, n)
        attempt("bind /proc away", call, "mount", b"/proc", b"/mnt", n, BIND | REC, n)
        attempt("move", call, "mount", b"/usr", b"/mnt", n, MOVE, n)
        attempt("make shared", call, "mount", n, b"/", n, REC | 1 << 20, n)
        for path in ("/usr", "/etc/ssl/certs", "/etc/alternatives", "/", "/proc", "/dev"):
            for flags in (REMOUNT, REMOUNT | BIND):
                attempt("remount rw " + path, call, "mount", n, path.encode(), n, flags, n)
        disk = os.makedev(*map(int, open("/proc/self/mountinfo").readline().split()[2].split(":")))
        attempt("mount the disk", call, "mount", b"/dev/vda", b"/mnt", b"ext4", 0, n)
    """
    await attack(box, program, user=user)


async def test_unmounting_masks_and_binds(box: LocalBox, user: str) -> None:
    program = """
        paths = [line.split()[4] for line in open("/proc/self/mountinfo")]
        for path in reversed(paths):
            for flags in (0, 1, 2, 8):
                attempt("umount " + path, call, "umount2", path.encode(), flags)
        attempt("pivot_root", call, "pivot_root", b"/tmp", b"/tmp")
        attempt("chroot", call, "chroot", b"/tmp")
    """
    await attack(box, program, user=user)


async def test_the_newer_mount_calls(box: LocalBox, user: str) -> None:
    program = """
        CLONE, RECURSIVE, HERE = 1, 0x8000, -100
        for path in (b"/", b"/usr", b"/proc"):
            attempt("open_tree clone", call, "open_tree", HERE, path, CLONE | RECURSIVE)
            attempt("fspick", call, "fspick", HERE, path, 0)
            clear_read_only = struct.pack("QQQQ", 0, 1, 0, 0)
            attempt("mount_setattr", call, "mount_setattr", HERE, path, RECURSIVE, clear_read_only, 32)
            attempt("open_tree_attr", call, "open_tree_attr", HERE, path, CLONE, clear_read_only, 32)
            try:
                fd = call("open_tree", HERE, path, 0)
                attempt("move_mount", call, "move_mount", fd, b"", HERE, b"/mnt", 4)
            except OSError as error:
                print("open_tree", error)
        for fs in (b"tmpfs", b"proc", b"overlay", b"ext4", b"sysfs"):
            if attempt("fsopen", call, "fsopen", fs, 0):
                fd = call("fsopen", fs, 0)
                attempt("create", call, "fsconfig", fd, 6, None, None, 0)
                attempt("fsmount", call, "fsmount", fd, 0, 0)
    """
    await attack(box, program, user=user)


async def test_writing_to_mounts(make_box: MakeBox, shelf: Path, user: str) -> None:
    """Every way to change a file or a folder that is mounted, and each of the host's own."""
    box = await make_box(mounts=[{"source": str(shelf), "target": "/mnt/shelf"}])
    program = """
        book = "/mnt/shelf/book"
        for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
            attempt("open", os.open, book, flags)
        for path in (book, "/mnt/shelf", "/usr/bin/env", "/usr", "/etc/ssl/certs", "/usr/lib"):
            attempt("chmod", os.chmod, path, 0o777)
            attempt("chown", os.chown, path, 1000, 1000)
            attempt("utime", os.utime, path, (1, 1))
            attempt("xattr", os.setxattr, path, "user.x", b"x")
            attempt("rename", os.rename, path, path + "-gone")
            attempt("remove", os.unlink, path)
            attempt("truncate", os.truncate, path, 0)
            attempt("link", os.link, path, "/tmp/link")
            attempt("link next to it", os.link, path, path + "-link")
            attempt("new file", os.open, path + "/ATTACKED", os.O_CREAT | os.O_WRONLY)
            attempt("new folder", os.mkdir, path + "/ATTACKED")
        fd = os.open(book, os.O_RDONLY)
        attempt("reopen", os.open, "/proc/self/fd/%d" % fd, os.O_RDWR)
        attempt("fchmod", os.fchmod, fd, 0o777)
        attempt("truncate", os.ftruncate, fd, 0)
        attempt("shared map", mmap.mmap, fd, 8, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        private = mmap.mmap(fd, 8, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        private[:3] = b"BAD"
        FS_IOC_SETFLAGS = 0x40086602
        attempt("immutable", fcntl.ioctl, fd, FS_IOC_SETFLAGS, struct.pack("l", 0x10))
        o_path = os.open("/mnt/shelf", os.O_PATH)
        attempt("by the folder's descriptor", os.open, "new", os.O_CREAT | os.O_WRONLY, dir_fd=o_path)
        attempt("unnamed", os.open, "/mnt/shelf", os.O_TMPFILE | os.O_RDWR)
    """
    before = {
        path: os.lstat(path) for path in ("/usr", "/usr/bin", "/usr/bin/env", "/usr/lib", "/etc/ssl/certs", shelf)
    }
    await attack(box, program, user=user)
    assert os.listdir(shelf) == ["book"]
    assert (shelf / "book").read_text() == "the book"
    for path, info in before.items():
        now = os.lstat(path)
        same = ("st_mode", "st_uid", "st_nlink", "st_mtime_ns", "st_ctime_ns", "st_size")
        assert [getattr(now, name) for name in same] == [getattr(info, name) for name in same], path


async def test_walking_out_of_the_root(box: LocalBox, world: World) -> None:
    """By way of .., descriptors of the root, links, and everything that /proc shows of directories."""
    program = """
        secret = sys.argv[1]
        os.chdir("/")
        ways = ["", "/" + "../" * 50, "/proc/1/root", "/proc/self/root" + "/.." * 20, "/proc/1/cwd" + "/.." * 20]
        ways += ["/dev/fd/%d" % fd for fd in range(64)] + ["/proc/self/fd/%d/../../.." % fd for fd in range(64)]
        ways += ["/proc/%s/root" % pid for pid in os.listdir("/proc") if pid.isdigit()]
        ways += ["/proc/self/task/%d/cwd/../../.." % os.getpid(), "/tmp/stage", "/tmp/..", "/..", "/oldroot"]
        for way in ways:
            attempt("read by " + way, read, way + secret)
        root = os.open("/", os.O_RDONLY)
        os.makedirs("/tmp/jail/a/b", exist_ok=True)
        attempt("chroot", call, "chroot", b"/tmp/jail")
        os.fchdir(root)
        for _ in range(100):
            os.chdir("..")
        attempt("relative", read, "." + secret)
        attempt("as another root", read, "/proc/self/cwd" + secret)
    """
    result = await attack(box, program, str(world.secret))
    assert world.marker not in result.stdout


async def test_file_handles(box: LocalBox, world: World, user: str) -> None:
    """A file of this machine by its inode number, as in the escape from early Docker ("shocker")."""
    info = world.secret.stat()
    root = os.stat("/")
    program = """
        inode, generation_guesses = int(sys.argv[1]), (0, 1)
        size = struct.pack("Ii", 128, 0) + bytes(128)
        buffer, where = ctypes.create_string_buffer(size, len(size)), ctypes.c_int()
        for path in ("/usr", "/", "/dev/null", "/etc/ssl/certs", "/dev/shm", "/proc"):
            mount = os.open(path, os.O_RDONLY)
            attempt("name_to_handle_at", call, "name_to_handle_at", -100, path.encode(), buffer, ctypes.byref(where), 0)
            for number in (inode, 2, 128):
                for generation in generation_guesses:
                    for kind in (1, 2, 0x4d, 0xf8, 0xfb):
                        handle = struct.pack("IiII", 8, kind, number, generation)
                        try:
                            print(os.read(call("open_by_handle_at", mount, handle, os.O_RDONLY), 100))
                        except OSError as error:
                            code = error.errno
        print(errno.errorcode[code])
    """
    result = await attack(box, program, str(info.st_ino), user=user)
    assert world.marker not in result.stdout
    assert result.stdout.endswith("EPERM\n"), result.stdout
    assert os.stat("/").st_ino == root.st_ino


@pytest.mark.parametrize("link", ["/usr/share", "/tmp", "/tmp/boxes", "../../../../../../usr/share", "/nowhere", "opt"])
async def test_mount_points_swapped_before_a_fork(
    make_box: MakeBox, local_provider: LocalProvider, shelf: Path, link: str
) -> None:
    """A link in the place of a mount point's parent must not lead the next box's mounts over files of this machine."""
    box = await make_box()
    await attack(box, "os.rmdir('/opt'); os.symlink(sys.argv[1], '/opt')", link)
    snapshot = await local_provider.snapshot(box)
    before = _mounts()
    try:
        fork = await make_box(snapshot=snapshot.id, mounts=[{"source": str(shelf), "target": "/opt/doc"}])
    except CreateFailed:
        pass  # there is no such place in the box
    else:
        assert (await fork.exec(["cat", "/opt/doc/book"], cwd="/")).stdout == "the book", "mounted, but not in the box"
    await local_provider.delete_snapshot(snapshot.id)
    assert _mounts() == before
    assert (shelf / "book").read_text() == "the book"


def _mounts() -> list[str]:
    """What is mounted on this machine, but for containers, which others may start meanwhile."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "/docker/" not in line]


async def test_nothing_of_this_machine_is_mounted_but_what_is_listed(
    box: LocalBox, local_provider: LocalProvider
) -> None:
    """Each mount, as the kernel lists it: read-only, or the box's own."""
    from swe_sdk.sandbox.boxside.launcher import RUNTIME
    from swe_sdk.sandbox.providers.local.skeleton import host_mounts

    program = "print(open('/proc/self/mountinfo').read())"
    listed = {mount.target for mount in host_mounts()} | {RUNTIME}
    own = {"/", "/proc", "/dev", "/dev/shm", "/dev/pts"}
    for line in (await attack(box, program)).stdout.splitlines():
        if not line:
            continue
        fields = line.split()
        point, options, kind = fields[4], fields[5].split(","), fields[fields.index("-") + 1]
        if point in own:
            assert kind in ("overlay", "proc", "tmpfs", "devpts"), line
        elif point.startswith(("/proc/", "/dev/")) and point not in listed:
            assert Path(point).name in {"null", "zero", "full", "random", "urandom", "tty"} or "null" in fields[3], line
        else:
            assert point in listed, line
            assert "ro" in options, line
            assert "nosuid" in options, line
            assert "nodev" in options, line
