"""Background processes: they outlive their command, and hold nobody up."""

from __future__ import annotations

import anyio

from swe_sdk.testing.check import check
from swe_sdk.testing.checks.output import HANDSHAKE
from swe_sdk.testing.checks.timeouts import TICK, TICKS
from swe_sdk.testing.expect import require, require_equal, require_exit
from swe_sdk.testing.lab import Lab


@check()
async def a_background_process_stays_alive(lab: Lab) -> None:
    """A server that one command starts is there for the next ones."""
    box = await lab.box()
    await lab.ok(box, f"({TICK}) > /dev/null 2>&1 &")
    for _ in range(2):
        await lab.require_growing(box, TICKS, "the background process")


@check()
async def a_background_process_does_not_hold_up_its_command(lab: Lab) -> None:
    """``exec`` returns when the command ends, although a child still holds its output; what was printed is all there.

    Waiting for the pipe instead makes every "start the server" call hang until its timeout.
    """
    box = await lab.box()
    begin = anyio.current_time()
    result = await lab.run(box, "sleep 20 & echo started; exit 3")
    took_s = anyio.current_time() - begin
    require_exit(result, 3)
    require_equal(result.stdout, "started\n", "standard output")
    require(took_s < 5, f"it took {took_s:.1f} s, with `sleep 20` in the background")


@check()
async def a_background_process_may_go_on_printing(lab: Lab) -> None:
    """Output of a process whose command is over goes nowhere, and neither ends nor blocks it: servers log things."""
    box = await lab.box()
    chatty = f"while :; do head -c 10000 /dev/zero || exit; echo x >&2 || exit; echo tick >> {TICKS}; sleep 0.02; done"
    await lab.ok(box, f"({chatty}) &")
    while await lab.size(box, TICKS) < 30 * len("tick\n"):  # far more than a pipe holds
        await lab.require_growing(box, TICKS, "a background process that prints")


@check()
async def a_background_process_can_be_stopped_later(lab: Lab) -> None:
    """Its pid means the same to every command of the box."""
    box = await lab.box()
    pid = (await lab.ok(box, f"({TICK}) > /dev/null 2>&1 & echo $!")).stdout.strip()
    await lab.require_growing(box, TICKS, "the background process")
    await lab.ok(box, f"kill {pid}")
    await lab.require_stopped(box, TICKS, "the background process after its kill")


@check()
async def a_long_command_does_not_hold_up_others(lab: Lab) -> None:
    """While one command runs, others start and end, and files can be read and written."""
    box = await lab.box()
    async with lab.running(box, f"{HANDSHAKE}; echo let go") as long:
        await lab.wait_for_file(box, "/tmp/started", "a running command holds up others")
        with lab.promptly("a running command holds up others"):
            require_equal((await lab.ok(box, "echo quick")).stdout, "quick\n", "the other command's output")
            await box.write("/tmp/go", b"go")
            require_equal(await box.read("/tmp/go"), b"go", "a file read meanwhile")
    require_equal(long.need().stdout, "let go\n", "the long command's output")


@check()
async def orphans_are_reaped(lab: Lab) -> None:
    """Processes whose parents have gone leave no zombies: they would use up the box's process ids."""
    box = await lab.box()
    await lab.ok(box, "i=0; while [ $i -lt 40 ]; do (sleep 0.05 & ); i=$((i+1)); done")
    zombies = 'for s in /proc/[0-9]*/stat; do read -r l < "$s"; case "$l" in *") Z "*) echo "$l";; esac; done'
    with lab.promptly("zombies stay"):
        while (await lab.run(box, zombies)).stdout:
            await anyio.sleep(0.05)


@check()
async def background_processes_of_one_command_do_not_disturb_the_next(lab: Lab) -> None:
    """What is left in the background prints into its own command only."""
    box = await lab.box()
    await lab.ok(box, "(while :; do echo noise; echo noise >&2; sleep 0.02; done) &")
    result = await lab.ok(box, "sleep 0.3; echo mine")
    require_equal((result.stdout, result.stderr), ("mine\n", ""), "the next command's output")
