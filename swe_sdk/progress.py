"""How far something is: one protocol for grades, control runs and runs, shown only where somebody looks.

In a notebook it is one picture that is updated in place, on a terminal one live line. Where there is neither (a pipe,
a log file, a scheduler) nothing is written at all.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from types import MappingProxyType
from typing import Literal

from swe_sdk.shown import from_notebook, one_line

STATUSES = ("resolved", "unresolved", "masked")
Place = Literal["notebook", "terminal"]
Show = Callable[[], None]
_NOTE = 80


class Tally:
    """Counts of what is finished; ``kept`` are those of before, by status."""

    def __init__(self, total: int, unit: str, kept: Mapping[str, int] = MappingProxyType({})) -> None:
        self.total, self.unit = total, unit
        self.statuses: Counter[str] = Counter(kept)
        self.masks: Counter[str] = Counter()
        self.note = ""
        """What goes on."""
        self._before = sum(kept.values())
        self._started = time.monotonic()

    @property
    def done(self) -> int:
        """How many are finished."""
        return self.statuses.total()

    @property
    def elapsed_s(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    @property
    def left_s(self) -> float | None:
        """Seconds until the end, if all goes on like this; None while nothing can be said."""
        now_done = self.done - self._before
        if now_done < 2 or self.done >= self.total:
            return None
        return self.elapsed_s / now_done * (self.total - self.done)

    @property
    def times(self) -> str:
        """``1:02``, and what is left: ``1:02, about 3:10 left``."""
        left = "" if self.left_s is None else f", about {clock(self.left_s)} left"
        return f"{clock(self.elapsed_s)}{left}"

    def label(self, status: str) -> str:
        """As in ``3 resolved``, or ``2 masked (sandbox_lost 2)``."""
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.masks.most_common())
        return f"{self.statuses[status]} {status}" + (f" ({kinds})" if kinds and status == "masked" else "")

    @property
    def line(self) -> str:
        """All of it as one plain line."""
        counts = ", ".join(map(self.label, STATUSES))
        return f"{self.done}/{self.total} {self.unit}, {counts}, {self.times}"


class Progress:
    """What a batch tells its reader. Where nobody looks, it only counts."""

    def __init__(self, tally: Tally, show: Show = lambda: None) -> None:
        self._tally, self._show = tally, show

    def add(self, status: str, mask_kind: str | None = None) -> None:
        """One more is finished."""
        self._tally.statuses[status] += 1
        if mask_kind is not None:
            self._tally.masks[mask_kind] += 1
        self._show()

    def say(self, line: str) -> None:
        """A word on what is going on."""
        self._tally.note = one_line(line, _NOTE)
        self._show()


@contextmanager
def shown_progress(
    total: int, unit: str, *, kept: Mapping[str, int] = MappingProxyType({}), enabled: bool = True
) -> Iterator[Progress]:
    """Progress of ``total`` things (``unit``: "rollouts", "patches"); ``kept`` are finished already, by status."""
    tally = Tally(total, unit, kept)
    place = looked_at() if enabled else None
    if place is None:
        yield Progress(tally)
        return
    drawn: AbstractContextManager[Show] = from_notebook("progress").drawn(tally, place)
    with drawn as show:
        yield Progress(tally, show)


@contextmanager
def shown_steps(
    own: Callable[[str], None] | None = None, *, of: str = "environment"
) -> Iterator[Callable[[str], None] | None]:
    """What to call with each step of a build or a pull: ``own``, or else what shows it where somebody looks.

    ``of`` is what the block makes, for the line that says how long it took.
    """
    place = looked_at() if own is None else None
    if place is None:
        yield own
        return
    drawn: AbstractContextManager[Callable[[str], None]] = from_notebook("steps").drawn_steps(place, of)
    with drawn as say:
        yield say


def looked_at() -> Place | None:
    """Where somebody looks: at a cell, at a terminal, or nowhere."""
    if "ipykernel" in sys.modules and import_module("IPython").get_ipython() is not None:
        return "notebook"
    return "terminal" if sys.stderr.isatty() else None


def clock(seconds: float) -> str:
    """``0:07``, ``1:02:03``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
