"""Boxes come and go: promptly, completely, and with an honest status."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from swe_sdk.errors import CreateFailed, PrerequisiteError, SandboxClosed, SandboxLost
from swe_sdk.sandbox.contract import (
    Box,
    SandboxProvider,
    SupportsListen,
    SupportsPause,
    SupportsPing,
    SupportsProcesses,
    SupportsSnapshots,
)
from swe_sdk.testing.check import check
from swe_sdk.testing.expect import NotApplicable, refusal, require, require_equal
from swe_sdk.testing.lab import Lab, unique
from swe_sdk.testing.this_machine import is_on_a_command_line, open_descriptors

BUSY_LOOPS = "i=0; while [ $i -lt 4 ]; do (while :; do :; done) & i=$((i+1)); done"
FORK_STORM = "i=0; while [ $i -lt 20 ]; do (while :; do (:) & (:) & wait; done) & i=$((i+1)); done"
"""Processes that start and end all the time: a list of them is old before it is read."""


@check()
async def the_probe_says_that_it_works(lab: Lab) -> None:
    """``probe`` tries it for real; where it works it says so, under the provider's own name, and it answers a ping."""
    health = await lab.provider.probe()
    require(health.works, f"it says it does not work: {health.reason} ({health.remedy})")
    require_equal(health.provider, lab.provider.name, "the name in the health report")
    if isinstance(lab.provider, SupportsPing):
        await lab.provider.ping()


@check()
async def capabilities_are_there(lab: Lab) -> None:
    """What is claimed can be called, so that callers who ask first are never disappointed."""
    require(isinstance(lab.provider, SandboxProvider), "it lacks methods of SandboxProvider")
    box = await lab.box()
    require(isinstance(box, Box), "its boxes lack methods of Box")
    protocols = {"pause": SupportsPause, "processes": SupportsProcesses, "listen": SupportsListen}
    for capability, protocol in protocols.items():
        claimed = capability in lab.provider.capabilities
        require(not claimed or isinstance(box, protocol), f"{capability} is claimed, but boxes lack the methods")
    claimed = "snapshots" in lab.provider.capabilities
    require(not claimed or isinstance(lab.provider, SupportsSnapshots), "snapshots are claimed, but the methods lack")


@check()
async def a_new_box_is_running(lab: Lab) -> None:
    """It can be used at once, knows what it was made from, and shares its id with no other."""
    first, second = await lab.box(), await lab.box(labels={"a": "b"})
    require_equal(await first.status(), "running", "the status")
    require(first.id and first.id != second.id, f"two boxes are named {first.id!r}")
    require_equal(second.spec.labels, {"a": "b"}, "labels in the spec of the box")


@check()
async def a_closed_box_is_stopped(lab: Lab) -> None:
    """Closing may be repeated, also at the same time, and ``status`` says ``stopped``."""
    box = await lab.box()
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(box.close)
    await box.close()
    require_equal(await box.status(), "stopped", "the status")


@check()
async def a_closed_box_refuses_everything(lab: Lab) -> None:
    """Using it is ``SandboxClosed``: the caller's mistake, not a lost sandbox that ought to be masked and retried."""
    box, local = await lab.box(), lab.scratch / "f"
    local.write_bytes(b"")
    await box.close()
    uses: dict[str, Callable[[], Awaitable[object]]] = {
        "exec": lambda: box.exec("true", timeout_s=5),
        "read": lambda: box.read("/etc/hostname"),
        "write": lambda: box.write("/tmp/f", b""),
        "upload": lambda: box.upload(local, "/tmp/f"),
        "download": lambda: box.download("/etc/hostname", lab.scratch / "g"),
    }
    for name, use in uses.items():
        with refusal(f"{name} after close", SandboxClosed):
            await use()


@check()
async def closing_is_prompt_under_busy_loops(lab: Lab) -> None:
    """Programs that use all processors do not hold up the end."""
    await _closes_promptly(lab, BUSY_LOOPS)


@check()
async def closing_is_prompt_under_a_fork_storm(lab: Lab) -> None:
    """Programs that fork all the time do not outrun the end."""
    await _closes_promptly(lab, FORK_STORM)


@check()
async def closing_ends_a_command_in_flight(lab: Lab) -> None:
    """A pending ``exec`` ends promptly, as lost or closed: it must neither hang nor invent an exit code."""
    box = await lab.box()
    with lab.promptly("a command in flight outlives its box"):
        async with lab.running(box, "touch /tmp/started; sleep 60") as pending:
            await lab.wait_for_file(box, "/tmp/started")
            await box.close()
    if pending.result is not None:
        require_equal((pending.result.status, pending.result.exit_code), ("lost", None), "status and exit code")
    else:
        require(isinstance(pending.error, SandboxClosed | SandboxLost), f"exec raised {pending.error!r}")


@check()
async def closing_leaves_no_process(lab: Lab) -> None:
    """Daemons in sessions of their own die with their box: leaked ones hold memory and processors for weeks."""
    box, mark = await lab.box(), unique()
    loop = "echo > /tmp/looping; while :; do sleep 0.1; done"
    await lab.ok(box, f"(env -i /bin/sh -c '{loop}' {mark} > /dev/null 2>&1 & )")
    await lab.wait_for_file(box, "/tmp/looping")  # before, it may be between two programs, and have no command line
    if not is_on_a_command_line(mark):
        raise NotApplicable("the processes of a box cannot be seen from here")
    await box.close()
    require(not is_on_a_command_line(mark), "a process of the box is alive after close")


@check()
async def many_boxes_live_at_once(lab: Lab) -> None:
    """Twenty boxes can be made at the same time, and each is its own."""
    outputs: dict[int, str] = {}
    made: list[int] = []
    everyone = anyio.Event()

    async def one(number: int) -> None:
        box = await lab.box()
        await lab.ok(box, f"echo {number} > /tmp/mine")
        made.append(number)
        if len(made) == lab.settings.parallel_boxes:
            everyone.set()
        await everyone.wait()
        outputs[number] = (await lab.ok(box, "cat /tmp/mine")).stdout
        await box.close()

    async with anyio.create_task_group() as tasks:
        for number in range(lab.settings.parallel_boxes):
            tasks.start_soon(one, number)
    require_equal(outputs, {n: f"{n}\n" for n in range(lab.settings.parallel_boxes)}, "what each box holds")


@check()
async def boxes_can_be_made_and_closed_for_ever(lab: Lab) -> None:
    """A hundred thousand boxes are made in one training run: none may cost a descriptor of this process."""
    await (await lab.box()).close()
    before = open_descriptors()
    for _ in range(10):
        box = await lab.box()
        await lab.ok(box, "true")
        await box.close()
    after = open_descriptors()
    require(after <= before + 3, f"10 boxes left {after - before} descriptors open")


@check()
async def a_cancelled_create_does_no_harm(lab: Lab) -> None:
    """Giving up while a box is being made leaves the provider able to make the next one."""
    for delay_s in (0.0, 0.001, 0.003, 0.01, 0.03):
        with anyio.move_on_after(delay_s):
            await lab.box()
    await lab.ok(await lab.box(), "true")


@check()
async def an_unknown_image_is_a_typed_error(lab: Lab) -> None:
    """It is ``CreateFailed``, or a prerequisite where the provider knows no images: never a box of something else."""
    with refusal("creating from an image that does not exist", CreateFailed, PrerequisiteError):
        await lab.box(image="localhost/swe-sdk/no-such-image:none")


@check()
async def closing_the_provider_closes_its_boxes(lab: Lab) -> None:
    """``aclose`` leaves no box behind, and may be repeated."""
    provider = lab.new_provider()
    box = await provider.create(lab.settings.spec)
    await lab.ok(box, "true")
    await provider.aclose()
    await provider.aclose()
    require_equal(await box.status(), "stopped", "the status of a box of a closed provider")
    with refusal("exec after the provider was closed", SandboxClosed):
        await box.exec("true", timeout_s=5)


async def _closes_promptly(lab: Lab, script: str) -> None:
    box = await lab.box()
    await lab.ok(box, f"({script}) > /dev/null 2>&1 &")
    await anyio.sleep(0.3)
    with lab.promptly("closing hangs"):
        await box.close()
    require_equal(await box.status(), "stopped", "the status")
