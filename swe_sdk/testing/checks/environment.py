"""What a command finds around it: variables, directory, and the system's ordinary places."""

from __future__ import annotations

import os

from swe_sdk.errors import SandboxError, SweError
from swe_sdk.sandbox.contract import Box
from swe_sdk.testing.check import check
from swe_sdk.testing.checks.output import HANDSHAKE
from swe_sdk.testing.expect import CheckFailed, require, require_equal
from swe_sdk.testing.lab import Lab, unique
from swe_sdk.testing.this_machine import is_on_a_command_line


@check()
async def variables_are_added(lab: Lab) -> None:
    """``env`` of a command is added to what the box has."""
    box = await lab.box()
    line = 'printf "%s|%s" "$ONE" "$TWO"; [ -n "$PATH" ]'
    require_equal((await lab.ok(box, line, env={"ONE": "1", "TWO": "a b"})).stdout, "1|a b", "variables")


@check()
async def variables_override_those_of_the_box(lab: Lab) -> None:
    """The spec's variables are in every command, and a command's own win over them, for that command only."""
    box = await lab.box(env={"KEPT": "spec", "CHANGED": "spec"})
    line = 'printf "%s %s" "$KEPT" "$CHANGED"'
    require_equal((await lab.ok(box, line, env={"CHANGED": "exec"})).stdout, "spec exec", "with a variable of its own")
    require_equal((await lab.ok(box, line)).stdout, "spec spec", "the next command")


@check()
async def any_value_of_a_variable_arrives(lab: Lab) -> None:
    """Empty values, newlines, quotes, equal signs, 100 kB and bytes that are not UTF-8 arrive unchanged."""
    box = await lab.box()
    values = ["", "a\nb\n", "'\"$X`x`\\", "a=b=c", " spaced ", "\u00e9", os.fsdecode(b"\xff\xfe"), "x" * 100_000]
    for value in values:
        line = 'printf %s "$VALUE"; [ "${VALUE+set}" = set ]'
        result = await lab.ok(box, line, env={"VALUE": value})
        require_equal(result.stdout_bytes, os.fsencode(value), "the value")


@check()
async def commands_do_not_change_each_others_variables(lab: Lab) -> None:
    """Every command starts from the box's variables and directory, not from where the last one ended."""
    box = await lab.box()
    await lab.ok(box, "export LEFT=over; cd /tmp")
    require_equal((await lab.ok(box, 'printf "%s" "$LEFT"; pwd')).stdout, f"{box.spec.workdir}\n", "what is left")


@check()
async def variables_of_this_process_stay_here(lab: Lab) -> None:
    """Nothing of this process's environment is seen in a box: it holds tokens."""
    name = unique("SWE_SDK_CHECK").replace("-", "_")
    os.environ[name] = "secret"
    try:
        result = await lab.ok(await lab.box(), "env")
    finally:
        del os.environ[name]
    require(name not in result.stdout, "a variable of this process is set in the box")


@check()
async def values_are_not_on_a_command_line(lab: Lab) -> None:
    """Variables travel by the API and not as ``-e NAME=VALUE``: every user of the machine can read command lines."""
    box, secret = await lab.box(), unique("secret")
    script = f"{HANDSHAKE}; cat /proc/[0-9]*/cmdline 2>/dev/null; true"
    async with lab.running(box, script, env={"TOKEN": secret}) as pending:
        await lab.wait_for_file(box, "/tmp/started")
        shown = is_on_a_command_line(secret)
        await box.write("/tmp/go", b"")
    require(not shown, "the value is on a command line of this machine")
    require(secret not in pending.need().stdout, "the value is on a command line in the box")


@check()
async def the_ordinary_variables_are_set(lab: Lab) -> None:
    """``PATH`` finds the system's programs, and ``HOME`` is a directory that can be written: caches and git need it."""
    box = await lab.box()
    await lab.ok(box, 'ls / > /dev/null && [ -d "$HOME" ] && echo x > "$HOME/probe" && rm "$HOME/probe"')
    await lab.ok(box, ["ls", "/"])


@check()
async def commands_start_in_the_workdir(lab: Lab) -> None:
    """The directory is the spec's ``workdir``, which exists and can be written."""
    for changes in ({}, {"workdir": "/somewhere/else"}):
        box = await lab.box(**changes)
        result = await lab.ok(box, "pwd; echo x > probe")
        require_equal(result.stdout, f"{box.spec.workdir}\n", "the directory")


@check()
async def a_directory_can_be_chosen(lab: Lab) -> None:
    """``cwd`` is where the command starts, whatever characters its name has."""
    box = await lab.box()
    for path in ("/", "/tmp", "/tmp/with space", "/tmp/\u00e9'\"$x"):
        await lab.ok(box, ["mkdir", "-p", path])
        require_equal((await lab.ok(box, ["pwd"], cwd=path)).stdout, f"{path}\n", "the directory")


@check()
async def a_missing_directory_is_not_blamed_on_the_sandbox(lab: Lab) -> None:
    """A ``cwd`` that is not there, or is a file, is a result other than success, or an error of the caller.

    Never a ``SandboxError``: the program before may have removed it, and the sandbox is healthy.
    """
    box = await lab.box()
    await box.write("/tmp/file", b"")
    for path in ("/no/such/directory", "/tmp/file"):
        await _fails_innocently(lab, box, path)
    await lab.ok(box, "true")


@check()
async def a_box_is_an_ordinary_system(lab: Lab) -> None:
    """The device files, /proc, /tmp and /dev/shm that test suites take for granted are there."""
    box = await lab.box()
    for line in (
        "echo x > /dev/null && [ ! -s /dev/null ]",
        '[ "$(head -c 16 /dev/urandom | wc -c)" -eq 16 ] && [ "$(head -c 16 /dev/zero | wc -c)" -eq 16 ]',
        "echo to-stderr > /dev/stderr && echo to-stdout > /dev/stdout",
        "[ -r /proc/self/status ] && [ -d /proc/1 ] && [ -e /dev/fd/0 ]",
        "touch /tmp/probe && [ -k /tmp ] && [ -w /tmp ]",
        "touch /dev/shm/probe",
    ):
        await lab.ok(box, line)
    require_equal((await lab.ok(box, "cat /dev/stdin", stdin=b"in")).stdout, "in", "what /dev/stdin gives")


@check(tools=("git",))
async def git_works(lab: Lab) -> None:
    """A repository can be made, committed to and diffed: ownership checks, HOME and locks included."""
    script = (
        "git init -q . && echo one > f && git add f && git -c user.name=a -c user.email=a@b commit -q -m one"
        " && echo two >> f && git diff --stat && git status --porcelain"
    )
    result = await lab.ok(await lab.box(), script)
    require(" M f" in result.stdout, f"git says {result.stdout!r}")


@check(tools=("python3",))
async def python_works(lab: Lab) -> None:
    """Threads, subprocesses, multiprocessing locks, temporary files and a pseudo-terminal work."""
    program = (
        "import multiprocessing, os, pty, subprocess, tempfile, threading\n"
        "multiprocessing.Lock(); os.close(pty.openpty()[0])\n"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
        "tempfile.TemporaryFile().write(b'x')\n"
        "print(subprocess.check_output(['echo', 'child'], text=True), end='')\n"
    )
    result = await lab.ok(await lab.box(), ["python3", "-c", program])
    require_equal(result.stdout.split(), ["thread", "child"], "what python printed")


async def _fails_innocently(lab: Lab, box: Box, cwd: str) -> None:
    try:
        result = await lab.run(box, "echo ran", cwd=cwd)
    except SandboxError as error:
        raise CheckFailed(f"cwd={cwd!r} is blamed on the sandbox: {type(error).__name__}: {error}") from error
    except SweError:
        return
    require(result.status == "exited" and not result.ok, f"cwd={cwd!r}: the command {result.summary}")
    require(not result.stdout, f"cwd={cwd!r}: the command ran elsewhere")
