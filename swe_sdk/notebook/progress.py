"""Progress, drawn: static HTML that is updated in place in a notebook, a live line on a terminal.

No widget: a saved notebook shows the last state, and no page asks another host for code.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from swe_sdk.notebook.blocks import Bar, Line, Segment, View, Word
from swe_sdk.notebook.palette import STATUS, VERDICT
from swe_sdk.notebook.render_html import render_html
from swe_sdk.progress import Place, Show, Tally

if TYPE_CHECKING:
    from rich.text import Text

_NOTEBOOK_EVERY_S = 0.5
_TICK_S = 1.0
_REDRAWS_A_SECOND = 4
_BAR = 16
_STYLES = {"resolved": "bold green", "unresolved": "red", "masked": "bold yellow"}
TERMINAL = threading.Lock()
"""Two live lines on one terminal would overwrite each other: the second one stays silent."""


def drawn(tally: Tally, place: Place) -> AbstractContextManager[Show]:
    """Draw a tally as long as the block runs; call what it gives whenever the tally has changed."""
    return _notebook(tally) if place == "notebook" else _terminal(tally)


@contextmanager
def _notebook(tally: Tally) -> Iterator[Show]:
    cell = _Cell(tally)
    ended = threading.Event()
    # in the context of the call, so that a tick reaches the cell that called
    ticks = threading.Thread(target=contextvars.copy_context().run, args=(_tick, cell, ended), daemon=True)
    ticks.start()
    try:
        yield cell.show
    finally:
        ended.set()
        ticks.join()
        tally.note = "" if tally.done >= tally.total else "stopped"
        cell.show(now=True)


def _tick(cell: _Cell, ended: threading.Event) -> None:
    """The time goes on while nothing happens."""
    while not ended.wait(_TICK_S):
        cell.show(now=True)


class _Cell:
    """A picture in the output of a cell."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._lock = threading.Lock()
        self._next = 0.0
        self._handle: Any = import_module("IPython.display").display(self._bundle(), raw=True, display_id=True)

    def show(self, *, now: bool = False) -> None:
        with self._lock:
            if now or time.monotonic() >= self._next:
                self._next = time.monotonic() + _NOTEBOOK_EVERY_S
                self._handle.update(self._bundle(), raw=True)

    def _bundle(self) -> dict[str, str]:
        return {"text/html": render_html(_view(self._tally)), "text/plain": self._tally.line}


def _view(tally: Tally) -> View:
    segments = [Segment(VERDICT[name], tally.statuses[name], f"{tally.statuses[name]:,}") for name in VERDICT]
    left = max(0, tally.total - tally.done)
    rest = [Segment(STATUS["queued"].named("to do"), left, f"{left:,}")] if left else []
    title = (Word(f"{tally.done:,} of {tally.total:,} {tally.unit}", "strong"), Word(f"  {tally.times}", "muted"))
    kinds = ", ".join(f"{kind} {count}" for kind, count in tally.masks.most_common())
    masks = Line((Word(f"masked: {kinds}", "muted"),)) if kinds else None
    note = Line((Word(tally.note, "muted"),)) if tally.note else None
    return View(title, (Bar((*segments, *rest)), masks, note))


@contextmanager
def _terminal(tally: Tally) -> Iterator[Show]:
    if not TERMINAL.acquire(blocking=False):
        yield lambda: None
        return
    try:
        yield from _live_line(tally)
    finally:
        TERMINAL.release()


def _live_line(tally: Tally) -> Iterator[Show]:
    from rich.console import Console
    from rich.live import Live

    screen = Console(stderr=True, highlight=False)
    with Live(get_renderable=lambda: _text(tally), console=screen, refresh_per_second=_REDRAWS_A_SECOND):
        yield lambda: None  # it looks at the tally by itself
        tally.note = ""


def _text(tally: Tally) -> Text:
    from rich.text import Text

    full = round(_BAR * tally.done / tally.total) if tally.total else _BAR
    parts: list[Any] = [
        ("━" * full, "green"),
        ("━" * (_BAR - full), "dim"),
        f" {tally.done}/{tally.total} {tally.unit}  ",
    ]
    for status, style in _STYLES.items():
        parts += [(tally.label(status), style if tally.statuses[status] else "dim"), "  "]
    return Text.assemble(*parts, (tally.times, "dim"), (f"  {tally.note}" if tally.note else "", "dim"))
