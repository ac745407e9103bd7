"""The reaper removes what the dead have left, all of it, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import anyio
import pytest

from swe_sdk.sandbox import reaper
from swe_sdk.sandbox.leases import Lease, LeaseBook
from swe_sdk.sandbox.reaper import OwnedBox, PeriodicReaper, ReapReport, SupportsReaping, reap, reap_every
from tests.sandbox.engines import DirectoryEngine, make_box, restore
from tests.sandbox.programs import starting

pytestmark = pytest.mark.anyio


@pytest.fixture
def book(tmp_path):
    return LeaseBook(tmp_path / "book")


@pytest.fixture
def engine(tmp_path):
    return DirectoryEngine(str(tmp_path / "engine"))


@pytest.fixture
def start(tmp_path):
    with starting(tmp_path) as start:
        yield start


def edit(book: LeaseBook, lease: Lease, **changes: object) -> Lease:
    """Rewrite a record, as if another owner had written it, who gave no sign of life since ``renewed_at``."""
    changed = Lease.model_validate({**lease.model_dump(), **changes})
    book._path(lease).unlink()
    book._path(changed).parent.mkdir(exist_ok=True)
    book._path(changed).write_text(changed.model_dump_json())
    return changed


def owner_like(lease: Lease, **changes: object):
    return lease.owner.model_copy(update=changes)


def actions(report: ReapReport) -> dict[str | None, str]:
    return {item.lease: item.action for item in report.items}


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


THREE_BOXES = """
    boxes = [make_box(book, engine) for _ in range(3)]
    say(leases=[box.id for box in boxes])
    wait()
"""


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
        pytest.skip("no pid namespace can be made here")
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


# -- engines that fail ------------------------------------------------------------------------------------------------


async def test_what_could_not_be_removed_is_tried_again_until_it_is_gone(start, book, engine):
    victim = start(THREE_BOXES)
    stuck, *others = victim.heard()["leases"]
    victim.kill()
    refuse = engine.directory / f"{stuck}.box.stuck"
    refuse.touch()
    for failures in (1, 2):
        report = await reap(book, [engine])
        assert actions(report)[stuck] == "failed"
        assert f"{stuck}.box is stuck" in report.of("failed")[0].reason
        (left,) = book.leases()
        assert (left.id, left.state, left.failures) == (stuck, "closing_failed", failures)
        assert "is stuck" in left.last_error
    refuse.unlink()
    assert actions(await reap(book, [engine])) == {stuck: "removed"}
    assert (book.leases(), engine.boxes()) == ([], set())
    assert {f"{lease}.box" for lease in others} <= set(engine.removals())


async def test_what_a_live_owner_could_not_close_is_tried_again(book, engine):
    lease = make_box(book, engine)
    (engine.directory / f"{lease.handle}.stuck").touch()
    with pytest.raises(Exception, match="is stuck"):
        with book.closing(lease):
            await engine.remove(lease.handle)
    assert actions(await reap(book, [engine])) == {lease.id: "failed"}
    (engine.directory / f"{lease.handle}.stuck").unlink()
    assert actions(await reap(book, [engine])) == {lease.id: "removed"}
    assert book.leases() == []


async def test_an_engine_that_hangs_or_breaks_keeps_nobody_else_from_being_cleaned(start, book, engine, monkeypatch):
    class Bad(DirectoryEngine):
        async def remove(self, handle):
            if handle.startswith(hanging):
                await anyio.sleep_forever()
            if handle.startswith(broken):
                raise KeyError(handle)
            await super().remove(handle)

    victim = start(THREE_BOXES)
    hanging, broken, _good = leases = victim.heard()["leases"]
    victim.kill()
    monkeypatch.setattr(reaper, "_REMOVE_CAP_S", 0.1)
    report = await reap(book, [Bad(str(engine.directory))])
    assert [actions(report)[lease] for lease in leases] == ["failed", "failed", "removed"]
    assert {lease.last_error.partition(":")[0] for lease in book.leases()} == {"TimeoutError", "KeyError"}
    assert (await reap(book, [engine])).of("removed")
    assert book.leases() == []


async def test_an_engine_that_does_not_answer_loses_no_record(start, book, engine, tmp_path):
    victim = start(THREE_BOXES)
    dead = victim.heard()["leases"]
    make_box(book, engine)
    (engine.directory / "down").touch()
    report = await reap(book, [engine, DirectoryEngine(str(tmp_path / "other"))])
    assert (report.items, report.live) == ((), 4), "nothing is to be done there"
    assert report.unreachable == {"directory": "the engine does not answer"}
    victim.kill()
    report = await reap(book, [engine])
    assert actions(report) == dict.fromkeys(dead, "failed")
    assert len(book.leases()) == 4
    assert {lease.state for lease in book.leases()} == {"live"}
    (engine.directory / "down").unlink()
    assert len((await reap(book, [engine])).of("removed")) == 3


# -- providers made again from leases ---------------------------------------------------------------------------------


async def test_any_process_can_reap_with_the_settings_in_the_lease(start, book, engine, tmp_path):
    start("""
        second = DirectoryEngine(sys.argv[1] + "/second")
        make_box(book, engine), make_box(book, second)
        die()
    """).process.communicate()
    report = await reap(book, restore=restore)
    assert len(report.of("removed")) == 2
    assert (engine.boxes(), DirectoryEngine(str(tmp_path / "second")).boxes()) == (set(), set())


async def test_a_provider_that_cannot_be_had_is_told(start, book, engine):
    start("""
        for name in ("no-such-provider", "local"):
            book.intend(name, settings={"no": "setting"}, handle="c0ffee")
        make_box(book, engine)
        die()
    """).process.communicate()
    book.intend("no-such-provider")
    report = await reap(book, [engine])
    assert [(item.provider, item.action) for item in report.items] == [
        ("directory", "removed"),
        ("local", "failed"),
        ("no-such-provider", "failed"),
    ]
    assert "no-such-provider" in report.items[2].reason
    assert len(book.leases()) == 3
    assert (await reap(book, [engine], only="directory")).items == ()


# -- several reapers --------------------------------------------------------------------------------------------------


async def test_two_reapers_do_not_disturb_each_other(start, book, engine):
    victims = [start(THREE_BOXES) for _ in range(3)]
    for victim in victims:
        victim.heard()
    maker = start("""
        say()
        while True:
            box = make_box(book, engine)
            assert box.handle in engine.boxes()
            with book.closing(box):
                (engine.directory / box.handle).unlink()
    """)
    maker.heard()
    for victim in victims:
        victim.kill()
    reapers = [
        start("""
            engine.slow_s = 0.05
            report = anyio.run(reap, book, [engine])
            say(removed=len(report.of("removed")), failed=len(report.of("failed")))
        """)
        for _ in range(3)
    ]
    reports = [program.heard() for program in reapers]
    assert sum(report["failed"] for report in reports) == 0
    assert sum(report["removed"] for report in reports) == 9
    assert len(engine.removals()) == len(set(engine.removals())) == 9, "each is removed once"
    assert maker.process.poll() is None
    maker.kill()
    await reap(book, [engine])
    assert (book.leases(), engine.boxes()) == ([], set())


async def test_a_reaper_may_be_killed_as_well(start, book, engine):
    victim = start(THREE_BOXES)
    victim.heard()
    victim.kill()
    killed = start("""
        engine.slow_s = 60
        anyio.run(reap, book, [engine])
    """)
    with anyio.fail_after(20):
        while len(engine.removals()) < 3:
            await anyio.sleep(0.01)
    assert (await reap(book, [engine])).items == (), "it is at work"
    killed.kill()
    assert len((await reap(book, [engine])).of("removed")) == 3
    assert (book.leases(), engine.boxes()) == ([], set())


async def test_a_cancelled_reaper_leaves_its_work_to_the_next(start, book, engine):
    victim = start(THREE_BOXES)
    victim.heard()
    victim.kill()
    engine.slow_s = 60
    with anyio.move_on_after(0.1) as scope:
        await reap(book, [engine])
    assert scope.cancelled_caught
    assert {lease.state for lease in book.leases()} == {"closing_failed"}
    engine.slow_s = 0
    assert len((await reap(book, [engine])).of("removed")) == 3


async def test_reaping_goes_on_where_the_leases_cannot_be_read_for_a_while(start, book, engine, caplog):
    book.directory.touch()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reap_every, 0.02, book, [engine])
        with anyio.fail_after(10):
            while "could not reap" not in caplog.text:
                await anyio.sleep(0.01)
            book.directory.unlink()
            start("make_box(book, engine); die()").process.communicate()
            while book.leases() or engine.boxes():
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


async def test_random_kill_points_leave_nothing_and_hurt_nobody(start, book, engine, monkeypatch):
    """While two other processes reap all the time."""
    sibling = start(THREE_BOXES)
    alive = sibling.heard()["leases"]
    for _ in range(2):
        start("from swe_sdk.sandbox.reaper import reap_every; anyio.run(reap_every, 0.005, book, [engine])")
    start("""
        import random
        chance = random.Random(7)
        for _ in range(200):
            pid = os.fork()
            if not pid:
                while True:
                    box = make_box(book, engine)
                    with book.closing(box):
                        assert box.handle in engine.boxes()
                        (engine.directory / box.handle).unlink()
            time.sleep(chance.random() * 0.02)
            os.kill(pid, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
    """).end()
    monkeypatch.setattr(reaper, "_SETTLE_S", 0)
    with anyio.fail_after(20):
        while len(book.leases()) > 3 or len(engine.boxes()) > 3:  # the others may be at it
            assert not (await reap(book, [engine])).of("failed")
    assert sorted(lease.id for lease in book.leases()) == sorted(alive)
    assert engine.boxes() == {f"{lease}.box" for lease in alive}
    assert sibling.process.poll() is None


async def test_reaping_again_and_again(start, book, engine, caplog):
    victim = start(THREE_BOXES)
    stuck = victim.heard()["leases"][0]
    (engine.directory / f"{stuck}.box.stuck").touch()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reap_every, 0.02, book, [engine])
        await anyio.sleep(0.1)
        assert len(engine.boxes()) == 3
        victim.kill()
        with anyio.fail_after(10):
            while engine.boxes() != {f"{stuck}.box"}:
                await anyio.sleep(0.01)
            while "is stuck" not in caplog.text:
                await anyio.sleep(0.01)
            (engine.directory / f"{stuck}.box.stuck").unlink()
            while book.leases():
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


async def test_a_provider_reaps_in_a_thread_of_its_own(start, book, engine):
    periodic = PeriodicReaper(book, engine, interval_s=0.02)
    periodic.stop()
    for _ in range(2):
        periodic.start()
        periodic.start()
        start("make_box(book, engine); die()").process.communicate()
        with anyio.fail_after(10):
            while book.leases() or engine.boxes():
                await anyio.sleep(0.01)
        periodic.stop()
        start("make_box(book, engine); die()").process.communicate()
        await anyio.sleep(0.1)
        assert len(engine.boxes()) == 1, "it has stopped"
    assert not [thread for thread in threading.enumerate() if thread.name == "swe_sdk reaper"]


async def test_a_stuck_engine_holds_up_no_stop(start, book, engine):
    start("make_box(book, engine); die()").process.communicate()
    engine.slow_s = 3600
    periodic = PeriodicReaper(book, engine)
    periodic.start()
    with anyio.fail_after(10):
        while not engine.removals():
            await anyio.sleep(0.01)
    began = time.monotonic()
    periodic.stop(0.1)
    assert time.monotonic() - began < 5


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
