"""How a run is going, told where somebody looks: a live line on a terminal, a table in a notebook, lines in a pipe."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from swe_sdk.config.durations import shown_duration
from swe_sdk.model.outcome import Mask, Status
from swe_sdk.shown import html_table, html_text, one_line

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_PIPE_EVERY_S = 30.0
_NOTEBOOK_EVERY_S = 0.5
_STYLES = {"resolved": "bold green", "unresolved": "red", "masked": "bold yellow"}


class Progress(Protocol):
    """What a run tells its reader; of the event loop's thread alone."""

    def add(self, status: Status, mask: Mask | None) -> None:
        """One more rollout is finished."""

    def say(self, line: str) -> None:
        """A word on what is going on."""


class Tally:
    """Counts of finished rollouts, masks by kind; ``kept`` are those of before, by status."""

    def __init__(self, total: int, kept: Mapping[str, int]) -> None:
        self.total = total
        self.done = sum(kept.values())
        self.statuses: Counter[str] = Counter(kept)
        self.masks: Counter[str] = Counter()
        self.note = ""
        self._started = time.monotonic()

    def add(self, status: Status, mask: Mask | None) -> None:
        """One more."""
        self.done += 1
        self.statuses[status] += 1
        if mask is not None:
            self.masks[mask.kind] += 1

    @property
    def elapsed(self) -> str:
        """Since the start, in whole seconds."""
        return shown_duration(float(int(time.monotonic() - self._started)))

    def label(self, status: str) -> str:
        """As in ``3 resolved``, or ``2 masked (sandbox_lost 2)``."""
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.masks.most_common())
        return f"{self.statuses[status]} {status}" + (f" ({kinds})" if kinds and status == "masked" else "")

    @property
    def line(self) -> str:
        """All of it as one plain line."""
        counts = ", ".join(map(self.label, _STYLES))
        return f"{self.done}/{self.total} rollouts, {counts}, {self.elapsed}"


@contextmanager
def run_progress(
    total: int, *, kept: Mapping[str, int] = MappingProxyType({}), enabled: bool = True
) -> Iterator[Progress]:
    """Progress of a run of ``total`` rollouts, on standard error or in the cell; ``kept`` are finished, by status."""
    tally = Tally(total, kept)
    if not enabled:
        yield _Silent()
    elif _in_notebook():
        yield from _notebook(tally)
    elif sys.stderr.isatty():
        yield from _terminal(tally)
    else:
        yield _Piped(tally)


def _in_notebook() -> bool:
    """Whether what is displayed now lands in a cell."""
    if "ipykernel" not in sys.modules:
        return False
    return import_module("IPython").get_ipython() is not None


class _Silent:
    def add(self, status: Status, mask: Mask | None) -> None:
        pass

    def say(self, line: str) -> None:
        pass


class _Piped:
    """A line now and then: a log that somebody reads later should say how it went, and not a thousand times."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._next = time.monotonic() + _PIPE_EVERY_S

    def add(self, status: Status, mask: Mask | None) -> None:
        self._tally.add(status, mask)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PIPE_EVERY_S
            print(f"swe_sdk: {self._tally.line}", file=sys.stderr, flush=True)  # noqa: T201

    def say(self, line: str) -> None:
        pass


class _Terminal:
    def __init__(self, tally: Tally, live: Live) -> None:
        self._tally, self._live = tally, live

    def add(self, status: Status, mask: Mask | None) -> None:
        self._tally.add(status, mask)

    def say(self, line: str) -> None:
        self._tally.note = one_line(line, 80)


def _terminal(tally: Tally) -> Iterator[Progress]:
    from rich.console import Console
    from rich.live import Live

    screen = Console(stderr=True, highlight=False)
    with Live(get_renderable=lambda: _text(tally), console=screen, refresh_per_second=4) as live:
        yield _Terminal(tally, live)
        tally.note = ""


def _text(tally: Tally) -> Text:
    from rich.text import Text

    parts: list[Any] = [f"{tally.done}/{tally.total} rollouts  "]
    for status, style in _STYLES.items():
        parts += [(tally.label(status), style if tally.statuses[status] else "dim"), "  "]
    return Text.assemble(*parts, (tally.elapsed, "dim"), (f"  {tally.note}" if tally.note else "", "dim"))


class _Notebook:
    def __init__(self, tally: Tally, handle: Any) -> None:
        self._tally, self._handle = tally, handle
        self._next = 0.0

    def add(self, status: Status, mask: Mask | None) -> None:
        self._tally.add(status, mask)
        self.show()

    def say(self, line: str) -> None:
        self._tally.note = one_line(line, 80)
        self.show()

    def show(self, *, now: bool = False) -> None:
        if now or time.monotonic() >= self._next:
            self._next = time.monotonic() + _NOTEBOOK_EVERY_S
            self._handle.update({"text/html": _html(self._tally), "text/plain": self._tally.line}, raw=True)


def _notebook(tally: Tally) -> Iterator[Progress]:
    """Static HTML, updated in place: right in a saved notebook, and no widget that asks another host for code."""
    display = import_module("IPython.display").display
    first = {"text/html": _html(tally), "text/plain": tally.line}
    shown = _Notebook(tally, display(first, raw=True, display_id=True))
    try:
        yield shown
    finally:
        tally.note = ""
        shown.show(now=True)


def _html(tally: Tally) -> str:
    row = (f"{tally.done} of {tally.total}", *map(tally.label, _STYLES), tally.elapsed)
    note = f"<small>{html_text(tally.note)}</small>" if tally.note else ""
    return html_table(("rollouts", *_STYLES, "time"), [row]) + note
