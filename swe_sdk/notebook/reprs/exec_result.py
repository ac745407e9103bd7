"""What came of a command."""

from __future__ import annotations

from swe_sdk.model.exec_result import ExecResult
from swe_sdk.notebook.amounts import many, seconds, size
from swe_sdk.notebook.blocks import Badge, Block, Facts, Pre, View, Word
from swe_sdk.notebook.palette import STATUS, Style

_LOOKS = {"exited": "unresolved", "timeout": "masked", "oom": "masked", "lost": "masked"}


def exec_result_view(result: ExecResult) -> View:
    """How it ended, how long it took, and what it printed."""
    title = (Badge(_style(result), result.summary), Word(f"  {seconds(result.duration_s)}", "muted"))
    facts = Facts((("whole output in", result.output_file and Word(result.output_file, "code")),))
    out = _output("stdout", result.stdout, len(result.stdout_bytes), result.stdout_dropped_bytes)
    err = _output("stderr", result.stderr, len(result.stderr_bytes), result.stderr_dropped_bytes)
    return View(title, (facts, *out, *err))


def _style(result: ExecResult) -> Style:
    return STATUS["resolved" if result.ok else _LOOKS[result.status]]


def _output(name: str, text: str, kept_bytes: int, dropped_bytes: int) -> tuple[Block, ...]:
    if not kept_bytes:
        return ()
    cut = f", {size(dropped_bytes)} of its middle were not kept" if dropped_bytes else ""
    lines = text.count("\n") + (not text.endswith("\n"))
    return (Pre(text, f"{name}: {many(lines, 'line')}, {size(kept_bytes)}{cut}"),)
