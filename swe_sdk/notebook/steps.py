"""What takes so long, drawn: the steps of a build or a pull, as one line that is written over.

Nothing is drawn before the first step: what is ready already says nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from swe_sdk.notebook.amounts import clipped, seconds
from swe_sdk.notebook.blocks import Badge, View, Word
from swe_sdk.notebook.palette import STATUS
from swe_sdk.notebook.progress import TERMINAL
from swe_sdk.notebook.render_html import render_html
from swe_sdk.progress import Place
from swe_sdk.shown import one_line

if TYPE_CHECKING:
    from rich.status import Status

_EVERY_S = 0.5
_NOTE = 100


@contextmanager
def drawn_steps(place: Place, of: str) -> Iterator[Callable[[str], None]]:
    """Call what it gives with each step; the line goes, or says how long it took, when the block ends."""
    line = _Cell(of) if place == "notebook" else _Terminal()
    try:
        yield line.say
    except BaseException:
        line.end("stopped")
        raise
    line.end("resolved")


class _Cell:
    """A line in the output of the cell that called."""

    def __init__(self, of: str) -> None:
        self._of = of
        self._started = time.monotonic()
        self._next = 0.0
        self._last = ""
        self._handle: Any = None

    def say(self, step: str) -> None:
        self._last = one_line(step, _NOTE)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_S
            self._show("running", self._last)

    def end(self, status: str) -> None:
        if self._handle is not None:
            took = seconds(time.monotonic() - self._started)
            self._show(status, f"took {took}" if status == "resolved" else f"{self._last}, after {took}")

    def _show(self, status: str, text: str) -> None:
        title = (Badge(STATUS[status], self._of), " ", Word(clipped(text, _NOTE), "muted"))
        bundle = {"text/html": render_html(View(title)), "text/plain": f"{self._of}: {text}"}
        if self._handle is None:
            self._handle = import_module("IPython.display").display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


class _Terminal:
    """A line with a spinner on standard error, which goes at the end; none where another live line is drawn."""

    def __init__(self) -> None:
        self._status: Status | None = None

    def say(self, step: str) -> None:
        from rich.text import Text

        text = Text(one_line(step, _NOTE))
        if self._status is not None:
            self._status.update(text)
        elif TERMINAL.acquire(blocking=False):
            self._status = _spinner(text)

    def end(self, _status: str) -> None:
        if self._status is not None:
            self._status.stop()
            TERMINAL.release()


def _spinner(text: Any) -> Status:
    from rich.console import Console

    status = Console(stderr=True).status(text)
    status.start()
    return status
