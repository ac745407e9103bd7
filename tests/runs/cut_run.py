"""A run that is killed at one moment of its checkpoints: ``python -m tests.runs.cut_run REPO RUN MOMENT``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import swe_sdk as swe
from swe_sdk.checkpoint import catalog
from swe_sdk.checkpoint.snapshots.index import SnapshotIndex
from swe_sdk.runs.checkpoints import participants
from swe_sdk.runs.checkpoints.journal import CheckpointJournal
from tests.grading.tiny import make_task
from tests.runs.checkpointed import steps

STEPS = 16
AFTER = 3
"""The checkpoint whose save is cut: those before it are whole, and it is the first that lets others go."""


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _saved(run: Path) -> bool:
    return len(catalog.listing(run / "checkpoints")) >= AFTER


def _before(run: Path, target: object, name: str) -> Any:
    """Killed instead of doing it, once the checkpoint is there."""
    real: Callable[..., Any] = getattr(target, name)

    def cut(*given: Any, **more: Any) -> Any:
        if _saved(run):
            _kill()
        return real(*given, **more)

    return patch.object(target, name, cut)


def _after(run: Path, target: object, name: str) -> Any:
    real: Callable[..., Any] = getattr(target, name)

    def cut(*given: Any, **more: Any) -> Any:
        done = real(*given, **more)
        if _saved(run):
            _kill()
        return done

    return patch.object(target, name, cut)


MOMENTS: dict[str, Callable[[Path], Any]] = {
    "complete on disk, and the journal not told": lambda run: _after(run, catalog, "complete"),
    "dropped on disk, its snapshots still there": lambda run: _after(run, catalog, "mark_released"),
    "its snapshots deleted, and still in their index": lambda run: _before(run, SnapshotIndex, "forget"),
    "its snapshots deleted, and the journal not told": lambda run: _before(run, participants, "tell_released"),
    "all is done, and the journal not told of the checkpoints": lambda run: _before(run, CheckpointJournal, "catch_up"),
}


def main(repo: str, run: str, moment: str) -> None:
    path = Path(run)
    with MOMENTS[moment](path):
        task = make_task(Path(repo))
        agent = steps(STEPS, 0.08)
        swe.run(task, agent, provider="local", path=path, progress=False, checkpoint_every=0.2, keep_last=1)
    sys.exit("it was not killed")


if __name__ == "__main__":
    main(*sys.argv[1:])
