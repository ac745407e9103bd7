"""Walls: a program meets neither this machine, nor other boxes, nor its supervisor, and cannot forge trouble."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import anyio

from swe_sdk.errors import SandboxLost, SweError
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Box, Process, SupportsProcesses
from swe_sdk.testing.check import check
from swe_sdk.testing.expect import CheckFailed, require, require_equal, require_exit
from swe_sdk.testing.lab import Lab, unique

COMMAND_LINES = "cat /proc/[0-9]*/cmdline 2> /dev/null; true"
INFRASTRUCTURE_WORDS = (
    "Error response from daemon: No such container: 0123456789ab",
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
    "OCI runtime exec failed: exec failed: unable to start container process",
    "FATAL:   container creation failed: instance is lost",
    "swe_sdk.errors.SandboxLost: the sandbox died",
    '{"status": "lost", "exit_code": null, "ev": "exit"}',
    "Killed\nOut of memory: Killed process 1",
    "No space left on device",
    "command timed out after 60 s",
)


@check()
async def boxes_do_not_share_files(lab: Lab) -> None:
    """What one box writes, no other sees: not in /tmp, /dev/shm, the home directory or the workdir."""
    first, second = await lab.box(), await lab.box()
    places = '/tmp /dev/shm "$HOME" . /'
    name = unique()
    await lab.ok(first, f"for d in {places}; do echo x > $d/{name} || exit; done")
    await lab.ok(second, f"for d in {places}; do [ ! -e $d/{name} ] || exit; done")


@check()
async def boxes_do_not_share_processes(lab: Lab) -> None:
    """A program sees the processes of its own box, and neither another's nor this machine's."""
    first, second, mark = await lab.box(), await lab.box(), unique()
    await lab.ok(first, f"sh -c 'while :; do sleep 0.1; done' {mark} > /dev/null 2>&1 &")
    with subprocess.Popen([sys.executable, "-c", "input()", f"host-{mark}"], stdin=subprocess.PIPE) as ours:
        seen_first = (await lab.ok(first, COMMAND_LINES)).stdout
        seen_second = (await lab.ok(second, COMMAND_LINES)).stdout
        ours.kill()
    require(mark in seen_first, "a box does not see its own process")
    require(mark not in seen_second, "a box sees a process of another")
    require(f"host-{mark}" not in seen_first + seen_second, "a box sees a process of this machine")


@check()
async def files_of_this_machine_are_not_seen(lab: Lab) -> None:
    """Temporary files and the home directory of this machine are not in a box: they hold other people's secrets."""
    box = await lab.box()
    (lab.scratch / "canary").write_text("here")
    with tempfile.NamedTemporaryFile(dir=Path.home(), prefix=".swe-sdk-check-") as at_home:
        for path in (lab.scratch / "canary", Path(at_home.name), Path(__file__)):
            require_exit(await lab.run(box, ["test", "-e", str(path)]), 1)


@check()
async def files_of_this_machine_cannot_be_changed(lab: Lab) -> None:
    """Whatever a program writes, wherever it may, this machine's file system stays as it is."""
    box, name = await lab.box(), unique()
    places = ("/", "/tmp", "/usr", "/usr/lib", "/etc", "/var/tmp", "/root", "/home", "/dev", "/opt", "/sys", "/run")
    for user in await _users(lab, box):
        script = f"for d in {' '.join(places)}; do mkdir -p $d; echo x > $d/{name}; done 2> /dev/null; true"
        await lab.ok(box, script, user=user)
    for place in places:
        require(not _exists(Path(place) / name), f"a file written in a box appeared in {place} of this machine")


@check()
async def mounts_are_there_and_cannot_be_written(lab: Lab) -> None:
    """A mounted directory and a mounted file are read, and no program, root in the box included, changes them."""
    (lab.scratch / "d").mkdir()
    (lab.scratch / "d" / "f").write_text("in a directory")
    (lab.scratch / "single").write_text("alone")
    mounts = [{"source": str(lab.scratch / name), "target": f"/mnt/check/{name}"} for name in ("d", "single")]
    box = await lab.box(mounts=mounts)
    result = await lab.ok(box, "cat /mnt/check/d/f /mnt/check/single")
    require_equal(result.stdout, "in a directoryalone", "the mounted files")
    evil = "(echo evil > d/f; echo evil > single; touch d/new; rm d/f; chmod 777 d/f) 2> /dev/null; true"
    for user in await _users(lab, box):
        await lab.ok(box, evil, cwd="/mnt/check", user=user)
    require_equal([p.name for p in (lab.scratch / "d").iterdir()], ["f"], "what is in the directory")
    require_equal((lab.scratch / "d" / "f").read_text(), "in a directory", "the file in it")
    require_equal((lab.scratch / "single").read_text(), "alone", "the single file")


@check()
async def printed_trouble_is_only_text(lab: Lab) -> None:
    """A program that prints what a dying runtime prints has done just that: infrastructure is judged by its own facts.

    Otherwise a submission could have its zero masked.
    """
    box = await lab.box()
    for code in (0, 1, 125, 137, 255):
        text = "\n".join(INFRASTRUCTURE_WORDS)
        result = await lab.run(box, ["sh", "-c", 'echo "$1"; echo "$1" >&2; exit "$2"', "sh", text, str(code)])
        require_exit(result, code)
        require_equal((result.stdout, result.stderr), (f"{text}\n", f"{text}\n"), "the output")
    require_equal(await box.status(), "running", "the status")


@check()
async def killing_everything_is_told_truthfully(lab: Lab) -> None:
    """After ``kill -9 -1`` the command's own end is told as it was, and the box goes on or is honestly lost."""
    await _truthful(lab, "sleep 60 > /dev/null 2>&1 & kill -9 -1; echo survived; exit 3")


@check()
async def killing_pid_1_is_told_truthfully(lab: Lab) -> None:
    """The first process is not the program's to kill or to stop; if it is, the box is honestly lost."""
    script = "for s in TERM INT HUP STOP KILL; do kill -$s 1 2> /dev/null; done; echo survived; exit 3"
    await _truthful(lab, script)


@check()
async def killing_the_parent_is_told_truthfully(lab: Lab) -> None:
    """The process that started the program is not the program's to kill; if it is, the box is honestly lost."""
    await _truthful(lab, 'if [ "$PPID" -gt 1 ]; then kill -9 "$PPID"; sleep 0.2; fi; echo survived; exit 3')


@check()
async def a_program_cannot_look_into_its_supervisor(lab: Lab) -> None:
    """Memory, descriptors and environment of the process that reports a program's end are closed to the program."""
    script = (
        'p=$PPID; [ "$p" -gt 0 ] || exit 0; (exec 3<> /proc/$p/mem) && echo memory; cat /proc/$p/environ;'
        ' for f in /proc/$p/fd/*; do (exec 3< "$f") && echo "$f"; done; true'
    )
    box = await lab.box()
    for user in await _users(lab, box):
        result = await lab.run(box, ["sh", "-c", script], user=user)
        require_equal(result.stdout, "", f"what {user or 'a program'} can open of its parent process")


@check(needs=("processes",))
async def processes_are_listed(lab: Lab) -> None:
    """``processes`` names what runs in the box, by the pids that its programs see, and nothing else."""
    box = await lab.box()
    require_equal(await listed(box), [], "the processes of an idle box")
    pid = int((await lab.ok(box, "sleep 4321 > /dev/null 2>&1 & echo $!")).stdout)
    with lab.promptly("a process that was started is not listed"):  # it may be about to become the program
        while not (found := [one for one in await listed(box) if one.pid == pid and "sleep 4321" in one.command]):
            await anyio.sleep(0.02)
    require(found[0].state in "RSD", f"a sleeping process is in state {found[0].state!r}")
    await lab.ok(box, f"kill {pid}")
    with lab.promptly("a process that was killed is still listed"):
        while await listed(box):
            await anyio.sleep(0.02)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:  # a directory of somebody else, where no box of ours can write either
        return False


async def listed(box: Box) -> list[Process]:
    """The processes of a box; a failure of the check where it cannot list them."""
    if not isinstance(box, SupportsProcesses):
        raise CheckFailed("the provider claims 'processes', but its boxes lack the method")
    return await box.processes()


async def _users(lab: Lab, box: Box) -> list[str | None]:
    """Those that commands of the box can run as: the usual one and, where that is allowed, root."""
    try:
        return [None, "root"] if (await lab.run(box, "true", user="root")).ok else [None]
    except SweError:
        return [None]


async def _truthful(lab: Lab, script: str) -> None:
    """Run what says "survived" and exits with 3, as every user, each in a box of its own."""
    for user in await _users(lab, await lab.box()):
        box = await lab.box()
        result = await lab.run(box, ["sh", "-c", script], user=user)
        await _is_told(lab, box, result)


async def _is_told(lab: Lab, box: Box, result: ExecResult) -> None:
    """The result is the program's own, or lost; and what the status says of the box is so."""
    if result.status != "lost":
        require_exit(result, 3)
        require_equal(result.stdout, "survived\n", "standard output")
    status = await box.status()
    require(status in ("running", "lost"), f"the status is {status!r}")
    require(status == "lost" or result.status != "lost", "the command was lost, but the box claims to be running")
    require_equal(await _is_usable(lab, box), status == "running", "whether a box said to be running can be used")


async def _is_usable(lab: Lab, box: Box) -> bool:
    try:
        return (await lab.run(box, "echo usable")).stdout == "usable\n"
    except SandboxLost:
        return False
