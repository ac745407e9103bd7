"""Leases are on the disk before their boxes, and stay until the boxes are gone for sure."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import statistics
import threading
import time

import anyio
import pytest

from swe_sdk.errors import NoSpace, PrerequisiteError, SandboxLost
from swe_sdk.sandbox import leases, presence
from swe_sdk.sandbox.leases import Lease, LeaseBook
from swe_sdk.sandbox.owner import current_owner, parse_owner
from swe_sdk.sandbox.reaper import labelled
from tests.leaks import memory_folder


def test_the_life_of_a_lease(book):
    lease = book.intend("docker", settings={"base_url": "unix://x"}, run="r", task="t")
    assert (lease.state, lease.handle, lease.owner, lease.failures) == ("intended", None, current_owner(), 0)
    assert LeaseBook(book.directory).leases() == book.mine()
    assert book.leases()[0].model_copy(update={"renewed_at": lease.renewed_at}) == lease
    live = book.confirm(lease, "c0ffee")
    assert (live.state, live.handle, live.id) == ("live", "c0ffee", lease.id)
    with book.closing(live):
        (closing,) = book.leases()
        assert (closing.state, closing.handle, closing.settings) == ("closing", "c0ffee", {"base_url": "unix://x"})
        assert live in book
    assert book.leases() == []
    assert live not in book
    with book.closing(live):
        pass  # may be closed again


def test_a_failed_close_keeps_the_record_until_one_succeeds(book):
    lease = book.confirm(book.intend("docker"), "c0ffee")
    for times in (1, 2):
        with pytest.raises(OSError, match="stuck"), book.closing(lease):
            raise OSError("the engine is stuck")
        (left,) = book.leases()
        assert (left.state, left.failures, left.last_error) == ("closing_failed", times, "OSError: the engine is stuck")
        assert left.handle == "c0ffee"
    with book.closing(lease):
        pass
    assert book.leases() == []


@pytest.mark.anyio
async def test_a_cancelled_close_is_a_failed_one(book):
    lease = book.intend("docker")
    with anyio.move_on_after(0.01), book.closing(lease):
        await anyio.sleep(60)
    assert [(left.state, left.failures) for left in book.leases()] == [("closing_failed", 1)]


def test_a_failed_close_does_not_bring_a_record_back(book):
    lease = book.intend("docker")

    def fail_after_another_reaper():
        book.keep(lease)
        raise OSError("late")

    with pytest.raises(OSError, match="late"), book.closing(lease):
        fail_after_another_reaper()
    assert book.leases() == []


def test_a_box_whose_lease_was_reaped_is_not_taken_into_use(book):
    lease = book.intend("docker")
    book.keep(lease)
    with pytest.raises(SandboxLost, match=lease.id):
        book.confirm(lease, "c0ffee")
    assert book.leases() == []


def test_what_is_kept_outlives_its_lease(book):
    image = book.intend("docker", handle="image:1")
    assert book.leases()[0].handle == "image:1"
    book.keep(image)
    book.keep(image)
    assert book.leases() == []


def test_labels_lead_back_to_the_lease(book):
    lease = book.intend("docker", run="r", task='t"\n')
    assert all(isinstance(value, str) for value in lease.labels().values())
    found = labelled("c0ffee", lease.labels())
    assert (found.handle, found.lease, found.owner) == ("c0ffee", lease.id, current_owner())
    assert labelled("x", {"other": "label"}) is None
    assert labelled("x", {**lease.labels(), leases.LABEL_OWNER: "nobody"}).owner is None


def test_records_are_for_their_owner_alone(book):
    lease = book.intend("docker")
    path = book._path(lease)
    modes = [oct(each.stat().st_mode & 0o777) for each in (path, path.parent, book.directory)]
    assert modes == ["0o600", "0o700", "0o700"]


@pytest.mark.parametrize("content", [b"", b'{"id": "box-1", "provi', b"\xff\xfe", b"[]", b'{"id": "x"}'])
def test_half_a_record_is_skipped_with_a_warning(book, caplog, content):
    lease = book.intend("docker")
    (book._path(lease).parent / "box-half.json").write_bytes(content)
    (book._path(lease).parent / ".box-1.json.tmp-1").write_bytes(content)
    (book._path(lease).parent / "note.txt").write_text("not ours")
    (book.directory / "stray.json").write_text("not ours")
    (book.directory / "strange").mkdir()
    (book.directory / "strange" / "dir.json").mkdir()
    with caplog.at_level(logging.WARNING):
        assert [found.id for found in book.leases()] == [lease.id]
    assert sorted(record.args[0].name for record in caplog.records) == ["box-half.json", "dir.json"]


def test_a_record_that_was_cut_off_can_still_be_closed(book, caplog):
    lease = book.intend("docker")
    book._path(lease).write_bytes(b"")
    with book.closing(lease):
        pass
    assert not book._path(lease).exists()
    assert "no lease" in caplog.text


def test_a_book_can_be_deleted_under_its_users(book):
    first = book.intend("docker")
    shutil.rmtree(book.directory)
    assert book.leases() == []
    with pytest.raises(SandboxLost):
        book.confirm(first, "c0ffee")
    with book.closing(first):
        pass
    second = book.intend("docker")
    assert [lease.id for lease in book.leases()] == [second.id]
    assert presence.holds_lock(book._path(second).parent) is True


def test_where_no_lease_can_be_written_there_is_no_box(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(PrerequisiteError, match="SWE_SDK_STATE"):
        LeaseBook(tmp_path / "file" / "book").intend("docker")
    with pytest.raises(PrerequisiteError, match="SWE_SDK_STATE"):
        LeaseBook(tmp_path / "file").leases()
    full = LeaseBook(tmp_path / "full")
    lease = full.intend("docker")

    def no_space(*_args, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(leases, "write_atomic", no_space)
    with pytest.raises(NoSpace):
        full.intend("docker")
    with pytest.raises(NoSpace):
        full.confirm(lease, "c0ffee")
    with full.closing(lease):
        pass  # a full disk keeps nothing from being removed
    assert full.leases() == []


def test_a_short_time_to_live_would_end_between_two_signs_of_life(book):
    with pytest.raises(ValueError, match="ttl_s"):
        book.intend("docker", ttl_s=2 * leases.RENEW_EVERY_S)


# -- signs of life ----------------------------------------------------------------------------------------------------


def test_renewing_is_one_write_for_all_leases(book):
    for _ in range(3):
        book.intend("docker")
    folder = book._path(book.mine()[0]).parent
    os.utime(folder / "alive", (1000, 1000))
    before = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    book.renew_all()
    assert all(time.time() - lease.renewed_at < 5 for lease in book.leases())
    assert (folder / "alive").stat().st_mtime > time.time() - 5
    assert {path.name: path.stat().st_mtime_ns for path in folder.glob("*.json")} == before


def test_a_thread_renews_whatever_the_program_does(start, book):
    program = start("""
        from swe_sdk.sandbox import presence
        presence.RENEW_EVERY_S = 0.02
        book.intend("docker")
        say()
        while True:
            pass
    """)
    program.heard()
    alive = next(book.directory.glob("*/alive"))
    seen = set()
    deadline = time.monotonic() + 20
    while len(seen) < 5 and time.monotonic() < deadline:
        seen.add(alive.stat().st_mtime_ns)
        time.sleep(0.01)
    assert len(seen) >= 5


@pytest.mark.parametrize("leases_left", [0, 1])
def test_at_its_end_a_process_leaves_only_what_needs_cleaning(start, book, leases_left):
    program = start(f"""
        kept = [book.intend("docker") for _ in range(3)]
        for lease in kept[{leases_left}:]:
            book.keep(lease)
    """)
    program.end()
    assert len(book.leases()) == leases_left
    assert len(list(book.directory.glob("*/"))) == leases_left


@pytest.mark.parametrize(
    ("boot", "age_s", "content", "stays"),
    [
        ("this", 0, None, False),
        ("this", 0, "half", True),
        ("this", 2e5, "half", False),
        ("other", 0, None, True),
        ("other", 2e5, None, False),
        ("other", 2e5, "half", False),
    ],
)
def test_directories_of_the_dead_are_cleared_away(book, boot, age_s, content, stays):
    key = (current_owner().boot_id if boot == "this" else "fedcba98-7")[:8]
    folder = book.directory / f"{key}-1-1-abcdef"
    folder.mkdir(parents=True)
    (folder / "alive").touch()
    os.utime(folder / "alive", (time.time() - age_s,) * 2)
    if content:
        (folder / "box-1.json").write_text(content)
    book.tidy()
    assert folder.exists() is stays


def test_settings_are_plain_data(book):
    assert book.intend("x", settings={"a": (1, 2)}).settings == {"a": [1, 2]}
    with pytest.raises(TypeError):
        book.intend("x", settings={"a": object()})


def test_what_is_closed_in_the_very_end_is_closed(start, book):
    start("""
        import atexit
        from swe_sdk.sandbox import presence
        atexit.unregister(presence._at_exit)
        lease = book.intend("docker")

        def close():
            assert presence.holds_lock(book.directory / lease.owner.key)
            with book.closing(lease):
                pass

        atexit.register(close)
        atexit.register(presence._at_exit)  # runs first
    """).end()
    assert book.leases() == []
    assert len(list(book.directory.glob("*/"))) == 1
    book.tidy()
    assert list(book.directory.glob("*/")) == []


def test_the_lock_goes_with_the_process_and_not_with_its_children(start, book):
    program = start("""
        import subprocess
        book.intend("docker")
        sleeper = subprocess.Popen(["sleep", "60"], start_new_session=True)
        there, here = os.pipe()
        pid = os.fork()
        if not pid:
            os.write(here, b".")  # by now it has let go of the lock
            time.sleep(60)
            os._exit(0)
        os.read(there, 1)
        say(children=[sleeper.pid, pid], label=book.mine()[0].owner.label)
        wait()
    """)
    heard = program.heard()
    folder = book.directory / parse_owner(heard["label"]).key
    assert presence.holds_lock(folder) is True
    program.process.kill()
    program.process.wait()
    try:
        assert presence.holds_lock(folder) is False
    finally:
        for pid in heard["children"]:
            os.kill(pid, 9)


def test_a_forked_child_has_leases_of_its_own_and_leaves_its_parents_alone(start, book):
    program = start("""
        parents = book.intend("docker")
        if not os.fork():
            childs = book.intend("docker")
            say(parent=parents.id, child=childs.id, mine=[lease.id for lease in book.mine()])
            sys.exit()  # by way of the exit handlers
        os.wait()
        say(mine=[lease.id for lease in book.mine()], alive=book.is_alive(parents.owner))
        wait()
    """)
    child, parent = program.heard(), program.heard()
    assert child["mine"] == [child["child"]]
    assert parent == {"mine": [child["parent"]], "alive": True}
    owners = {lease.id: lease.owner for lease in book.leases()}
    assert book.is_alive(owners[child["parent"]]) is True
    assert presence.holds_lock(book.directory / owners[child["parent"]].key) is True
    assert book.is_alive(owners[child["child"]]) is False


# -- many at once -----------------------------------------------------------------------------------------------------


def test_many_processes_and_threads_share_a_book(start, book, caplog):
    programs = [
        start("""
            import threading
            def work():
                for n in range(25):
                    lease = book.confirm(book.intend("docker", task=str(n)), "h" * 64)
                    if n % 5:
                        with book.closing(lease):
                            pass
            threads = [threading.Thread(target=work) for _ in range(4)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            say()
            wait()
        """)
        for _ in range(4)
    ]
    ended = threading.Event()
    found: list[Lease] = []

    def read():
        while not ended.is_set():
            found.extend(book.leases())

    reader = threading.Thread(target=read)
    reader.start()
    for program in programs:
        program.heard()
    ended.set()
    reader.join()
    assert caplog.text == "", "nobody ever saw half a record"
    left = book.leases()
    assert len(left) == len({lease.id for lease in left}) == 4 * 4 * 5
    assert {lease.state for lease in left} == {"live"}
    assert len({lease.owner for lease in left}) == 4
    assert {lease.handle for lease in found if lease.state != "intended"} == {"h" * 64}


def test_the_lease_of_a_box_costs_less_than_a_millisecond(tmp_path):
    book = LeaseBook((memory_folder() or tmp_path) / f"swe_sdk-book-{os.getpid()}")
    costs = []
    for _ in range(200):
        began = time.perf_counter()
        with book.closing(book.confirm(book.intend("docker", settings={"base_url": "unix://x"}), "h" * 64)):
            pass
        costs.append(time.perf_counter() - began)
    presence._presences.pop(book.directory).leave()
    (book.directory / "lock").unlink()
    book.directory.rmdir()
    assert statistics.median(costs) < 0.001
