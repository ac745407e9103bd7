"""Journals: whole lines or none, in order, from many threads, on a full disk, across forks and versions."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import InputError, NoSpace
from swe_sdk.store import events as ev
from swe_sdk.store import lines
from swe_sdk.store.index import open_index
from swe_sdk.store.layout import RUN_FILE, make_run, read_run
from swe_sdk.store.reading import read_lines
from swe_sdk.store.writer import RunWriter
from tests.store.made import all_rollouts, outcome, whole_rollout, write


def step(n: int, text: str = "") -> ev.StepTaken:
    return ev.StepTaken(rollout_id="a__b-1.0", attempt=1, n=n, step_kind="note", summary=text)


def journal_lines(writer: RunWriter) -> list[ev.Line]:
    return [lines.decode_line(line.data) for line in read_lines(writer.journal_path, 0)]


def test_lines_are_numbered_and_never_of_the_same_time(tmp_path):
    with RunWriter(tmp_path) as writer:
        threads = [threading.Thread(target=lambda: [writer.append(step(n)) for n in range(200)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = journal_lines(writer)
    assert [line.n for line in found] == list(range(1, 803))
    assert all(a.t < b.t for a, b in pairwise(found))
    assert isinstance(found[0].event, ev.WriterOpened)
    assert isinstance(found[-1].event, ev.WriterClosed)


def test_every_event_comes_back_as_it_was():
    written = [*whole_rollout("a__b-1.0"), ev.RunStarted(config={"a": [1, None, "é"]}), step(3, "\u2028 \n \x00 <b>")]
    for event in written:
        assert lines.decode_line(lines.encode_line(7, 1.5, event)[:-1]) == ev.Line(v=1, n=7, t=1.5, event=event)


def test_text_that_is_no_unicode_is_replaced():
    line = lines.encode_line(1, 1.0, step(1, "caf\udce9"))
    assert lines.decode_line(line).event.summary == "caf?"


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b'{"v":1}', b'{"v":"x"}', b"\xff\xfe", b'{"v":1,"n":0}', b"[" * 9999]
)
def test_bad_lines_are_named(data):
    with pytest.raises(lines.BadLine):
        lines.decode_line(data)


def test_other_versions(monkeypatch):
    line = json.loads(lines.encode_line(1, 1.0, step(1, "new")))
    with pytest.raises(lines.NewerLine):
        lines.decode_line(json.dumps({**line, "v": 2}).encode())
    with pytest.raises(lines.BadLine):
        lines.decode_line(json.dumps({**line, "v": 0}).encode())

    def renamed(old: dict) -> dict:
        event = dict(old["event"])
        event["summary"] = event.pop("text")
        return {**old, "event": event}

    monkeypatch.setattr(lines, "UPGRADES", {0: renamed})
    event = {**line["event"], "text": "old"}
    del event["summary"]
    assert lines.decode_line(json.dumps({**line, "v": 0, "event": event}).encode()).event == step(1, "old")


def test_newer_and_bad_lines_are_counted_and_left_out(tmp_path):
    write(tmp_path / "r", *whole_rollout("a__b-1.0"))
    newer = json.loads(lines.encode_line(1, 1.0, step(9)))
    (tmp_path / "r/events/other.jsonl").write_text(json.dumps({**newer, "v": 9}) + "\nnot json\n")
    with open_index(tmp_path / "r", index_dir=tmp_path / "ix") as index:
        status = index.status()
        assert (status.bad_lines, status.newer_lines, index.rollout("a__b-1.0").steps) == (1, 1, 2)
        assert any("newer swe_sdk" in note for note in status.notes)


FULL = """
import resource, sys
from swe_sdk.errors import NoSpace
from swe_sdk.store import events as ev
from swe_sdk.store.writer import RunWriter
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = RunWriter(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
for n in range(1000):
    try:
        writer.append(ev.StepTaken(rollout_id="a.0", attempt=1, n=n, step_kind="note", summary="x" * 300))
    except NoSpace as error:
        print(n, flush=True)
        break
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
writer.append(ev.RunEnded(reason="failed", message="the disk was full"))
writer.close()
"""


def test_a_full_disk_is_typed_and_leaves_no_half_line(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    written = int(done.stdout)
    (journal,) = (tmp_path / "events").iterdir()
    data = journal.read_bytes()
    assert [json.loads(line)["n"] for line in data.splitlines()] == list(range(1, written + 4))
    with open_index(tmp_path, index_dir=tmp_path / "ix") as index:
        assert index.rollout("a.0").steps == written
        assert index.run().message == "the disk was full"


def test_an_artifact_on_a_full_disk(tmp_path):
    with RunWriter(tmp_path) as writer:
        os.mkdir(tmp_path / "artifacts")
        (tmp_path / "artifacts" / "full").symlink_to("/dev/full")
        with pytest.raises(InputError, match="already"):
            writer.save("full", b"x")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        file = writer.artifact("log")
        import signal

        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
        try:
            with pytest.raises(NoSpace):
                file.write(b"y" * 60_000)
            with pytest.raises(NoSpace):
                writer.save("whole", b"y" * 60_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, before)
        assert file.close().size_bytes == 50_000
        assert sorted(path.name for path in (tmp_path / "artifacts").iterdir()) == ["full", "log"]


def test_a_forked_child_may_not_use_its_parents_writer(tmp_path):
    with RunWriter(tmp_path) as writer:
        child = os.fork()
        if child == 0:
            try:
                writer.append(step(1))
            except RuntimeError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_after_the_end_nothing_is_written(tmp_path):
    writer = RunWriter(tmp_path)
    log = writer.artifact("log")
    log.close()
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.append(step(1))
    with pytest.raises(ValueError, match="closed"):
        log.write(b"x")
    assert log.close().is_open is False
    assert writer.file_system.promise


def test_durable_events_are_synced_and_share_syncs(tmp_path, monkeypatch):
    synced: list[int] = []
    real = os.fdatasync

    def slow(fd: int) -> None:
        synced.append(os.fstat(fd).st_size)
        threading.Event().wait(0.05)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", slow)
    with RunWriter(tmp_path) as writer:
        writer.append(step(1))
        assert synced == []
        writer.append(ev.OutcomeReached(rollout_id="a.0", attempt=1, outcome=outcome()))
        assert synced == [writer.journal_path.stat().st_size]

        async def many() -> None:
            async with anyio.create_task_group() as group:
                for _ in range(30):
                    group.start_soon(writer.append_async, ev.RunEnded(reason="finished"))

        anyio.run(many)
        assert 2 <= len(synced) <= 5
        assert synced[-1] == writer.journal_path.stat().st_size
    with RunWriter(tmp_path, sync=False) as writer:
        before = len(synced)
        writer.append(ev.RunEnded(reason="finished"))
        assert len(synced) == before


def test_zero_bytes_are_waited_for(tmp_path):
    path = tmp_path / "j"
    path.write_bytes(b"one\n\0\0\0\0\n")  # a longer file whose data has not arrived
    assert [line.data for line in read_lines(path, 0)] == [b"one"]
    path.write_bytes(b"one\ntwoo\n")
    assert [line.data for line in read_lines(path, 4)] == [b"twoo"]


def test_a_line_longer_than_a_chunk(tmp_path):
    path = tmp_path / "j"
    path.write_bytes(b"a" * 100_000 + b"\nb\nc")
    first = read_lines(path, 0, 1000)
    assert [len(line.data) for line in first] == [100_000, 1] or [len(line.data) for line in first] == [100_000]
    assert read_lines(path, 100_003, 1000) == []
    assert read_lines(tmp_path / "none", 0) == []


def test_many_processes_make_one_run(tmp_path):
    code = "import sys; from swe_sdk.store.writer import RunWriter; RunWriter(sys.argv[1]).close()"
    writers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "r")]) for _ in range(4)]
    assert [w.wait(60) for w in writers] == [0] * 4
    assert len(list((tmp_path / "r/events").iterdir())) == 4
    assert [path.name for path in (tmp_path / "r").iterdir() if path.name.startswith(".")] == []
    assert read_run(tmp_path / "r").created_at > 0


def test_run_directories_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make") as caught:
        RunWriter(tmp_path / "file" / "run")
    assert "SWE_SDK_RUNS" in caught.value.remedy
    with pytest.raises(InputError, match="is no run directory"):
        read_run(tmp_path)
    make_run(tmp_path / "r")
    for text, words in (('{"format":"swe_sdk.run","layout":99,"created_at":1}', "newer"), ("{", "cannot be read")):
        (tmp_path / "r" / RUN_FILE).write_text(text)
        with pytest.raises(InputError, match=words):
            RunWriter(tmp_path / "r")
    with pytest.raises(InputError, match="no directory"):
        open_index(Path("/nowhere/at/all"), index_dir=tmp_path)


def test_private_artifacts(tmp_path):
    with RunWriter(tmp_path) as writer:
        for name, data in (("small", b"x"), ("large", b"x" * 2_000_000)):
            writer.save(name, data, private=True)
        writer.save("public", b"x")
    modes = {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / "artifacts").iterdir()}
    assert modes == {"small": 0, "large.gz": 0, "public": 0o044}


def test_an_artifact_name_stays_in_its_folder(tmp_path):
    with RunWriter(tmp_path / "r") as writer:
        record = writer.save("../../out", b"x", rollout_id="../../../etc", attempt=1)
        assert (tmp_path / "r" / record.path).resolve().is_relative_to(tmp_path / "r" / "rollouts")
    with open_index(tmp_path / "r", index_dir=tmp_path / "ix") as index:
        (row,) = index.artifacts("../../../etc")
        with index.open_artifact(row) as file:
            assert file.read_window(0, 10) == b"x"
        with pytest.raises(InputError, match="not below"):
            index.open_artifact(row.model_copy(update={"path": "../../../../etc/passwd"}))
        assert all_rollouts(index)[0].instance_id == "../../../etc".rpartition(".")[0]
