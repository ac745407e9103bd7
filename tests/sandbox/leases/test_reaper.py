"""The reaper removes what the dead have left, all of it, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import anyio
import pytest

from swe_sdk.sandbox import reaper
from swe_sdk.sandbox.leases import Lease, LeaseBook
from swe_sdk.sandbox.reaper import OwnedBox, ReapReport, SupportsReaping, reap
from tests.sandbox.leases.engines import DirectoryEngine, actions, make_box
from tests.sandbox.leases.programs import THREE_BOXES
from tests.shared import lacking

pytestmark = pytest.mark.anyio


def edit(book: LeaseBook, lease: Lease, **changes: object) -> Lease:
    """Rewrite a record, as if another owner had written it, who gave no sign of life since ``renewed_at``."""
    changed = Lease.model_validate({**lease.model_dump(), **changes})
    book._path(lease).unlink()
    book._path(changed).parent.mkdir(exist_ok=True)
    book._path(changed).write_text(changed.model_dump_json())
    return changed


def owner_like(lease: Lease, **changes: object):
    return lease.owner.model_copy(update=changes)


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


# -- who is touched, and who is not ------------------------------------------------------------------------------------


async def test_boxes_of_a_killed_process_go_and_those_of_a_live_sibling_stay(start, book, engine):
    victim, sibling = start(THREE_BOXES), start(THREE_BOXES)
    dead, alive = victim.heard()["leases"], sibling.heard()["leases"]
    mine = make_box(book, engine)
    assert (await reap(book, [engine])).items == ()
    victim.kill()

    before = files_below(book.directory) | files_below(engine.directory)
    dry = await reap(book, [engine], dry_run=True)
    assert actions(dry) == dict.fromkeys(dead, "would_remove")
    assert dry.live == 4
    assert files_below(book.directory) | files_below(engine.directory) == before

    report = await reap(book, [engine])
    assert actions(report) == dict.fromkeys(dead, "removed")
    assert report.live == 4
    assert "is dead" in report.items[0].reason
    assert engine.boxes() == {f"{lease}.box" for lease in (*alive, mine.id)}
    assert sorted(lease.id for lease in book.leases()) == sorted((*alive, mine.id))
    assert len(list(book.directory.glob("*/"))) == 2, "the dead one's directory is gone as well"
    assert (await reap(book, [engine])).items == ()


@pytest.mark.parametrize(
    ("moment", "left"),
    [
        ("book.intend(engine.name, settings=engine.settings); die()", 0),
        ("l = book.intend(engine.name, settings=engine.settings); engine.create(l.id, l.labels()); die()", 1),
        ("make_box(book, engine); die()", 1),
        ("l = make_box(book, engine)\nwith book.closing(l): die()", 1),
        ("l = make_box(book, engine)\nwith book.closing(l):\n  (engine.directory / l.handle).unlink()\n  die()", 0),
    ],
    ids=["intended", "made", "live", "closing", "removed"],
)
async def test_a_process_may_be_killed_at_any_moment(start, book, engine, moment, left, monkeypatch):
    program = start(moment)
    program.process.communicate()
    assert program.process.returncode == -9
    assert (len(book.leases()), len(engine.boxes())) == (1, left)
    monkeypatch.setattr(reaper, "_SETTLE_S", 0)
    report = await reap(book, [engine])
    assert list(actions(report).values()) == ["removed"]
    assert (book.leases(), engine.boxes()) == ([], set())


async def test_a_box_that_may_still_be_coming_is_waited_for(start, book, engine):
    start("book.intend(engine.name, settings=engine.settings); die()").process.communicate()
    (lease,) = book.leases()
    report = await reap(book, [engine])
    assert actions(report) == {lease.id: "kept"}
    assert "still be making it" in report.items[0].reason
    engine.create(lease.id, lease.labels())  # the engine was slow
    assert actions(await reap(book, [engine])) == {lease.id: "removed"}
    assert engine.boxes() == set()


async def test_a_live_owners_box_is_never_touched_however_old(book, engine):
    lease = make_box(book, engine)
    year = 366 * 86400.0
    old = edit(book, lease, created_at=lease.created_at - year, renewed_at=lease.renewed_at - year)
    os.utime(book._path(old).parent / "alive", (1000, 1000))
    report = await reap(book, [engine], grace_s=0)
    assert (report.items, report.live) == ((), 1)
    assert engine.boxes() == {lease.handle}


@pytest.mark.parametrize("changes", [{"started": 1}, {"boot_id": "before the last boot"}])
async def test_a_recycled_pid_and_an_earlier_boot_are_dead_owners(book, engine, changes):
    lease = edit(book, make_box(book, engine), owner=owner_like(make_box(book, engine), **changes))
    if "boot_id" in changes and lease.owner.host.endswith("/-"):
        pytest.skip("this machine has no id: another boot may be another machine's")
    report = await reap(book, [engine])
    assert (actions(report), report.live) == ({lease.id: "removed"}, 1)
    assert lease.handle not in engine.boxes()


@pytest.mark.parametrize(("remote", "age_s", "goes"), [(True, 1e6, True), (True, 600, False), (False, 1e6, False)])
async def test_an_owner_on_another_machine_counts_by_its_lease(book, engine, remote, age_s, goes):
    """And only where the engine is the same from here: a box of that name on this machine's engine is another box."""
    lease = make_box(book, engine)
    elsewhere = owner_like(lease, host="elsewhere/1", boot_id="other")
    lease = edit(book, lease, owner=elsewhere, remote=remote, renewed_at=time.time() - age_s)
    report = await reap(book, [engine])
    assert actions(report) == {lease.id: "removed" if goes else "kept"}
    assert (lease in book) is not goes
    assert engine.boxes() == (set() if goes else {lease.handle})


async def test_an_expired_owner_elsewhere_that_holds_its_lock_is_alive(start, book, engine):
    """As on a shared file system that passes locks on."""
    lease = make_box(book, engine)
    elsewhere = owner_like(lease, host="elsewhere/1", boot_id="other")
    lease = edit(book, lease, owner=elsewhere, remote=True, renewed_at=0.0)
    holder = start(f"""
        import fcntl
        file = open({str(book._path(lease).parent / "alive")!r}, "w")
        fcntl.flock(file, fcntl.LOCK_EX)
        os.utime(file.fileno(), (1000, 1000))
        say()
        wait()
    """)
    holder.heard()
    assert (await reap(book, [engine])).live == 1
    holder.kill()
    assert actions(await reap(book, [engine])) == {lease.id: "removed"}


async def test_an_owner_in_another_pid_namespace_is_known_by_its_lock(start, book, engine):
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-Urpf", "true"], check=False).returncode:
        lacking("no pid namespace can be made here")
    program = start(THREE_BOXES, prefix=("unshare", "-Urpf", "--kill-child", "--mount-proc"))
    program.heard()
    assert {lease.owner.pid for lease in book.leases()} == {1}
    assert (await reap(book, [engine])).live == 3
    program.kill()
    with anyio.fail_after(10):
        while (await reap(book, [engine])).live:
            await anyio.sleep(0.01)  # the process in the namespace dies a moment later than unshare
    assert (book.leases(), engine.boxes()) == ([], set())


# -- boxes without records --------------------------------------------------------------------------------------------


async def test_boxes_without_a_record_go_by_their_labels(start, book, engine):
    victim = start(THREE_BOXES)
    dead = victim.heard()["leases"]
    mine = make_box(book, engine)
    shutil.rmtree(book.directory)
    engine.create("foreign", {"some": "label"})
    engine.create("garbled", {**mine.labels(), "swe_sdk.lease": "garbled", "swe_sdk.owner": "{}"})
    victim.kill()
    report = await reap(book, [engine])
    assert actions(report) == {**dict.fromkeys(dead, "removed"), "garbled": "kept"}
    assert report.live == 1
    assert engine.boxes() == {mine.handle, "foreign.box", "garbled.box"}


async def test_a_provider_may_know_better_whose_a_box_is(book, engine):
    class Knowing(DirectoryEngine):
        async def owned(self):
            return [OwnedBox(handle="a.box", is_orphan=True), OwnedBox(handle="b.box", is_orphan=False)]

    for name in "ab":
        engine.create(name, {})
    report = await reap(book, [Knowing(str(engine.directory))])
    assert [(item.handle, item.action) for item in report.items] == [("a.box", "removed")]
    assert (report.live, engine.boxes()) == (1, {"b.box"})


async def test_both_boxes_of_a_lost_reply_go(start, book, engine):
    start("""
        lease = book.intend(engine.name, settings=engine.settings)
        engine.create(lease.id, lease.labels())
        book.confirm(lease, engine.create(lease.id + "-again", lease.labels()))
        die()
    """).process.communicate()
    assert len(engine.boxes()) == 2
    report = await reap(book, [engine])
    assert list(actions(report).values()) == ["removed"]
    assert engine.boxes() == set()


def test_directories_that_say_nothing_are_cleared_away_once_nobody_holds_them(start, book):
    program = start("book.intend('x'); book.keep(book.mine()[0]); say(); wait()")
    program.heard()
    book.tidy()
    assert len(list(book.directory.glob("*/"))) == 1
    program.kill()
    book.tidy()
    assert list(book.directory.glob("*/")) == []


def test_the_report_says_it_in_a_line():
    report = ReapReport.model_validate_json(
        json.dumps({"dry_run": False, "live": 2, "items": [{**ITEM, "action": a} for a in ("removed", "kept")]})
    )
    assert report.summary == "1 removed, 0 failed, 1 kept, 2 of live programs left alone"
    assert isinstance(DirectoryEngine("/tmp"), SupportsReaping)


ITEM = {"provider": "p", "lease": None, "handle": "h", "reason": "r"}
