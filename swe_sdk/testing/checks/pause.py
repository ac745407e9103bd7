"""Pausing: every process stops, and goes on as if nothing had been."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import anyio

from swe_sdk.errors import SweError
from swe_sdk.sandbox.contract import Box, SupportsPause
from swe_sdk.testing.check import check
from swe_sdk.testing.expect import CheckFailed, require, require_equal
from swe_sdk.testing.lab import Lab

CLOCK = "while :; do read -r up idle < /proc/uptime; echo $up; sleep 0.05; done"
"""Prints the seconds since the machine started, again and again: a pause is a gap."""
PAUSE_S = 0.8


@check(needs=("pause",))
async def a_pause_stops_all_processes(lab: Lab) -> None:
    """Nothing runs while a box is paused, orphans and other sessions included, and everything goes on afterwards."""
    box = await lab.box()
    clocks = ["/tmp/c0", "/tmp/c1", "/tmp/c2"]
    for path in clocks:
        await lab.ok(box, f"( ({CLOCK}) > {path} 2>&1 & )")
        await lab.require_growing(box, path, "the clock")
    await _pause_for(box, PAUSE_S)
    for path in clocks:
        await lab.require_growing(box, path, "a process, after the pause,")
        gap_s = _longest_gap_s(await box.read(path))
        require(
            gap_s >= PAUSE_S * 0.9, f"a process ran during a pause of {PAUSE_S} s: its longest gap is {gap_s:.2f} s"
        )


@check(needs=("pause",))
async def the_status_tells_a_pause(lab: Lab) -> None:
    """``paused`` while it lasts, ``running`` after it."""
    box = await lab.box()
    await pausable(box).pause()
    require_equal(await box.status(), "paused", "the status of a paused box")
    await pausable(box).resume()
    require_equal(await box.status(), "running", "the status after it")
    await lab.ok(box, "true")


@check(needs=("pause",))
async def nothing_starts_during_a_pause(lab: Lab) -> None:
    """A new command waits or is refused: what it would write could tear a checkpoint apart."""
    box = await lab.box()
    await pausable(box).pause()
    with anyio.move_on_after(0.5), suppress(SweError):
        await lab.run(box, "echo ran > /tmp/ran")
    await pausable(box).resume()
    require_equal(await lab.size(box, "/tmp/ran"), 0, "bytes written by a command during the pause")


@check(needs=("pause",))
async def a_command_survives_a_pause(lab: Lab) -> None:
    """A command in flight ends after the pause as it would have: shells do not take their children for stopped jobs."""
    box = await lab.box()
    async with lab.running(box, "touch /tmp/started; sh -c 'sleep 0.5; echo inner'; echo outer; exit 4") as pending:
        await lab.wait_for_file(box, "/tmp/started")
        await _pause_for(box, PAUSE_S)
    result = pending.need()
    require_equal((result.exit_code, result.stdout), (4, "inner\nouter\n"), "exit code and output")


@check(needs=("pause",))
async def pausing_again_and_again_works(lab: Lab) -> None:
    """Ten cycles leave the box and its processes as they were."""
    box = await lab.box()
    await lab.ok(box, f"({CLOCK}) > /tmp/clock 2>&1 &")
    for _ in range(10):
        await _pause_for(box, 0)
        await lab.require_growing(box, "/tmp/clock", "the clock")


@check(needs=("pause",))
async def a_paused_box_can_be_closed(lab: Lab) -> None:
    """Stopped processes do not hold up the end."""
    box = await lab.box()
    await lab.ok(box, f"({CLOCK}) > /tmp/clock 2>&1 &")
    await pausable(box).pause()
    with lab.promptly("closing a paused box hangs"):
        await box.close()
    require_equal(await box.status(), "stopped", "the status")


def pausable(box: Box) -> SupportsPause:
    """The box, as one that can pause; a failure of the check where it cannot."""
    if not isinstance(box, SupportsPause):
        raise CheckFailed("the provider claims 'pause', but its boxes lack the methods")
    return box


async def _pause_for(box: Box, seconds: float) -> None:
    await pausable(box).pause()
    await anyio.sleep(seconds)
    await pausable(box).resume()


def _longest_gap_s(clock: bytes) -> float:
    times = [float(line) for line in clock.split(b"\n")[:-1]]
    return max((later - earlier for earlier, later in pairwise(times)), default=0.0)
