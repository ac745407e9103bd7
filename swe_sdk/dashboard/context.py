"""What a view gets to work with."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from swe_sdk.dashboard.escape import Child, Html, el
from swe_sdk.dashboard.state import State
from swe_sdk.store.index import RunIndex
from swe_sdk.store.rows import RunRow

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
    known: dict[Hashable, Any] = field(default_factory=dict)
    """What was computed of this version of the store already, for any viewer; see :meth:`once`."""

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """``make()``, or what it gave to whoever asked for this key of this version of the store before."""
        if key not in self.known:
            self.known[key] = make()
        return cast(T, self.known[key])

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
