"""Attacks by what is left in a box's layer: devices, owners, overlayfs's own attributes, names, numbers and depths."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from pathlib import Path

import anyio
import pytest

from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.escape.conftest import MakeBox
from tests.escape.world import World, attack, first_process, status, survivor, upper_of

pytestmark = pytest.mark.anyio


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
                        ["sudo", "id"], ["pkexec", "id"], ["/testbed/id"], ["chsh"], ["gpasswd", "root"],
                        ["unshare", "-r", "id"]):
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
