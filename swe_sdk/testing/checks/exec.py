"""Commands: how they are started, what they are given, and that their end is told as it was."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import anyio

from swe_sdk.errors import InputError, SandboxError, SweError
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Box
from swe_sdk.testing.check import check
from swe_sdk.testing.expect import CheckFailed, require, require_equal, require_exit, told
from swe_sdk.testing.lab import Lab
from swe_sdk.testing.this_machine import open_descriptors

ECHO_ARGUMENTS = ["sh", "-c", 'for a; do printf "%s\\0" "$a"; done', "sh"]
"""Prints each argument that follows, and a NUL after it."""


@check()
async def exit_codes_are_told_as_they_were(lab: Lab) -> None:
    """Every exit code is the program's own business: 125, 126, 127, 130, 137 and 255 included.

    Runtimes use the same numbers for their own failures; a provider that reads meaning into them turns a wrong answer
    of the graded program into an infrastructure failure, or the other way round.
    """
    box = await lab.box()
    for code in (0, 1, 2, 124, 125, 126, 127, 128, 130, 137, 139, 255):
        require_exit(await lab.run(box, f"exit {code}"), code)
        require_exit(await lab.run(box, ["sh", "-c", f"exit {code}"]), code)


@check()
async def a_signal_death_is_an_exit(lab: Lab) -> None:
    """A program that a signal ends, SIGKILL included, has *exited*: minus the signal, or 128 plus it."""
    box = await lab.box()
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGHUP):
        result = await lab.run(box, ["sh", "-c", f"kill -{number.value} $$"])
        require_exit(result, -number, 128 + number)


@check()
async def a_missing_program_is_a_result(lab: Lab) -> None:
    """A program that is not there ends with 127 (some runtimes say 126), as in a shell; the sandbox is not at fault.

    The agent may well have deleted it.
    """
    box = await lab.box()
    require_exit(await lab.run(box, ["/no/such/program", "x"]), 127, 126)
    require_exit(await lab.run(box, ["no-such-program"]), 127, 126)
    require_exit(await lab.run(box, "no-such-program"), 127, 126)
    await lab.ok(box, "true")


@check()
async def a_file_that_cannot_be_executed_is_a_result(lab: Lab) -> None:
    """A text file, a directory and a script with a missing interpreter end with 126 or 127."""
    box = await lab.box()
    await box.write("/tmp/text", b"no program\n", mode=0o644)
    await box.write("/tmp/script", b"#!/no/such/interpreter\n", mode=0o755)
    for path in ("/tmp/text", "/tmp", "/tmp/script"):
        require_exit(await lab.run(box, [path]), 126, 127)


@check()
async def arguments_arrive_unchanged(lab: Lab) -> None:
    """Spaces, quotes, newlines, globs, dollar signs and empty strings reach the program byte for byte."""
    arguments = [
        "a b",
        "",
        "'",
        '"',
        "\\",
        "line\nbreak\n",
        "$HOME",
        "*",
        "~",
        "; false",
        "`x`",
        "\t",
        "\u00e9\u4e16",
        "-n",
    ]
    await _require_echo(lab, arguments)


@check()
async def arguments_may_be_any_bytes(lab: Lab) -> None:
    """Bytes that are not UTF-8 travel as surrogate escapes, as everywhere in Python."""
    await _require_echo(lab, [os.fsdecode(b"\xff\xfe"), os.fsdecode(b"latin-\xe9")])


@check()
async def a_string_is_a_shell_line(lab: Lab) -> None:
    """Pipes, redirections, here-documents, expansions and several lines work in a string."""
    box = await lab.box()
    line = 'x=5; echo $((x + 1)) | tr 6 7 > /tmp/out && cat /tmp/out\ncat <<END\n"$x"\nEND\necho "it\'s"'
    require_equal((await lab.ok(box, line)).stdout, '7\n"5"\nit\'s\n', "standard output")


@check(tools=("bash",))
async def the_shell_is_bash_where_there_is_one(lab: Lab) -> None:
    """Commands of data sets are written for bash: ``[[``, ``source`` and arrays must work."""
    box = await lab.box()
    line = "a=(1 2 3); [[ ${#a[@]} == 3 ]] && source /dev/stdin <<< 'echo sourced'"
    require_equal((await lab.ok(box, line)).stdout, "sourced\n", "standard output")


@check()
async def a_huge_argument_is_nobodys_failure(lab: Lab) -> None:
    """The kernel refuses one argument above 128 KiB: it works, or is a result or an ``InputError``.

    Never a ``SandboxError``: the sandbox is healthy, and a retry would fail again.
    """
    box = await lab.box()
    for command in (f": {'x' * 200_000}; echo done", ["echo", "x" * 200_000]):
        await _works_or_is_refused(lab, box, command)
    await lab.ok(box, "true")


@check()
async def standard_error_is_kept_apart(lab: Lab) -> None:
    """The two streams do not mix unless that is asked for."""
    result = await lab.ok(await lab.box(), "echo out; echo err >&2; echo out2")
    require_equal(result.stdout_bytes, b"out\nout2\n", "standard output")
    require_equal(result.stderr_bytes, b"err\n", "standard error")


@check()
async def merged_streams_keep_their_order(lab: Lab) -> None:
    """With ``merge_stderr`` both streams are one, in the order written: logs of test runs are read so."""
    script = "i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done"
    result = await lab.ok(await lab.box(), script, merge_stderr=True)
    wanted = "".join(f"o{i}\ne{i}\n" for i in range(200))
    require_equal(result.stdout, wanted, "standard output")
    require_equal(result.stderr_bytes, b"", "standard error")


@check()
async def standard_input_is_empty(lab: Lab) -> None:
    """A program that reads standard input sees its end at once, and no terminal: nothing waits for a person."""
    box = await lab.box()
    with lab.promptly("`cat` without input waits"):
        result = await lab.ok(box, "cat; read -r x || echo end; [ -t 0 ] || [ -t 1 ] || echo no terminal")
    require_equal(result.stdout, "end\nno terminal\n", "standard output")


@check()
async def standard_input_is_delivered(lab: Lab) -> None:
    """All bytes of ``stdin`` arrive, NUL and non-UTF-8 ones too, and then its end."""
    box = await lab.box()
    data = bytes(range(256)) + b"\r\n\n"
    require_equal((await lab.ok(box, "cat", stdin=data)).stdout_bytes, data, "what cat copied")
    require_equal((await lab.ok(box, ["cat"], stdin=b"")).stdout_bytes, b"", "what cat copied of nothing")


@check()
async def five_megabytes_of_standard_input_arrive(lab: Lab) -> None:
    """Far more than a pipe holds arrives while the program prints as much: patches travel so, and nothing deadlocks."""
    box = await lab.box()
    data = os.urandom(1 << 20) * 5
    result = await lab.ok(box, "cat", stdin=data, output_bytes=2 * len(data))
    require(
        result.stdout_bytes == data, f"{len(data)} bytes went in, {len(result.stdout_bytes)} came back, not the same"
    )


@check()
async def a_reader_may_close_standard_input_early(lab: Lab) -> None:
    """A program that reads little or nothing of a large input is no error, and does not hang."""
    box = await lab.box()
    with lab.promptly("a program that does not read its input hangs"):
        require_equal((await lab.ok(box, "head -c 3", stdin=b"abc" * 2_000_000)).stdout, "abc", "standard output")
        require_exit(await lab.run(box, "exit 3", stdin=b"x" * 5_000_000), 3)


@check()
async def a_command_runs_exactly_once(lab: Lab) -> None:
    """Failing commands are not retried: a second run of a test suite or an agent would be another measurement."""
    box = await lab.box()
    for end in ("exit 1", "exit 125", "exit 255", "kill -9 $$"):
        await lab.run(box, f"echo run >> /tmp/runs; {end}")
    require_equal(await lab.size(box, "/tmp/runs"), 4 * len("run\n"), "bytes written by four commands")


@check()
async def closing_the_outputs_does_not_end_a_command(lab: Lab) -> None:
    """The end is the end of the process, not of its pipes: daemons close theirs first."""
    result = await lab.run(await lab.box(), "exec >&- 2>&-; sleep 0.3; echo done > /tmp/done; exit 7")
    require_exit(result, 7)
    require(result.duration_s >= 0.25, f"it was said to take {result.duration_s:.2f} s")


@check()
async def the_duration_is_measured(lab: Lab) -> None:
    """``duration_s`` is the command's time in seconds."""
    result = await lab.ok(await lab.box(), "sleep 0.4")
    limit_s = 0.4 + lab.settings.prompt_s
    require(0.35 <= result.duration_s <= limit_s, f"`sleep 0.4` was said to take {result.duration_s:.2f} s")


_RESERVED_SIGNALS = 0b11 << 31
"""Signals 32 and 33 belong to the C library: no program can send or set them, and some starters leave them ignored."""


@check()
async def signals_have_their_default_effect(lab: Lab) -> None:
    """No signal is ignored or blocked at the start, whatever this process ignores: ``yes | head`` is silent."""
    box = await lab.box()
    status = (await lab.ok(box, ["cat", "/proc/self/status"])).stdout
    masks = dict(line.split(":\t") for line in status.splitlines() if line.startswith(("SigIgn", "SigBlk")))
    for name, mask in masks.items():
        require_equal(int(mask, 16) & ~_RESERVED_SIGNALS, 0, f"{name} of a new process")
    require_equal((await lab.ok(box, "yes | head -n 1")).stderr, "", "what `yes` says when its reader has gone")


@check()
async def no_descriptors_are_inherited(lab: Lab) -> None:
    """A program has descriptors 0, 1 and 2 and no other: one of the supervisor's could forge results."""
    script = "n=3; while [ $n -lt 64 ]; do [ -e /proc/$$/fd/$n ] && readlink /proc/$$/fd/$n; n=$((n+1)); done; true"
    result = await lab.ok(await lab.box(), ["sh", "-c", script])
    require_equal(result.stdout, "", "open descriptors above 2")


@check()
async def another_user_is_used_or_refused(lab: Lab) -> None:
    """``user`` is the user that the command runs as, or it is refused: never silently another one."""
    box = await lab.box()
    mine = (await lab.ok(box, "id -un; id -u")).stdout
    require_equal((await lab.ok(box, "id -un; id -u", user=mine.split()[0])).stdout, mine, "the user, named")
    for user in ("nobody", "no-such-user"):
        try:
            result = await lab.run(box, "id -un", user=user)
        except SweError:
            continue
        require(
            not result.ok or result.stdout.strip() == user, f"asked to run as {user}, ran as {result.stdout.strip()}"
        )


@check()
async def many_commands_leave_no_descriptors_open(lab: Lab) -> None:
    """A long rollout makes thousands of calls: none may cost a descriptor of this process."""
    box = await lab.box()
    await lab.ok(box, "true")
    before = open_descriptors()
    for _ in range(40):
        await lab.ok(box, "echo out; echo err >&2", stdin=b"in")
    after = open_descriptors()
    require(after <= before + 3, f"40 commands left {after - before} descriptors open")


@check()
async def many_commands_run_at_once(lab: Lab) -> None:
    """Commands in one box run side by side, and each gets its own output."""
    box, count = await lab.box(), lab.settings.parallel_execs
    results: dict[int, ExecResult] = {}

    async def one(number: int) -> None:
        results[number] = await lab.run(box, f"sleep 0.5; echo {number}; exit {number}")

    begin = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number)
    took_s = anyio.current_time() - begin
    for number, result in results.items():
        require_exit(result, number)
        require_equal(result.stdout, f"{number}\n", f"the output of command {number}")
    require(took_s < 0.5 * count * 0.75, f"{count} commands of 0.5 s took {took_s:.1f} s: they waited for each other")


async def _require_echo(lab: Lab, arguments: Sequence[str]) -> None:
    result = await lab.ok(await lab.box(), [*ECHO_ARGUMENTS, *arguments])
    require_equal(result.stdout_bytes.split(b"\0")[:-1], [os.fsencode(a) for a in arguments], "the arguments")


async def _works_or_is_refused(lab: Lab, box: Box, command: str | Sequence[str]) -> None:
    try:
        result = await lab.run(box, command)
    except InputError:
        return
    except SandboxError as error:
        raise CheckFailed(f"blamed on the sandbox: {type(error).__name__}: {error}") from error
    require(result.status == "exited", f"a command with a huge argument {told(result)}")
