"""Limits: kept as the provider's health report says, and told truthfully when a program meets them."""

from __future__ import annotations

from swe_sdk.sandbox.contract import Box, Limits
from swe_sdk.testing.check import check
from swe_sdk.testing.expect import NotApplicable, require, require_equal, require_exit
from swe_sdk.testing.lab import Lab

HOLD = "{ head -c %d /dev/zero; sleep 1; } | tail > /dev/null"
"""Holds so many bytes for a second: ``tail`` waits for the end of one long line."""


@check()
async def every_limit_is_declared(lab: Lab) -> None:
    """The health report says of each limit whether it is kept: a limit on paper is worse than none."""
    health = await lab.provider.probe()
    require_equal(set(health.limits), set(Limits.model_fields), "the limits that the health report speaks of")


@check()
async def open_files_are_limited(lab: Lab) -> None:
    """``open_files`` is what the program gets."""
    box = await _limited(lab, open_files=64)
    require_equal((await lab.ok(box, "ulimit -n")).stdout, "64\n", "the limit of open files")


@check()
async def the_size_of_files_is_limited(lab: Lab) -> None:
    """``file_size_bytes`` stops a program that fills the disk with one file; uploads by us are not its doing."""
    box = await _limited(lab, file_size_bytes=1 << 20)
    require(not (await lab.run(box, "head -c 5000000 /dev/zero > /tmp/large")).ok, "a file above the limit was written")
    require(await lab.size(box, "/tmp/large") <= 1 << 20, "the file is larger than the limit")
    await lab.ok(box, "true")


@check(tools=("python3",))
async def processes_are_limited(lab: Lab) -> None:
    """``pids`` bounds the processes of a box: a program that forks for ever fails, and the box stays usable."""
    program = (
        "import os, signal, time\npids = []\n"
        "try:\n    while len(pids) < 200:\n        pids.append(os.fork())\n"
        "        if pids[-1] == 0: time.sleep(60)\n"
        "except OSError: pass\n"
        "for pid in pids: os.kill(pid, signal.SIGKILL)\nprint(len(pids))\n"
    )
    box = await _limited(lab, pids=60)
    made = int((await lab.ok(box, ["python3", "-c", program])).stdout)
    require(made < 60, f"{made} processes were made under a limit of 60")
    await lab.ok(box, "true")


@check()
async def memory_is_limited(lab: Lab) -> None:
    """A program that goes beyond ``memory_mib`` ends with status ``oom``, and the box stays usable."""
    box = await _limited(lab, memory_mib=64)
    _require_oom((await lab.run(box, HOLD % 300_000_000)).status)
    await lab.ok(box, "true")


@check()
async def memory_is_limited_for_all_processes_together(lab: Lab) -> None:
    """Workers that are each below ``memory_mib``, and beyond it together, meet the limit; to lose one is ``oom``."""
    box = await _limited(lab, memory_mib=64)
    workers = f'for i in 1 2 3 4 5 6; do {HOLD % 30_000_000} & all="$all $!"; done'
    script = f"{workers}; for worker in $all; do wait $worker || code=1; done; exit $code"
    _require_oom((await lab.run(box, script)).status)


@check()
async def only_memory_is_called_oom(lab: Lab) -> None:
    """SIGKILL and exit code 137 are the program's own, in a limited box too, and also after a real ``oom`` in it."""
    box = await _limited(lab, memory_mib=64)
    await _dies_by_itself(lab, box)
    _require_oom((await lab.run(box, HOLD % 300_000_000)).status)
    await _dies_by_itself(lab, box)


@check()
async def processors_are_limited(lab: Lab) -> None:
    """``cpus`` bounds the time that a program is given: neighbours on the machine keep theirs."""
    box = await _limited(lab, cpus=0.1)
    script = "timeout 1 sh -c 'while :; do :; done' & timeout 1 sh -c 'while :; do :; done' & wait; times"
    used_s = _cpu_s((await lab.ok(box, script)).stdout)
    require(used_s < 0.35, f"two busy loops used {used_s:.2f} s of processor time in one second, with cpus=0.1")


async def _limited(lab: Lab, **limits: float) -> Box:
    """A box with these limits; not applicable where one of them is said to be unavailable."""
    health = await lab.provider.probe()
    for name in limits:
        if health.limits.get(name, "unavailable") == "unavailable":
            raise NotApplicable(f"the provider says that {name} is unavailable here")
    return await lab.box(limits=limits)


async def _dies_by_itself(lab: Lab, box: Box) -> None:
    require_exit(await lab.run(box, "exit 137"), 137)
    require_exit(await lab.run(box, ["sh", "-c", "kill -9 $$"]), -9, 137)


def _require_oom(status: str) -> None:
    require_equal(status, "oom", "the status of a program beyond its memory limit")


def _cpu_s(times: str) -> float:
    """User and system seconds of the children, from the second line of the shell's ``times``: ``0m0.290s 0m0.010s``."""
    fields = times.splitlines()[1].split()
    return sum(float(minutes) * 60 + float(seconds.rstrip("s")) for minutes, seconds in (f.split("m") for f in fields))
