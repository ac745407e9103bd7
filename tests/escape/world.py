"""The world outside of a box, as facts: what an attack must not have changed, whatever the attack itself says."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import time
from pathlib import Path
from textwrap import dedent

import anyio

from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.layers import UPPER

KIT = (Path(__file__).parent / "kit.py").read_text()
_LIMITS = re.compile(r"\s{2,}")


async def attack(
    box: LocalBox, program: str, *arguments: str, user: str | None = None, timeout_s: float = 60, may_die: bool = False
) -> ExecResult:
    """Run a Python program with the kit before it. It must come to its own end, and whatever it does is no mask.

    ``may_die``: the attack may well end its own program.
    """
    source = KIT + dedent(program)
    result = await box.exec(["python3", "-I", "-c", source, *arguments], user=user, timeout_s=timeout_s)
    assert result.status == "exited", f"{result.status}: {result.stdout}{result.stderr}"
    assert may_die or result.exit_code == 0, f"the attack itself is broken: {result.stdout}{result.stderr}"
    return result


def first_process(box: LocalBox) -> int:
    """The box's supervisor as this machine numbers it."""
    return pid_of(box._pidfd)


def pid_of(pidfd: int) -> int:
    """Whose pidfd it is."""
    return int(Path(f"/proc/self/fdinfo/{pidfd}").read_text().partition("Pid:")[2].split()[0])


def children(pid: int) -> list[int]:
    """Direct children, as this machine numbers them."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def upper_of(box: LocalBox) -> Path:
    """The writable layer, as it lies on this machine."""
    return box.path / UPPER


async def survivor(box: LocalBox) -> int:
    """The one process that an attack has left behind, as this machine numbers it."""
    with anyio.fail_after(10):
        while True:
            found = [child for child in children(first_process(box)) if _lives(child)]
            if len(found) == 1:
                return found[0]
            await anyio.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        return stat_field(pid, 3) != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone since it was listed
        return False


def status(pid: int) -> dict[str, str]:
    """/proc/PID/status."""
    lines = (line.partition(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: value.strip() for name, _, value in lines}


def limits(pid: int) -> dict[str, str]:
    """/proc/PID/limits: "soft hard", by name."""
    lines = (_LIMITS.split(line.strip()) for line in Path(f"/proc/{pid}/limits").read_text().splitlines()[1:])
    return {fields[0]: " ".join(fields[1:3]) for fields in lines}


def stat_field(pid: int, number: int) -> str:
    """A field of /proc/PID/stat by its number in proc(5), from 3 on."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[number - 3]


def seen_from_outside(pid: int) -> dict[str, str]:
    """Everything about a supervisor that an attack might have changed."""
    kept = ("Uid", "Gid", "TracerPid", "NoNewPrivs", "Seccomp", "CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb")
    about = status(pid)
    return {
        **{name: about[name] for name in kept},
        # the limit of locks means nothing to the kernel: the supervisor numbers commands with it
        **{f"limit: {name}": value for name, value in limits(pid).items() if name != "Max file locks"},
        "mounts": Path(f"/proc/{pid}/mountinfo").read_text(),
        "started": stat_field(pid, 22),
        "terminal": stat_field(pid, 7),
        "nice": stat_field(pid, 19),
        "priority": f"{stat_field(pid, 40)} {stat_field(pid, 41)}",
        "affinity": str(sorted(os.sched_getaffinity(pid))),
        "oom": Path(f"/proc/{pid}/oom_score_adj").read_text(),
        "ids": Path(f"/proc/{pid}/uid_map").read_text() + Path(f"/proc/{pid}/gid_map").read_text(),
        "threads": about["Threads"],
    }


class World:
    """A secret file and a process of this machine. As far as permissions go, a box's programs may have them both."""

    def __init__(self, folder: Path, box_user: int | None) -> None:
        self.folder = folder
        self.marker = f"marker-{secrets.token_hex(8)}"
        self.secret = folder / f"secret-{secrets.token_hex(4)}"
        self.secret.write_text(self.marker)
        for path in (folder, self.secret):
            path.chmod(0o777)
            if box_user is not None:
                os.chown(path, box_user, box_user)
        self._before = self._file()
        user = {} if box_user is None else {"user": box_user, "group": box_user, "extra_groups": []}
        self.bystander = subprocess.Popen(["/bin/sleep", "600"], cwd="/", **user)  # type: ignore[call-overload]

    def _file(self) -> tuple[object, ...]:
        info = self.secret.lstat()
        names = sorted(os.listdir(self.folder))
        return (self.secret.read_text(), info.st_mode, info.st_uid, info.st_nlink, info.st_ino, info.st_mtime_ns, names)

    def assert_unharmed(self) -> None:
        """The file and its folder are as they were; the process lives and runs."""
        assert self._file() == self._before, "a file of this machine was changed"
        assert self.bystander.poll() is None, "a process of this machine was killed"
        assert stat_field(self.bystander.pid, 3) == "S", "a process of this machine was stopped"

    def close(self) -> None:
        """End the process."""
        self.bystander.kill()
        self.bystander.wait()


def _wait_for_its_priority(pid: int) -> None:
    """It is given to a supervisor that root has made a moment after the first word of its box."""
    deadline = time.monotonic() + 5
    while os.geteuid() == 0 and stat_field(pid, 19) != "-10" and time.monotonic() < deadline:
        time.sleep(0.001)


class Guard:
    """One box under attack: what it looked like before, and whether that and its answers are the same afterwards."""

    def __init__(self, box: LocalBox) -> None:
        self.box = box
        self._pid = first_process(box)
        _wait_for_its_priority(self._pid)
        self._before = seen_from_outside(self._pid)

    async def assert_holds(self) -> None:
        """The supervisor is the same process, unchanged, and serves."""
        assert await self.box.status() == "running"
        assert first_process(self.box) == self._pid
        after = seen_from_outside(self._pid)
        assert after == self._before, {key: value for key, value in after.items() if value != self._before[key]}
        result = await self.box.exec(["/bin/echo", "alive"], cwd="/", timeout_s=20)
        assert (result.status, result.stdout) == ("exited", "alive\n"), result
