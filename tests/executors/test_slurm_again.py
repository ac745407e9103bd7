"""Slurm: the same asked for again, drivers that die, and clusters that are not there."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

import swe_sdk as swe
from swe_sdk.errors import PrerequisiteError
from swe_sdk.executors.contract import Job, JobResult
from swe_sdk.executors.lost import failure_of_job
from swe_sdk.executors.slurm.executor import SlurmExecutor
from swe_sdk.executors.slurm.folder import ShardFolder, shard_folders, time_of
from swe_sdk.testing.executor_work import COUNT
from tests.executors.engines import need_package
from tests.grading.tiny import GOLD

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _submitit() -> None:
    need_package("submitit")


def executor(folder: Path, **more: object) -> SlurmExecutor:
    return SlurmExecutor(folder=folder, cluster="local", shards=2, slots=2, poll_s=0.3, **more)  # type: ignore[arg-type]


def test_what_has_a_good_result_is_not_run_again(tasks: swe.TaskSet, tmp_path: Path) -> None:
    patches = dict.fromkeys(tasks.ids, GOLD)
    given = {"executor": executor(tmp_path / "slurm"), "provider": "local", "progress": False}
    first = swe.grade_many(tasks, patches, results=tmp_path / "one", **given)
    made = len(shard_folders(tmp_path / "slurm"))
    again = swe.grade_many(tasks, patches, results=tmp_path / "two", **given)
    assert [outcome.status for outcome in first] == ["resolved"] * 3
    assert list(again) == list(first)
    assert len(shard_folders(tmp_path / "slurm")) == made == 2
    other = swe.grade_many(tasks[:1], "gold", results=tmp_path / "three", tests_timeout_s=99.0, **given)
    assert other[0].key != first[0].key, "another input is another job"
    assert len(shard_folders(tmp_path / "slurm")) == made + 1


DRIVER = """
import sys, anyio
from pathlib import Path
from swe_sdk.executors.contract import Job, JobResult
from swe_sdk.executors.slurm.executor import SlurmExecutor

async def main(folder, file):
    executor = SlurmExecutor(folder=folder, cluster="local", shards=2, slots=2, poll_s=0.3)
    async with executor.open() as pool, anyio.create_task_group() as tasks:
        for number in range(3):
            given = {"file": file, "seconds": 6.0}
            tasks.start_soon(pool.run, Job(id=str(number), work=sys.argv[3], input=given, key=f"key {number}"))

if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
"""


def test_a_driver_that_follows_a_dead_one_takes_over_its_shards(tmp_path: Path) -> None:
    file = tmp_path / "count"
    command = [sys.executable, "-c", DRIVER, str(tmp_path / "slurm"), str(file), COUNT]
    driver = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        anyio.run(_until_lines, file, 3)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()

    async def follow() -> list[str]:
        async with executor(tmp_path / "slurm").open() as pool:
            given = {"file": str(file), "seconds": 6.0}
            results: list[str] = []

            async def ask(number: int) -> None:
                result = await pool.run(Job(id="again", work=COUNT, input=given, key=f"key {number}"))
                results.append(result.state)

            async with anyio.create_task_group() as tasks:
                for number in range(3):
                    tasks.start_soon(ask, number)
            return results

    assert anyio.run(follow) == ["done"] * 3
    assert len(file.read_text().splitlines()) == 3, "no job ran twice"


@pytest.mark.parametrize("is_killed", [False, True], ids=["it ends", "it is killed"])
def test_a_shard_that_is_started_twice_waits_for_the_first_start(tmp_path: Path, is_killed: bool) -> None:
    """As where Slurm takes a node for dead that is not. Jobs run twice only where the first start has died of them."""
    file, folder = tmp_path / "count", ShardFolder(tmp_path / "shard")
    given = {"file": str(file), "seconds": 4.0}
    folder.create([Job(id=str(number), work=COUNT, input=given, key=f"key {number}") for number in range(2)], [])
    program = "import sys; from swe_sdk.executors.slurm.shard import Shard; print(Shard(sys.argv[1], 2)())"
    command = [sys.executable, "-c", program, str(folder.path)]
    starts = []
    try:
        starts.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        anyio.run(_until_lines, file, 2)
        starts.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        if is_killed:
            starts[0].kill()
        told = [start.communicate(timeout=120)[0].strip() for start in starts]
    finally:
        for start in starts:
            start.kill()
            start.wait()
    assert told == (["", "2"] if is_killed else ["2", "0"])
    assert len(file.read_text().splitlines()) == (4 if is_killed else 2)
    assert [line.result.state for line in folder.read()[0]] == ["done"] * 2


async def _until_lines(file: Path, count: int) -> None:
    with anyio.fail_after(120):
        while not file.exists() or len(file.read_text().splitlines()) < count:
            await anyio.sleep(0.1)


def test_without_slurm_it_says_what_to_do(tasks: swe.TaskSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(PrerequisiteError, match="sbatch"):
        swe.grade_many(tasks, executor=SlurmExecutor(folder=tmp_path), provider="local", results=tmp_path / "r")


def test_what_slurm_refuses_is_lost_and_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from submitit import AutoExecutor

    def refuse(*_: object) -> None:
        raise RuntimeError("sbatch: error: invalid partition")

    monkeypatch.setattr(AutoExecutor, "submit_array", refuse)

    async def ask() -> object:
        async with executor(tmp_path / "slurm").open() as pool:
            return await pool.run(
                Job(id="job", work=COUNT, input={"file": str(tmp_path / "c"), "seconds": 0.0}, key="k")
            )

    result = anyio.run(ask)
    assert result.state == "lost"
    assert "invalid partition" in result.error.message
    assert shard_folders(tmp_path / "slurm") == [], "nobody waits for a shard that was never submitted"


def test_a_full_disk_is_no_lost_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that meets it stops, and can go on when there is space."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def ask() -> JobResult:
        async with executor(tmp_path / "slurm").open() as pool:
            return await pool.run(Job(id="job", work=COUNT))

    monkeypatch.setattr(ShardFolder, "create", full)
    result = anyio.run(ask)
    failure = failure_of_job(result, "seed")
    assert (result.state, failure.kind) == ("lost", "no_space")
    assert failure.reason == "it could not be given to Slurm: [Errno 28] No space left on device"


def test_many_that_are_cancelled_look_at_their_shard_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look is at all shards: one for each job would take minutes."""
    jobs = [Job(id=str(number), work=COUNT, key=f"key {number}") for number in range(200)]
    ShardFolder(tmp_path / "slurm" / "shards" / "of-another").create(jobs, [])
    looks = []

    def counted(folder: Path) -> float:
        looks.append(folder)
        return time_of(folder)

    async def ask() -> None:
        async with executor(tmp_path / "slurm", drain_s=1.0).open() as pool:
            with anyio.move_on_after(0.3):
                async with anyio.create_task_group() as tasks:
                    for job in jobs:
                        tasks.start_soon(pool.run, job)

    monkeypatch.setattr("swe_sdk.executors.slurm.pool.time_of", counted)
    anyio.run(ask)
    assert 1 < len(looks) < 30


def test_a_file_server_that_is_away_for_a_while_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def away_at_first(folder: Path) -> float:
        looks.append(folder)
        if len(looks) < 3:
            raise OSError(errno.ESTALE, "Stale file handle")
        return time_of(folder)

    async def ask() -> JobResult:
        async with executor(tmp_path / "slurm").open() as pool:
            return await pool.run(Job(id="job", work=COUNT, input={"file": str(tmp_path / "c"), "seconds": 0.0}))

    monkeypatch.setattr("swe_sdk.executors.slurm.pool.time_of", away_at_first)
    assert anyio.run(ask).state == "done"
    assert len(looks) >= 3


def test_a_shard_that_another_driver_withdraws_is_not_waited_for(tmp_path: Path) -> None:
    """Slurm has refused it there; whoever had hoped for its results hears of it."""
    folder = ShardFolder(tmp_path / "slurm" / "shards" / "of-another")
    job = Job(id="job", work=COUNT, key="k")
    folder.create([job], [])

    async def ask() -> JobResult:
        async with executor(tmp_path / "slurm").open() as pool, anyio.create_task_group() as tasks:

            async def withdraw() -> None:
                await anyio.sleep(0.5)
                folder.remove()

            tasks.start_soon(withdraw)
            with anyio.fail_after(30):
                return await pool.run(job)

    assert anyio.run(ask).state == "lost"


def test_a_shard_that_is_withdrawn_while_it_is_found_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ShardFolder(tmp_path / "slurm" / "shards" / "of-another").create([Job(id="job", work=COUNT, key="k")], [])
    jobs = ShardFolder.jobs

    def late(folder: ShardFolder) -> list[Job]:
        folder.remove()
        return jobs(folder)

    async def opened() -> int:
        async with executor(tmp_path / "slurm").open() as pool:
            return len(pool.nodes())

    monkeypatch.setattr(ShardFolder, "jobs", late)
    assert anyio.run(opened) == 0
