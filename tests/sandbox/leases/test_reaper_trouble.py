"""Engines that fail, reapers that are killed, several at once: everything goes in the end, and nothing else does."""

from __future__ import annotations

import threading
import time

import anyio
import pytest

from swe_sdk.sandbox import reaper
from swe_sdk.sandbox.reaper import PeriodicReaper, reap, reap_every
from tests.sandbox.leases.engines import DirectoryEngine, actions, make_box, restore
from tests.sandbox.leases.programs import THREE_BOXES

pytestmark = pytest.mark.anyio

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


async def test_reapers_do_not_disturb_each_other(start, book, engine, monkeypatch):
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
    monkeypatch.setattr(reaper, "_SETTLE_S", 0)
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
    before = set(threading.enumerate())  # providers of other tests may have theirs
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
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "swe_sdk reaper"]


async def test_a_stuck_engine_holds_up_no_stop(start, book, engine):
    start("make_box(book, engine); die()").process.communicate()
    engine.slow_s = 3600
    periodic = PeriodicReaper(book, engine, interval_s=0.02)
    periodic.start()
    with anyio.fail_after(10):
        while not engine.removals():
            await anyio.sleep(0.01)
    began = time.monotonic()
    periodic.stop(0.1)
    assert time.monotonic() - began < 5
