"""``swe-sdk compare``."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

import anyio

from swe_sdk.cli_grade import fresh_file
from swe_sdk.cli_run_show import show_json
from swe_sdk.cli_show import console, make_table, plain, status_text
from swe_sdk.errors import InputError
from swe_sdk.metrics.comparison import Comparison, TaskPair
from swe_sdk.side_by_side import compare as compare_runs

if TYPE_CHECKING:
    from rich.text import Text

_MAX_ROWS = 60
_WORDS = ("resolved", "unresolved", "masked")


def compare(arguments: argparse.Namespace) -> int:
    """Print what became of each task; 0, or with --strict 1 where a task passes less often."""
    comparison = anyio.run(partial(compare_runs, arguments.run_a, arguments.run_b))
    if arguments.plot is not None:
        _draw(comparison, arguments.plot)
    if arguments.json:
        show_json(comparison.to_dict())
    else:
        show_comparison(comparison, every=arguments.all)
    return int(arguments.strict and bool(comparison.lost))


def _draw(comparison: Comparison, name: str) -> None:
    from matplotlib.figure import Figure  # not pyplot, which may look for a screen

    path = fresh_file(name)
    figure = Figure(figsize=(9, 9), layout="constrained")
    comparison.plot(ax=figure.add_subplot())
    try:
        figure.savefig(path, dpi=150)  # type: ignore[arg-type]  # a path was given, so it is one
    except ValueError as error:
        raise InputError(f"cannot draw {name}: {error}", remedy="name a .png, .svg or .pdf file") from error


def show_comparison(comparison: Comparison, *, every: bool) -> None:
    """A table of the tasks that differ (or of all), and the summary."""
    screen = console()
    order = sorted(comparison, key=lambda pair: pair.change == "same")
    rows = [pair for pair in order if every or pair.change != "same"]
    table = make_table("task", "change", "a", "b")
    for pair in rows[:_MAX_ROWS]:
        table.add_row(plain(pair.instance_id), *_cells(pair))
    if rows:
        screen.print(table)
    if len(rows) > _MAX_ROWS:
        screen.print(f"and {len(rows) - _MAX_ROWS} more")
    names = f"a: {comparison.a}\nb: {comparison.b}"
    screen.print(f"\n{names}\n{comparison.summary}", markup=False, soft_wrap=True)


def _cells(pair: TaskPair) -> list[Text]:
    verdicts = (pair.verdict_a, pair.verdict_b)
    return [plain(pair.change), *(status_text(each) if each in _WORDS else plain(each or "-") for each in verdicts)]
