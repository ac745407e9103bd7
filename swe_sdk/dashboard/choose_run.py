"""For views of one run: which one, where there are several."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from swe_sdk.dashboard.components import Column, card, table
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Html, cut
from swe_sdk.dashboard.run_state import state_of
from swe_sdk.dashboard.show import ago
from swe_sdk.store.rows import RunRow


def choose_run(context: Context, more: Sequence[Column[RunRow]], *, among: Callable[[RunRow], bool], note: str) -> Html:
    """A table of runs, each a link to this view of it; those that have nothing to show are left out and counted."""
    every = context.runs
    rows = [row for row in every if among(row)]
    shown = [
        Column[RunRow]("run", lambda row: cut(row.run, 80), cls="grow"),
        Column[RunRow]("state", lambda row: state_of(row).pill),
        *more,
        Column[RunRow]("began", lambda row: ago(row.started_at), cls="num"),
    ]

    def href(row: RunRow) -> str:
        return context.href(run=(row.run,))

    left_out = len(every) - len(rows)
    told = f"{note}; {left_out} more have none" if left_out else note
    return card("Choose a run", table(context, shown, rows, key=lambda row: row.run, href=href), note=told, cls="wide")
