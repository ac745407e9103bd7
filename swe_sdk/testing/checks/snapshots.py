"""Snapshots: a frozen box, forked as often as one likes, in time that does not grow with what is in it."""

from __future__ import annotations

from contextlib import suppress

import anyio

from swe_sdk.errors import SandboxClosed, SnapshotBusy, SnapshotNotFound
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.contract import Box, Capability, Snapshot
from swe_sdk.testing.check import check
from swe_sdk.testing.checks.network import CLIENTS, listenable, served
from swe_sdk.testing.checks.pause import pausable
from swe_sdk.testing.expect import NotApplicable, refusal, require, require_equal
from swe_sdk.testing.lab import Lab

SNAPSHOTS: tuple[Capability, ...] = ("snapshots",)
FURNISH = r"""
mkdir -p /data/empty /data/full && cd /data
printf 'a\0b\377' > full/binary && : > full/nothing && printf '#!/bin/sh\necho ran\n' > program
chmod 750 program && chmod 600 full/binary && chmod 1777 empty
ln -s full/binary link && ln -s /nowhere dangling && ln full/binary full/hard && mkfifo fifo
printf name > "full/$(printf 'odd \377\nname')"
echo tmp > /tmp/kept && echo home > "$HOME/kept" && echo workdir > "$OLDPWD/kept"
"""
DESCRIBE = r"""
cd /data; find . -exec stat -c '%n %F %a %Y' {} + | LC_ALL=C sort; find . -type f -exec cksum {} + | LC_ALL=C sort
readlink link dangling; cat link /tmp/kept "$HOME/kept" "$OLDPWD/kept"; ./program
"""
"""Names, kinds, modes, times, sizes, contents and targets of everything."""


@check(needs=SNAPSHOTS)
async def a_fork_has_every_file(lab: Lab) -> None:
    """Contents, modes, times, links, empty directories, FIFOs and odd names are kept, in /tmp and home too."""
    box = await lab.box()
    await lab.ok(box, FURNISH)
    wanted = (await lab.ok(box, DESCRIBE)).stdout_bytes
    fork = await lab.fork(await lab.snapshot(box))
    require_equal((await lab.ok(fork, DESCRIBE)).stdout_bytes, wanted, "the files of the fork")
    require(wanted.count(b"\n") > 20 and b"odd \xff" in wanted, "the check has described too little")


@check(needs=SNAPSHOTS)
async def a_fork_misses_what_was_deleted(lab: Lab) -> None:
    """Deleted files and directories stay deleted, and a directory made anew does not show what the old one held."""
    box = await _furnished(
        lab, "mkdir -p /data/gone /data/again; echo x > /data/gone/f; echo x > /data/again/old; echo x > /data/f"
    )
    second = await lab.fork(await lab.snapshot(box))
    await lab.ok(second, "cd /data && rm -r gone f again && mkdir again && echo y > again/new && ls / > /dev/null")
    third = await lab.fork(await lab.snapshot(second))
    require_equal(
        (await lab.ok(third, "cd /data && find . | LC_ALL=C sort")).stdout, ".\n./again\n./again/new\n", "files"
    )


@check(needs=SNAPSHOTS)
async def a_fork_can_delete_parts_of_the_system(lab: Lab) -> None:
    """What belongs to the base of the box can be hidden by a snapshot as well."""
    box = await lab.box()
    if not (await lab.run(box, "mv /etc/passwd /tmp/moved 2> /dev/null")).ok:
        raise NotApplicable("no file of the system can be moved away here")
    fork = await lab.fork(await lab.snapshot(box))
    await lab.ok(fork, "[ ! -e /etc/passwd ] && [ -s /tmp/moved ]")


@check(needs=SNAPSHOTS)
async def changes_stay_where_they_are_made(lab: Lab) -> None:
    """Forks, their origin and the snapshot do not see each other's later changes: files, modes, deletions."""
    box = await _furnished(lab, "mkdir /data; echo old > /data/f; echo old > /data/g; chmod 644 /data/f")
    snapshot = await lab.snapshot(box)
    changed, untouched = await lab.fork(snapshot), await lab.fork(snapshot)
    await lab.ok(changed, "echo fork >> /data/f; chmod 600 /data/f; rm /data/g; echo new > /data/n")
    await lab.ok(box, "echo origin > /data/g; mv /data/f /data/moved")
    for fork in (untouched, await lab.fork(snapshot)):
        await _require_files(lab, fork, "old\nold\n", "f g")
        require_equal((await lab.ok(fork, "stat -c %a /data/f")).stdout, "644\n", "the mode")
    require_equal(
        (await lab.ok(changed, "cat /data/f /data/n; ls /data")).stdout, "old\nfork\nnew\nf\nn\n", "the changed fork"
    )


@check(needs=SNAPSHOTS)
async def a_box_goes_on_after_a_snapshot(lab: Lab) -> None:
    """The box is the same afterwards: its files, its id, its status, and it can be frozen again."""
    box = await _furnished(lab, "mkdir /data; echo 1 > /data/f")
    identity = box.id
    first = await lab.snapshot(box)
    await lab.ok(box, "cat /data/f; echo 2 >> /data/f")
    second = await lab.snapshot(box)
    await lab.ok(box, "echo 3 >> /data/f")
    require_equal((await lab.ok(box, "cat /data/f")).stdout, "1\n2\n3\n", "the box")
    require_equal((box.id, await box.status()), (identity, "running"), "id and status")
    require(first.id != second.id, "two snapshots share an id")
    await _require_files(lab, await lab.fork(first), "1\n", "f")
    await _require_files(lab, await lab.fork(second), "1\n2\n", "f")


@check(needs=SNAPSHOTS)
async def forks_can_be_forked(lab: Lab) -> None:
    """A chain of ten holds what every link has added: a long rollout is frozen many times."""
    box, wanted = await lab.box(), ""
    for number in range(10):
        await lab.ok(box, f"echo {number} >> /tmp/chain; echo {number} > /tmp/link{number}")
        wanted += f"{number}\n"
        box = await lab.fork(await lab.snapshot(box))
    require_equal((await lab.ok(box, "cat /tmp/chain")).stdout, wanted, "the file that grew")
    require_equal((await lab.ok(box, "cat /tmp/link?")).stdout, wanted, "the files that were added")


@check(needs=SNAPSHOTS)
async def directories_can_be_renamed_in_a_fork(lab: Lab) -> None:
    """``mv`` of a directory that lies in a frozen layer moves all of it."""
    box = await _furnished(lab, "mkdir -p /data/old/sub; echo x > /data/old/sub/f")
    fork = await lab.fork(await lab.snapshot(box))
    await lab.ok(
        fork,
        "mv /data/old /data/new && [ ! -e /data/old ] && cat /data/new/sub/f && mkdir /data/old && rmdir /data/old",
    )


@check(needs=SNAPSHOTS, limit_s=120)
async def a_fork_costs_the_same_whatever_it_holds(lab: Lab) -> None:
    """Making a box from 64 MB in hundreds of files takes no longer than from nothing: forks share, they do not copy.

    What copying them costs is measured, and a fork may not even cost half of that more.
    """
    box = await lab.box()
    empty = await lab.snapshot(box)
    await lab.ok(box, "mkdir -p /data/small; head -c 67108864 /dev/urandom > /data/large")
    await lab.ok(box, "head -c 2048000 ../large | split -b 4096 -a 4", cwd="/data/small")
    copy_s = (await lab.ok(box, "cp -r /data /copy")).duration_s
    await lab.ok(box, "rm -r /copy")
    full = await lab.snapshot(box)
    times = [(await _fork_s(lab, empty), await _fork_s(lab, full)) for _ in range(5)]
    empty_s, full_s = (min(column) for column in zip(*times, strict=True))
    message = f"a fork of nothing took {empty_s:.3f} s, one of 64 MB {full_s:.3f} s; a copy takes {copy_s:.3f} s"
    require(full_s - empty_s < max(copy_s / 2, 0.02), message)


@check(needs=SNAPSHOTS)
async def many_forks_at_once(lab: Lab) -> None:
    """One environment is forked for many sandboxes at the same time."""
    snapshot = await _frozen(lab, "echo shared > /tmp/f")

    async def one(number: int) -> None:
        fork = await lab.fork(snapshot)
        result = await lab.ok(fork, f"echo {number} >> /tmp/f; cat /tmp/f")
        require_equal(result.stdout, f"shared\n{number}\n", "the file of a fork")

    async with anyio.create_task_group() as tasks:
        for number in range(lab.settings.parallel_boxes // 2):
            tasks.start_soon(one, number)


@check(needs=SNAPSHOTS)
async def a_busy_box_is_not_frozen(lab: Lab) -> None:
    """With a live process it is ``SnapshotBusy`` and nothing is harmed; once the process is gone it works."""
    box = await lab.box()
    pid = (await lab.ok(box, "sleep 600 > /dev/null 2>&1 & echo $!")).stdout.strip()
    with refusal("a snapshot with a live process", SnapshotBusy):
        await lab.snapshot(box)
    await lab.ok(box, f"kill {pid} && while [ -e /proc/{pid} ]; do sleep 0.02; done; echo x > /tmp/f")
    await lab.ok(await lab.fork(await lab.snapshot(box)), "cat /tmp/f")


@check(needs=(*SNAPSHOTS, "pause"))
async def a_paused_box_is_frozen_in_the_middle_of_a_command(lab: Lab) -> None:
    """The command notices nothing; a fork has what it had written by then, and nothing of it runs there."""
    box = await lab.box()
    async with lab.running(box, "echo one > /tmp/f; sleep 0.5; echo two >> /tmp/f; echo over") as pending:
        await lab.wait_for_file(box, "/tmp/f")
        await pausable(box).pause()
        fork = await lab.fork(await lab.snapshot(box))
        await pausable(box).resume()
    require_equal(pending.need().stdout, "over\n", "what the command printed after the pause")
    require_equal((await lab.ok(fork, "cat /tmp/f")).stdout, "one\n", "the file in the fork")


@check(needs=(*SNAPSHOTS, "listen"), tools=CLIENTS)
async def a_listener_outlives_a_snapshot(lab: Lab) -> None:
    """What this process serves inside a box is still reached after the box was frozen, whether it was used or idle."""
    box = await lab.box()
    port, listener = await listenable(box).listen()
    with listener:
        for _ in range(2):
            await lab.ok(box, "date > /tmp/f")
            await lab.snapshot(box)
            await served(lab, box, listener, port)


@check(needs=SNAPSHOTS)
async def commands_and_snapshots_do_not_disturb_each_other(lab: Lab) -> None:
    """A command that comes while the box is being frozen waits for it, or the snapshot is ``SnapshotBusy``.

    It must not be told that the sandbox is lost: that would be a mask out of nothing.
    """
    box = await lab.box()

    async def work() -> None:
        for number in range(20):
            await lab.ok(box, f"echo {number} >> /tmp/f")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        for _ in range(5):
            with suppress(SnapshotBusy):
                await lab.snapshot(box)
            await anyio.sleep(0.01)
    lines = (await lab.ok(box, "cat /tmp/f")).stdout.splitlines()
    require_equal(lines, [str(number) for number in range(20)], "what the commands wrote")


@check(needs=SNAPSHOTS)
async def a_snapshot_outlives_its_box(lab: Lab) -> None:
    """Closing the box it was taken of changes nothing."""
    box = await _furnished(lab, "mkdir /data; echo kept > /data/f")
    snapshot = await lab.snapshot(box)
    await box.close()
    await _require_files(lab, await lab.fork(snapshot), "kept\n", "f")


@check(needs=SNAPSHOTS)
async def deleting_a_snapshot_keeps_its_forks(lab: Lab) -> None:
    """Running forks, and snapshots taken of them, keep the layers they need; a new fork is ``SnapshotNotFound``."""
    snapshot = await _frozen(lab, "mkdir /data; echo kept > /data/f")
    fork = await lab.fork(snapshot)
    later = await lab.snapshot(fork)
    await lab.snapshots.delete_snapshot(snapshot.id)
    await _require_files(lab, fork, "kept\n", "f")
    with refusal("a fork of a deleted snapshot", SnapshotNotFound):
        await lab.fork(snapshot)
    await fork.close()
    await _require_files(lab, await lab.fork(later), "kept\n", "f")


@check(needs=SNAPSHOTS)
async def an_unknown_snapshot_is_said_to_be_unknown(lab: Lab) -> None:
    """Forking one is ``SnapshotNotFound``, whatever its name; deleting one is nothing."""
    for name in ("no-such-snapshot", "../../etc", "x/y", ""):
        with refusal(f"a fork of {name!r}", SnapshotNotFound):
            await lab.box(snapshot=name, image=None)
        await lab.snapshots.delete_snapshot(name)


@check(needs=SNAPSHOTS)
async def snapshots_are_listed(lab: Lab) -> None:
    """``snapshots`` names each until it is deleted, with its provider and the time it was made."""
    snapshot = await _frozen(lab, "echo x > /tmp/f")
    listed = {found.id: found for found in await lab.snapshots.snapshots()}
    require(snapshot.id in listed, "a new snapshot is not listed")
    require_equal(listed[snapshot.id], snapshot, "what is listed")
    require_equal(snapshot.provider, lab.provider.name, "its provider")
    require(1.6e9 < snapshot.created_at < 1e11, f"its time is {snapshot.created_at}, which is not in Unix seconds")
    await lab.snapshots.delete_snapshot(snapshot.id)
    require(snapshot.id not in {found.id for found in await lab.snapshots.snapshots()}, "a deleted snapshot is listed")


@check(needs=SNAPSHOTS)
async def a_snapshot_gets_the_id_that_was_asked_for(lab: Lab) -> None:
    """It is written down before there is a snapshot: else one whose maker is killed is found by nobody."""
    wanted = new_id("snap")
    box = await _furnished(lab, "echo kept > /tmp/f")
    snapshot = await lab.snapshot(box, snapshot_id=wanted)
    require_equal(snapshot.id, wanted, "the id of the snapshot")
    require(wanted in {one.id for one in await lab.snapshots.snapshots()}, "it is not listed by that id")
    fork = await lab.fork(snapshot)
    require_equal((await lab.ok(fork, "cat /tmp/f")).stdout, "kept\n", "the file in a fork of it")


@check(needs=SNAPSHOTS)
async def a_closed_box_cannot_be_frozen(lab: Lab) -> None:
    """It is ``SandboxClosed``, not an empty snapshot."""
    box = await _furnished(lab, "echo x > /tmp/f")
    await box.close()
    with refusal("a snapshot of a closed box", SandboxClosed):
        await lab.snapshot(box)


@check(needs=SNAPSHOTS, tools=("git",))
async def git_sees_a_clean_tree_in_a_fork(lab: Lab) -> None:
    """A committed repository is clean in a fork, although inodes or times of changed files may have moved."""
    script = (
        "git init -q . && git config user.name a && git config user.email a@b && echo 1 > f && echo 1 > g"
        " && git add . && git commit -q -m one && echo 2 > f && git commit -q -a -m two"
    )
    fork = await lab.fork(await _frozen(lab, script))
    result = await lab.ok(fork, "git status --porcelain && git log --format=%s")
    require_equal(result.stdout, "two\none\n", "what git says")


async def _furnished(lab: Lab, script: str) -> Box:
    box = await lab.box()
    await lab.ok(box, script)
    return box


async def _frozen(lab: Lab, script: str) -> Snapshot:
    box = await _furnished(lab, script)
    snapshot = await lab.snapshot(box)
    await box.close()
    return snapshot


async def _require_files(lab: Lab, box: Box, content: str, names: str) -> None:
    """/data holds exactly these files, and they say ``content`` one after the other."""
    result = await lab.ok(box, "cd /data && cat * && echo && echo *")
    require_equal(result.stdout, f"{content}\n{names}\n", "the files")


async def _fork_s(lab: Lab, snapshot: Snapshot) -> float:
    """Seconds from the call to the end of a first command."""
    begin = anyio.current_time()
    fork = await lab.fork(snapshot)
    await lab.ok(fork, "true")
    took_s = anyio.current_time() - begin
    await fork.close()
    return took_s
