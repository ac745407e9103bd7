"""The end of a file of a rollout."""

from __future__ import annotations

from swe_sdk.notebook.amounts import size
from swe_sdk.notebook.blocks import Facts, Pre, View, Word
from swe_sdk.runs.log import Log

_SHOWN_LINES = 20


def log_view(log: Log) -> View:
    """Its last lines."""
    title = (Word(log.name, "strong"), Word(f"  attempt {log.row.attempt}, {size(log.size_bytes)}", "muted"))
    more = Facts((("more", Word("log.lines(first, count), log.find(text), log.tail(lines)", "code")),))
    return View(title, (Pre(log.tail(_SHOWN_LINES), "its end"), more))
