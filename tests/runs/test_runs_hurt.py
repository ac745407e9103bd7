"""Runs that something has happened to: a full disk, a clock set back, a copy, files that are damaged or lost."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from swe_sdk import aio
from swe_sdk.agents import ScriptedAgent
from swe_sdk.checkpoint.snapshots.index import SnapshotIndex
from swe_sdk.errors import InputError, NoSpace, SweError
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.runs.checkpoints.snapshots import run_snapshots
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.store import journal
from swe_sdk.store.events import RunEnded, RunStarted
from swe_sdk.store.index import open_index
from swe_sdk.store.writer import RunWriter
from tests.runs.checkpointed import FIX, done_in, every_step, steps, stopped_when_saved

pytestmark = pytest.mark.anyio
FIXED = ScriptedAgent(actions=(FIX,))


async def test_a_run_that_a_full_disk_has_ended_is_under_way_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = journal.Journal._write
    is_full = False

    def full(self: journal.Journal, line: bytes) -> None:
        if is_full:
            raise OSError(28, "No space left on device")
        write(self, line)

    monkeypatch.setattr(journal.Journal, "_write", full)
    writer = RunWriter(tmp_path / "run")
    is_full = True
    writer.close()
    is_full = False
    with pytest.raises(ValueError, match="closed"):
        writer.append(RunEnded(reason="failed"))
    with open_index(tmp_path / "run") as index:
        assert index.run().alive is False, "a journal without a last line, and nobody who writes it"
    with RunWriter(tmp_path / "run"), open_index(tmp_path / "run") as index:
        assert index.run().alive is True


async def test_the_newest_event_is_the_last_one_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunWriter(tmp_path / "run") as writer:
        writer.append(RunStarted(rollouts=2))
        writer.append(RunEnded(reason="stopped", message="interrupted"))
    (tmp_path / "run" / "events" / "torn.jsonl").write_bytes(b'{"v":1,"n":1,"t":9e9,"ev')
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 7200)
    with RunWriter(tmp_path / "run") as writer:
        writer.append(RunStarted(rollouts=2, resumed=True))
        writer.append(RunEnded(reason="finished"))
    with open_index(tmp_path / "run") as index:
        row = index.run()
        assert (row.end_reason, row.message) == ("finished", "")
        assert row.ended_at is not None
        assert abs(row.ended_at - now) < 60


async def test_an_attempt_that_only_left_files_is_not_made_again(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    (await aio.run(tasks, FIXED, provider=local_provider, path=path, progress=False)).close()
    shutil.rmtree(path / "events")
    with await aio.resume(path, provider=local_provider, progress=False) as run:
        assert {(row.status, row.attempt) for row in run.rollouts.rows()} == {("resolved", 2)}


async def test_one_of_two_that_want_the_same_directory_has_it_whole(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path
) -> None:
    import swe_sdk as swe

    for number in range(5):
        path = tmp_path / f"run-{number}"
        failed: list[SweError] = []

        def begin(count: int, path: Path = path, failed: list[SweError] = failed) -> None:
            try:
                chosen = list(tasks)[:count]
                with swe.run(chosen, "noop", provider=local_provider, path=path, progress=False, name=str(count)):
                    pass
            except InputError as error:
                failed.append(error)

        threads = [threading.Thread(target=begin, args=(count,)) for count in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(failed) == 1
        with await aio.open_run(path) as run:
            assert run.plan is not None
            assert [run.plan.name] * 2 == [str(len(run.tasks)), str(len(run.rollouts))]


def _config(path: Path) -> Path:
    return path / "artifacts" / "config.json"


def _tasks(path: Path) -> Path:
    return path / "artifacts" / "tasks.jsonl"


def _into_folder(path: Path) -> None:
    _config(path).unlink()
    _config(path).mkdir()


def _packed(path: Path) -> None:
    _tasks(path).unlink()
    _tasks(path).with_name("tasks.jsonl.gz").write_bytes(b"no gzip")


@pytest.mark.parametrize(
    ("hurt", "words"),
    [
        (lambda path: _config(path).write_bytes(_config(path).read_bytes()[:90]), r"config\.json cannot be read"),
        (lambda path: _config(path).write_bytes(b'{"config": {}}'), r"config\.preset: Field required"),
        (_into_folder, r"config\.json cannot be read: Is a directory"),
        (
            lambda path: _tasks(path).write_bytes(b'{"instance_id": "x"}\n'),
            r"tasks\.jsonl cannot be read: a line is no",
        ),
        (lambda path: _tasks(path).write_bytes(b"[1]\n"), r"tasks\.jsonl cannot be read: a line is no task"),
        (lambda path: _tasks(path).write_bytes(b"\xff{"), r"tasks\.jsonl cannot be read"),
        (_packed, r"tasks\.jsonl cannot be read"),
        (lambda path: (path / "run.json").write_bytes(b"{"), r"run\.json cannot be read"),
    ],
)
async def test_what_is_damaged_is_named_and_the_rest_can_be_looked_at(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path, hurt: Callable[[Path], object], words: str
) -> None:
    path = tmp_path / "run"
    with await aio.run(list(tasks)[:1], "noop", provider=local_provider, path=path, progress=False) as run:
        hurt(path)
        assert run.row.counts == {"unresolved": 1}
    with pytest.raises(InputError, match=words) as caught:
        await aio.resume(path, provider=local_provider, progress=False)
    assert caught.value.remedy


async def test_a_run_that_cannot_be_written_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    RunWriter(tmp_path / "run").close()
    opened = os.open

    def read_only(path: object, flags: int, *more: object, **options: object) -> int:
        if str(path).endswith("run.lock"):
            raise OSError(30, "Read-only file system")
        return opened(path, flags, *more, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(InputError, match=r"nothing can be written to the run .*Read-only") as caught:
        await aio.resume(tmp_path / "run")
    assert "copy" in caught.value.remedy


async def test_a_path_that_is_no_text_is_refused_before_anything_is_made(tasks: TaskSet, tmp_path: Path) -> None:
    path = Path(os.fsdecode(bytes(tmp_path) + b"/r\xe9n"))
    with pytest.raises(InputError, match="not UTF-8"):
        await aio.run(tasks, "noop", path=path, progress=False)
    assert not path.exists()
    RunWriter(tmp_path / "sound").close()
    shutil.copytree(tmp_path / "sound", path)
    with pytest.raises(InputError, match="not UTF-8"):
        await aio.open_run(path)
    with open_index(tmp_path) as index:
        assert [row.run for row in index.runs()] == ["sound"], "it does not hide the others"


async def test_a_copy_does_not_take_the_snapshots_of_its_original(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path
) -> None:
    path, copy = tmp_path / "run", tmp_path / "copy"
    chosen, agent = TaskSet(list(tasks)[:1]), steps()
    await stopped_when_saved(path, chosen, agent, local_provider, checkpoint_every=0.3)
    shutil.copytree(path, copy)
    with pytest.raises(InputError, match=f"is a copy of {path}"):
        await aio.resume(copy, agent=agent, provider=local_provider, progress=False)
    plan = copy / "artifacts" / "config.json"
    plan.write_text(plan.read_text().replace('"given": [\n    "provider"\n  ]', '"given": []'))
    (told,) = await run_snapshots(copy, reap=True)
    assert f"of {path}" in told.skipped
    with await aio.resume(path, agent=agent, provider=local_provider, progress=False) as run:
        (name,) = run.rollouts
        assert run.rollouts[name].row.restored_from is not None
    shutil.rmtree(copy / "checkpoints")
    shutil.rmtree(copy / "snapshots")
    with await aio.resume(copy, agent=agent, provider=local_provider, progress=False) as run:
        (name,) = run.rollouts
        assert (run.rollouts[name].row.restored_from, done_in(run, name)) == (None, every_step())


async def test_a_run_that_was_moved_takes_its_snapshots_along(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path
) -> None:
    path, agent = tmp_path / "run", steps()
    await stopped_when_saved(path, TaskSet(list(tasks)[:1]), agent, local_provider, checkpoint_every=0.3)
    path.rename(tmp_path / "moved")
    with await aio.resume(tmp_path / "moved", agent=agent, provider=local_provider, progress=False) as run:
        (name,) = run.rollouts
        assert run.rollouts[name].row.restored_from is not None
        assert done_in(run, name) == every_step()


@pytest.mark.parametrize("junk", [b"[1]\n", b'"x"\n', b'{"names": 3}\n', b'{"names": {"a": "b"}}\n', b"\xff\x00\n"])
def test_an_index_of_snapshots_with_a_foreign_line_is_read_and_never_left_locked(tmp_path: Path, junk: bytes) -> None:
    index = SnapshotIndex(tmp_path)
    index.intend("c1", "local", {"s": "snap-1"})
    index.path.write_bytes(index.path.read_bytes() + junk)
    found: list[list[str]] = []
    for each in (index, SnapshotIndex(tmp_path)):
        thread = threading.Thread(target=lambda each=each: found.append(list(each.entries())), daemon=True)  # type: ignore[misc]
        thread.start()
        thread.join(10)
    assert [names[0] for names in found] == ["snap-1", "snap-1"]


async def test_a_plan_that_did_not_fit_leaves_no_writer_behind(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(RunWriter, "save", _no_room)
        with pytest.raises(NoSpace):
            await aio.run(tasks, "noop", provider=local_provider, path=path, progress=False)
    with await aio.run(tasks, "noop", provider=local_provider, path=path, progress=False) as run:
        assert (run.finished, run.row.alive) == (True, False)


def _no_room(*_: object, **__: object) -> None:
    raise NoSpace("full")


async def test_a_disk_that_fills_up_at_the_very_end_costs_no_checkpoint(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rollouts are under way and none can be recorded: that is no finished run."""
    path, write = tmp_path / "run", journal.Journal._write

    def full(self: journal.Journal, line: bytes) -> None:
        if b'"kind":"rollout_ended"' in line:
            raise OSError(28, "No space left on device")
        write(self, line)

    agent = steps()
    with monkeypatch.context() as patch:
        patch.setattr(journal.Journal, "_write", full)
        run = await aio.run(
            list(tasks)[:1], agent, provider=local_provider, path=path, checkpoint_every=0.3, retries=0, progress=False
        )
        with run:
            assert (run.row.end_reason, run.row.message) == ("stopped", "no_space")
            assert run.checkpoints.kept
    with await aio.resume(path, agent=agent, provider=local_provider, progress=False) as run:
        (name,) = run.rollouts
        assert (run.rollouts[name].status, done_in(run, name)) == ("resolved", every_step())
        assert run.rollouts[name].row.restored_from is not None
