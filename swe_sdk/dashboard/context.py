"""What a view gets to work with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from swe_sdk.dashboard.escape import Child, Html, el
from swe_sdk.dashboard.once import Once
from swe_sdk.dashboard.show import status_pill
from swe_sdk.dashboard.state import State
from swe_sdk.store.index import RunIndex
from swe_sdk.store.rows import RolloutRow, RunRow
from swe_sdk.store.standing import word_of

T = TypeVar("T")


@dataclass(frozen=True)
class Context:
    """The store, what is asked for, and when. A view has no other source of anything."""

    index: RunIndex
    state: State
    root: Path
    """The directory that the dashboard was opened on: one run, or a directory of runs."""
    now: float
    """Unix seconds."""
    known: Once = field(default_factory=Once)
    """What was computed of this version of the store already, for any viewer; see :meth:`once`."""

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """``make()``, or what it gave to whoever asked for this key of this version of the store before."""
        return self.known(key, make)

    def href(self, **changes: Any) -> str:
        """Link to this state with some changes (see :meth:`State.but`); ``view=`` another one keeps the runs only."""
        view = changes.pop("view", self.state.view)
        target = self.state.but(**changes) if view == self.state.view else self.state.goto(view, **changes)
        return f"?{target.query}"

    def link(self, label: Child, *, cls: str | None = None, title: str | None = None, **changes: Any) -> Html:
        """``<a>`` to this state with some changes."""
        return el("a", label, href=self.href(**changes), cls=cls, title=title)

    def rollout_link(self, run: str, rollout_id: str, label: Child = None, **changes: Any) -> Html:
        """``<a>`` to a rollout's page."""
        target = State(view="rollout", run=(run,), rollout=rollout_id).but(**changes)
        return el("a", label if label is not None else rollout_id, href=f"?{target.query}", title=rollout_id)

    @property
    def all_runs(self) -> list[RunRow]:
        """All runs, the newest first."""
        return self.once("runs", self.index.runs)

    def run_of(self, rollout: RolloutRow) -> RunRow:
        """The run that it is of."""
        known = self.once("runs by name", lambda: {row.run: row for row in self.all_runs})
        return known.get(rollout.run) or self.index.run(rollout.run)  # one that has begun since

    def status_of(self, rollout: RolloutRow) -> Html:
        """How it stands, as a pill; one that was going on when its run ended is cut off."""
        return status_pill(word_of(self.run_of(rollout), rollout.status))

    def counts(self, column: str, runs: tuple[str, ...] = ()) -> list[tuple[str, int]]:
        """Values of a column of facets, and how many rollouts have them; the most frequent first, empty ones left out.

        ``runs`` = of these alone; none = of all.
        """
        return self.once(("counts", column, runs), lambda: self._counted(column, frozenset(runs)))

    def _counted(self, column: str, runs: frozenset[str]) -> list[tuple[str, int]]:
        found: Counter[str] = Counter()
        for facet in self.once("facets", self.index.facets):
            if value := getattr(facet, column):
                found[value] += facet.rollouts if not runs or facet.run in runs else 0
        there = [(value, number) for value, number in found.items() if number]
        return sorted(there, key=lambda pair: (-pair[1], pair[0]))

    @property
    def runs(self) -> list[RunRow]:
        """The runs that the state is about; all of them where it names none. The newest first."""
        rows = self.all_runs
        return [row for row in rows if row.run in self.state.run] if self.state.run else rows

    @property
    def run(self) -> str | None:
        """The run that the state names, or the only one there is; else None."""
        if len(self.state.run) == 1:
            return self.state.run[0]
        return self.all_runs[0].run if len(self.all_runs) == 1 and not self.state.run else None
