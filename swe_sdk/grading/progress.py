"""Progress of a batch of grades."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from swe_sdk.model.outcome import Outcome
from swe_sdk.progress import Progress, shown_progress

_UNITS = {"grade": "patches", "regrade": "patches", "validate": "control runs"}


class GradeProgress:
    """What a batch of grades tells its reader."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def add(self, outcome: Outcome) -> None:
        """One more is graded."""
        self._progress.add(outcome.status, None if outcome.mask is None else outcome.mask.kind)

    def say(self, line: str) -> None:
        """A word on what takes so long."""
        self._progress.say(line)


@contextmanager
def progress_bar(total: int, label: str, *, enabled: bool = True) -> Iterator[GradeProgress]:
    """Progress of ``total`` grades of one kind (``label``: "grade", "regrade", "validate")."""
    with shown_progress(total, _UNITS[label], enabled=enabled) as progress:
        yield GradeProgress(progress)
