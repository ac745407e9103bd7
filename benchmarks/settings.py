"""How often things are repeated, and how large they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

MIB = 1 << 20


@dataclass(frozen=True)
class Load:
    """What a box has written when it is frozen."""

    name: str
    blob_bytes: int = 0
    files: int = 0


@dataclass(frozen=True)
class Settings:
    """The full run; see :data:`QUICK` for the small one."""

    rounds: int = 20
    """The contenders of a benchmark take turns, this many times."""
    create_batch: int = 20
    exec_batch: int = 50
    docker_batch: int = 2
    """Docker takes a hundred times as long as what it is compared with."""
    docker_settle_s: float = 0.3
    """Docker goes on cleaning up after it has answered; that is no part of the next contender's turn."""
    crowds: tuple[int, ...] = (50, 200)
    crowd_repeats: int = 5
    crowd_execs: int = 1000
    loads: tuple[Load, ...] = (
        Load("1 MB", blob_bytes=1 * MIB),
        Load("100 MB", blob_bytes=100 * MIB),
        Load("1 GB", blob_bytes=1024 * MIB),
        Load("10,000 files", files=10_000),
    )
    snapshot_repeats: int = 7
    docker_snapshot_repeats: int = 3
    docker_largest_bytes: int = 100 * MIB
    """Docker is not asked to commit more than this, unless ``--full`` is given."""
    mini_tasks: int | None = None
    """How many tasks of the bundled data set are graded; None = all that work here."""
    real_tasks: int = 2
    grade_repeats: int = 7
    parser_seconds: float = 0.4
    """For each parser, ours and theirs, on each framework."""
    parser_logs: int | None = None
    store_rollouts: int = 100_000
    store_log_bytes: int = 200 * MIB
    store_writers: int = 16
    store_writing_s: float = 5.0
    parked_rollouts: int = 256
    parked_box_bytes: int = 10_000_000
    released_snapshots: int = 1000
    slow_seeds: int = 200


FULL = Settings()
QUICK = replace(
    FULL,
    rounds=2,
    create_batch=4,
    exec_batch=8,
    docker_batch=1,
    crowds=(8,),
    crowd_repeats=1,
    crowd_execs=40,
    loads=(Load("1 MB", blob_bytes=MIB), Load("10 MB", blob_bytes=10 * MIB), Load("100 files", files=100)),
    snapshot_repeats=2,
    docker_snapshot_repeats=1,
    mini_tasks=1,
    real_tasks=0,
    grade_repeats=2,
    parser_seconds=0.02,
    parser_logs=2,
    store_rollouts=300,
    store_log_bytes=3 * MIB,
    store_writers=2,
    store_writing_s=0.3,
    parked_rollouts=6,
    parked_box_bytes=1_000_000,
    released_snapshots=20,
    slow_seeds=20,
)
