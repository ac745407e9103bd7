"""Tables for the terminal."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from swe_sdk.grading.health import KINDS, Health
from swe_sdk.grading.outcomes import Outcomes
from swe_sdk.model.outcome import Outcome
from swe_sdk.shown import neutral, one_line
from swe_sdk.store.results import Results

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_MAX_ROWS = 60
_MAX_CELL = 160
_PIPE_WIDTH = 160
_STYLES = {
    "resolved": "bold green",
    "unresolved": "red",
    "masked": "bold yellow",
    "healthy": "bold green",
    "unhealthy": "red",
    "unknown": "bold yellow",
}


def console(*, stderr: bool = False) -> Console:
    """The terminal; into a pipe or a file, plain text of a fixed width."""
    from rich.console import Console

    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, width=None if is_terminal else _PIPE_WIDTH)


def show_outcomes(outcomes: Outcomes, results: Results) -> None:
    """A table of outcomes, their summary, and where they are."""
    screen = console()
    screen.print(_filled(outcomes))
    _and_more(screen, len(outcomes))
    show_masks(screen, outcomes)
    screen.print(f"\n{outcomes.summary}\nresults: {results.path}", markup=False, soft_wrap=True)


def show_health(health: Health, results: Results) -> None:
    """A table of tasks, their health, and where the runs are."""
    screen = console()
    table = make_table("task", "health", *KINDS, "flaky", "s", "MiB", "why")
    for task in health[:_MAX_ROWS]:
        why = "; ".join((*task.problems, *((task.mask,) if task.mask else ())))
        runs = (plain(task.passed(kind)) for kind in KINDS)
        figures = (str(len(task.flaky) or ""), _figure(task.seconds, 2), _figure(task.disk_mib, 0))
        table.add_row(plain(task.instance_id), status_text(task.status), *runs, *figures, plain(why))
    screen.print(table)
    _and_more(screen, len(health))
    for name, tests in health.flaky.items():
        screen.print(neutral(f"\nflaky in {name}: {', '.join(tests)}"), markup=False, soft_wrap=True)
    for tool, names in health.missing_tools.items():
        screen.print(neutral(f"\nmissing: {tool}, for {', '.join(names)}"), markup=False, soft_wrap=True)
    screen.print(f"\n{health.summary}\nresults: {results.path}", markup=False, soft_wrap=True)


def _figure(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def outcome_table(*first: str) -> Table:
    """An empty table of some columns and those of :func:`outcome_cells`, with a line for each outcome.

    What does not fit there is cut: names of failed tests are long, and stand in the Outcome.
    """
    table = make_table(*first, "status", "reward", "tests", "seconds", "why")
    why = table.columns[-1]
    table.expand, why.ratio, why.no_wrap, why.overflow = True, 1, True, "ellipsis"
    return table


def _filled(outcomes: Outcomes) -> Table:
    table = outcome_table("task")
    for outcome in outcomes[:_MAX_ROWS]:
        table.add_row(plain(outcome.instance_id), *outcome_cells(outcome))
    return table


def show_masks(screen: Console, outcomes: Iterable[Outcome]) -> None:
    """A line for each different mask, in full: what to do about it is at its end, which a table would cut."""
    masks = [outcome.mask for outcome in outcomes if outcome.mask is not None]
    for line, times in Counter(f"{mask.kind} in {mask.stage}: {mask.reason}" for mask in masks).items():
        screen.print(neutral(f"\nmasked, {times} x: {line}"), markup=False, soft_wrap=True)


def outcome_cells(outcome: Outcome) -> tuple[Text, Text, Text, Text, Text]:
    """Status, reward, counts of tests, seconds, and why."""
    reward = "-" if outcome.masked else f"{outcome.reward:.1f}"
    seconds = f"{outcome.timings_s.get('total', 0.0):.1f}"
    why = plain(outcome.reason or "every required test passed")
    return status_text(outcome.status), plain(reward), plain(outcome.counts), plain(seconds), why


def status_text(status: str) -> Text:
    """A status in its colour."""
    from rich.text import Text

    return Text(status, style=_STYLES.get(status, ""))


def make_table(*headings: str) -> Table:
    """An empty table."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        right = heading in ("reward", "seconds")
        table.add_column(heading, justify="right" if right else "left", overflow="fold", no_wrap=right)
    return table


def plain(text: str) -> Text:
    """Text of a task or a program: never read as markup or control codes, cut to what a table can hold."""
    from rich.text import Text

    return Text(one_line(text, _MAX_CELL))


def _and_more(screen: Console, rows: int) -> None:
    if rows > _MAX_ROWS:
        screen.print(f"and {rows - _MAX_ROWS} more")
