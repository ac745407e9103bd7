"""The files through which a driver and its shards talk, on a file system that both see.

::

    FOLDER/lock                      held while shards are made
    FOLDER/shards/<name>/jobs.jsonl      the jobs of a shard, a line each; complete before it is submitted
                        /first.jsonl     what it does before them
                        /results.jsonl   what came of them, appended by the shard alone
                        /holder          locked by the process that carries it out, as long as that lives
                        /alive           which process carries it out; its mtime is the last sign of life
                        /submitted       the id that Slurm gave it
                        /cancel/<n>      the driver asks to cancel the n-th job; ``all`` = all of them
    FOLDER/submitit/                 submitit's own files, with the output of shards

Nothing is ever changed by two writers. A shard that starts again skips what has a result.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import Field, ValidationError

from swe_sdk.executors.contract import Job, JobResult, NodeInfo
from swe_sdk.files import write_atomic
from swe_sdk.model.record import Record
from swe_sdk.store.atomic import append_line

BEAT_EVERY_S = 5.0
SILENT_S = 90.0
"""A shard without a sign of life for so long is dead, by the clock of the file system."""


class ShardResult(Record):
    """One line of a shard's results."""

    number: int = Field(ge=0)
    """Of the job in ``jobs.jsonl``, from 0."""
    result: JobResult


class ShardFolder:
    """One shard's files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def results(self) -> Path:
        """The file of results."""
        return self.path / "results.jsonl"

    @property
    def holder(self) -> Path:
        """The file that whoever carries it out has locked."""
        return self.path / "holder"

    # -- the driver's ------------------------------------------------------------------------------------------------

    def create(self, jobs: Iterable[Job], first: Iterable[Job]) -> None:
        """Write what the shard is to do."""
        (self.path / "cancel").mkdir(parents=True)
        write_atomic(self.path / "first.jsonl", _lines(first), mode=0o600)
        write_atomic(self.path / "jobs.jsonl", _lines(jobs), mode=0o600)

    def remove(self) -> None:
        """It will never run: let nobody wait for it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def note_submitted(self, job_id: str) -> None:
        """Slurm has it."""
        write_atomic(self.path / "submitted", job_id.encode())

    @property
    def submitted(self) -> str | None:
        """The id that it was given; None where it never came to that."""
        try:
            return (self.path / "submitted").read_text()
        except FileNotFoundError:
            return None

    def ask_to_cancel(self, what: int | str) -> None:
        """One job by its number, or ``all``; nothing where the shard was withdrawn."""
        with suppress(FileNotFoundError):
            (self.path / "cancel" / str(what)).touch()

    @property
    def last_sign(self) -> float:
        """When it gave its last sign of life, or was made. Unix seconds of the file system."""
        for name in ("alive", "jobs.jsonl"):
            try:
                return (self.path / name).stat().st_mtime
            except FileNotFoundError:
                continue
        return 0.0

    @property
    def node(self) -> NodeInfo | None:
        """The process that carries it out, or did so last; None before it has begun."""
        try:
            return NodeInfo.model_validate_json((self.path / "alive").read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    # -- the shard's -------------------------------------------------------------------------------------------------

    def jobs(self) -> list[Job]:
        """All of its jobs."""
        return _jobs(self.path / "jobs.jsonl")

    def first(self) -> list[Job]:
        """What it does before them, such as making environments ready."""
        return _jobs(self.path / "first.jsonl")

    def begin(self, node: NodeInfo) -> None:
        """The first sign of life."""
        write_atomic(self.path / "alive", node.model_dump_json().encode())

    def beat(self) -> None:
        """A further one."""
        os.utime(self.path / "alive")

    def asked_to_cancel(self) -> set[str]:
        """What the driver has asked for."""
        try:
            return set(os.listdir(self.path / "cancel"))
        except FileNotFoundError:
            return set()

    def append(self, line: ShardResult) -> None:
        """One more result; on the disk when this returns. Raises ``NoSpace``."""
        append_line(self.results, line.model_dump_json().encode(), mode=0o600)

    def read(self, offset: int = 0) -> tuple[list[ShardResult], int]:
        """The results from an offset on, and the offset behind them; half lines are left for the next time."""
        try:
            with self.results.open("rb") as file:
                file.seek(offset)
                data = file.read()
        except FileNotFoundError:
            return [], offset
        whole = data[: data.rfind(b"\n") + 1]
        return list(_results(whole)), offset + len(whole)


def time_of(folder: Path) -> float:
    """Now, by the clock that signs of life are stamped with: a file server's, which may differ from this machine's."""
    mark = folder / "lock"
    mark.touch()
    return mark.stat().st_mtime


def shard_folders(folder: Path) -> list[ShardFolder]:
    """All shards that were ever made there, oldest first."""
    shards = folder / "shards"
    names = sorted(os.listdir(shards)) if shards.is_dir() else []
    return [ShardFolder(shards / name) for name in names if (shards / name / "jobs.jsonl").exists()]


def _lines(jobs: Iterable[Job]) -> bytes:
    return b"".join(job.model_dump_json().encode() + b"\n" for job in jobs)


def _jobs(file: Path) -> list[Job]:
    return [Job.model_validate_json(line) for line in file.read_bytes().splitlines()]


def _results(data: bytes) -> Iterator[ShardResult]:
    for line in data.splitlines():
        try:
            yield ShardResult.model_validate_json(line)
        except ValidationError:  # half of a line that a kill has left
            continue
