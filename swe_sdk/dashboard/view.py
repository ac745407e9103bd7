"""What a view is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Html

CsvRows = Callable[[Context], Iterator[Sequence[object]]]
"""Rows of an export, the head first. It may take its time: it runs in a thread, and its rows are sent as they come."""


@dataclass(frozen=True)
class View:
    """One page of the dashboard. Each module in ``views/`` has one, called ``VIEW``."""

    name: str
    """In the URL: ``?view=<name>``."""
    title: str
    render: Callable[[Context], Html]
    """The page's content, below the header. Called in a worker thread, at most once for each state and version of the
    store, however many look at it. What it raises as ``SweError`` is shown with its remedy."""
    hint: str = ""
    """One line: which question it answers."""
    pulse: Callable[[Context], object] | None = None
    """For views that show what is not in the store (live sandboxes): a cheap value that changes when that does. Asked
    each second while somebody looks."""
    exports: Mapping[str, CsvRows] = field(default_factory=dict)
    """By name, for ``components.csv_link``: what this view can give away as CSV."""
    in_menu: bool = True
    under: str = ""
    """The view of the menu that it belongs to, where it is not in the menu itself."""
