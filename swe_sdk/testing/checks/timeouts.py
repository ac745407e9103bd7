"""Timeouts and cancellation: the whole process tree is gone when ``exec`` ends, and the result says what happened."""

from __future__ import annotations

import anyio

from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Box
from swe_sdk.testing.check import check
from swe_sdk.testing.expect import CheckFailed, describe, require, require_equal, require_exit
from swe_sdk.testing.lab import QUIET_S, Lab

TICKS = "/tmp/ticks"
TICK = f"while :; do echo tick >> {TICKS}; sleep 0.05; done"
"""A program that shows that it is alive."""


@check()
async def a_timeout_is_a_status(lab: Lab) -> None:
    """The status is ``timeout`` and there is no exit code: 124 or 137 could be the program's own."""
    begin = anyio.current_time()
    result = await lab.run(await lab.box(), "sleep 60", timeout_s=lab.settings.timeout_s)
    took_s = anyio.current_time() - begin
    _require_timeout(result)
    require(
        took_s >= lab.settings.timeout_s - 0.05,
        f"it returned after {took_s:.2f} s, before its timeout of {lab.settings.timeout_s} s",
    )
    require(took_s <= lab.settings.timeout_s + lab.settings.prompt_s, f"it returned after {took_s:.1f} s")


@check(tools=("timeout",))
async def a_timeout_inside_is_not_ours(lab: Lab) -> None:
    """A program that uses ``timeout`` itself has exited with 124."""
    require_exit(await lab.run(await lab.box(), "timeout 0.2 sleep 30"), 124)


@check()
async def a_timeout_kills_the_process(lab: Lab) -> None:
    """The program has stopped when ``exec`` returns."""
    await _dies_at_timeout(lab, TICK)


@check()
async def a_timeout_kills_background_children(lab: Lab) -> None:
    """Children in the background belong to their command."""
    await _dies_at_timeout(lab, f"({TICK}) & sleep 60")


@check()
async def a_timeout_kills_what_ignores_signals(lab: Lab) -> None:
    """A program that ignores SIGTERM, SIGINT and SIGHUP is killed all the same."""
    await _dies_at_timeout(lab, f"trap '' TERM INT HUP; {TICK}")


@check(tools=("nohup",))
async def a_timeout_kills_nohup_children(lab: Lab) -> None:
    """``nohup`` is no way out."""
    await _dies_at_timeout(lab, f"nohup sh -c '{TICK}' > /dev/null 2>&1 & sleep 60")


@check(tools=("setsid",))
async def a_timeout_kills_what_left_the_session(lab: Lab) -> None:
    """A child in a session of its own is not in the process group, and is killed all the same."""
    await _dies_at_timeout(lab, f"setsid sh -c '{TICK}' & sleep 60")


@check()
async def a_timeout_kills_orphans(lab: Lab) -> None:
    """A double fork, the way daemons start, is no way out."""
    await _dies_at_timeout(lab, f"( ({TICK}) & ) ; sleep 60")


@check(tools=("setsid",))
async def a_timeout_kills_orphans_that_left_the_session(lab: Lab) -> None:
    """A proper daemon, double-forked into its own session, is killed all the same."""
    await _dies_at_timeout(lab, f"( setsid sh -c '{TICK}' < /dev/null > /dev/null 2>&1 & ) ; sleep 60")


@check()
async def a_timeout_kills_what_cleared_its_environment(lab: Lab) -> None:
    """A mark in the environment is not enough to find a child that was started without it."""
    await _dies_at_timeout(lab, f"env -i /bin/sh -c '{TICK}' & sleep 60")


@check(tools=("setsid",))
async def a_timeout_kills_daemons_without_environment(lab: Lab) -> None:
    """All ways out at once: orphaned, in a session of its own, environment cleared, signals ignored."""
    daemon = f'trap "" TERM HUP; PATH=/usr/bin:/bin; {TICK}'
    await _dies_at_timeout(
        lab, f"( env -i \"$(command -v setsid)\" /bin/sh -c '{daemon}' > /dev/null 2>&1 & ) ; sleep 60"
    )


@check()
async def a_timeout_kills_what_is_stopped(lab: Lab) -> None:
    """A program that has stopped itself still times out, promptly."""
    with lab.promptly("a stopped program is not killed"):
        _require_timeout(await lab.run(await lab.box(), "kill -STOP $$; echo never", timeout_s=lab.settings.timeout_s))


@check()
async def a_timeout_ends_an_endless_flood(lab: Lab) -> None:
    """A program that prints without end is bounded in time and in size."""
    result = await lab.run(await lab.box(), "yes", timeout_s=lab.settings.timeout_s, output_bytes=10_000)
    _require_timeout(result)
    require(len(result.stdout_bytes) <= 10_000, f"{len(result.stdout_bytes)} bytes were kept")
    require(result.stdout_dropped_bytes > 0, "nothing was counted as dropped")


@check()
async def a_timeout_ends_a_program_that_does_not_read(lab: Lab) -> None:
    """Input that is never read does not hold up the timeout."""
    with lab.promptly("input that nobody reads delays the timeout"):
        _require_timeout(
            await lab.run(await lab.box(), "sleep 60", stdin=b"x" * 5_000_000, timeout_s=lab.settings.timeout_s)
        )


@check()
async def a_timeout_spares_other_commands(lab: Lab) -> None:
    """Only the tree of the command that timed out is killed: servers started before, and neighbours, go on."""
    box = await lab.box()
    await lab.ok(box, f"({TICK}) > /dev/null 2>&1 &")
    async with lab.running(box, "sleep 1.5; echo unharmed") as neighbour:
        _require_timeout(await lab.run(box, "sleep 60", timeout_s=lab.settings.timeout_s))
    require_equal(neighbour.need().stdout, "unharmed\n", "the neighbour's output")
    await lab.require_growing(box, TICKS, "a background process of an earlier command")


@check()
async def the_box_is_usable_after_a_timeout(lab: Lab) -> None:
    """The sandbox stays: files are there and commands run."""
    box = await lab.box()
    _require_timeout(await lab.run(box, "echo kept > /tmp/kept; sleep 60", timeout_s=lab.settings.timeout_s))
    require_equal((await lab.ok(box, "cat /tmp/kept")).stdout, "kept\n", "the file")
    require_equal(await box.status(), "running", "the status")


@check()
async def cancelling_kills_the_process(lab: Lab) -> None:
    """When the caller gives up, nothing of the command goes on running in the box, and the box stays usable."""
    await _dies_at_cancellation(lab, TICK)


@check(tools=("setsid",))
async def cancelling_kills_daemons(lab: Lab) -> None:
    """As a timeout does: also what is orphaned, in a session of its own."""
    await _dies_at_cancellation(lab, f"( setsid sh -c '{TICK}' < /dev/null > /dev/null 2>&1 & ) ; sleep 60")


@check()
async def cancelling_ends_a_flood(lab: Lab) -> None:
    """A command can be given up in the middle of its output, and its pipes with it."""
    box = await lab.box()
    with lab.promptly("cancelling in the middle of a flood hangs"):
        with anyio.move_on_after(lab.settings.timeout_s):
            await lab.run(box, "yes", timeout_s=None)
    await lab.ok(box, "true")


@check()
async def a_callback_that_fails_ends_the_command(lab: Lab) -> None:
    """An exception of ``on_output`` is raised to the caller, and the program does not go on without anybody."""
    box = await lab.box()

    def fail(*_: object) -> None:
        raise RuntimeError("of the callback")

    try:
        await lab.run(box, f"{TICK.replace('sleep', 'echo; sleep')}", on_output=fail)
    except Exception as error:  # noqa: BLE001  providers may or may not wrap it in a group
        require("of the callback" in describe(error), f"the callback's error became {describe(error)}")
    else:
        raise CheckFailed("the callback's error was swallowed")
    await _is_over(lab, box)


@check()
async def cancelling_many_at_once_works(lab: Lab) -> None:
    """A group of commands that is given up together ends together."""
    box = await lab.box()
    with lab.promptly("cancelling ten commands hangs"):
        with anyio.move_on_after(lab.settings.timeout_s):
            async with anyio.create_task_group() as tasks:
                for number in range(10):
                    tasks.start_soon(lab.run, box, f"while :; do echo x >> /tmp/c{number}; sleep 0.05; done")
    await lab.ok(box, "cat /tmp/c? > /tmp/before")
    await anyio.sleep(QUIET_S)
    await lab.ok(box, "cat /tmp/c? | cmp - /tmp/before")


async def _dies_at_timeout(lab: Lab, script: str) -> None:
    box = await lab.box()
    with lab.promptly("the timeout does not end it"):
        _require_timeout(await lab.run(box, script, timeout_s=lab.settings.timeout_s))
    await _is_over(lab, box)


async def _dies_at_cancellation(lab: Lab, script: str) -> None:
    box = await lab.box()
    with lab.promptly("cancelling does not end it"):
        with anyio.move_on_after(lab.settings.timeout_s) as scope:
            await lab.run(box, script, timeout_s=None)
    require(scope.cancelled_caught, "exec returned although its program was still running")
    await _is_over(lab, box)


async def _is_over(lab: Lab, box: Box) -> None:
    await lab.require_stopped(box, TICKS, "the program")


def _require_timeout(result: ExecResult) -> None:
    require_equal((result.status, result.exit_code), ("timeout", None), "status and exit code")
