"""What all viewers of one server share: the index, and pages that were rendered already."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from pathlib import Path
from typing import NamedTuple

from swe_sdk.dashboard.components import problem
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Html
from swe_sdk.dashboard.frame import framed, title_of
from swe_sdk.dashboard.once import Once
from swe_sdk.dashboard.state import State
from swe_sdk.dashboard.views import views
from swe_sdk.errors import IndexDamaged, SweError
from swe_sdk.store.follow import Told
from swe_sdk.store.index import RunIndex, open_index

_LOG = logging.getLogger(__name__)
_KEPT = 24
_ASK_AGAIN = "This page looks again each second, and goes on by itself once they can be."
_LOOK_EVERY_S = 0.5


class Rendered(NamedTuple):
    """A page as somebody sees it. ``version`` is that of what it shows."""

    html: Html
    title: str
    version: str


class Hub:
    """The store as viewers see it. Any thread may use it; it only reads."""

    def __init__(self, root: Path, told: Told | None = None) -> None:
        self.root = root
        self.index: RunIndex = open_index(root, told=told)
        self._rendered = Once(_KEPT)
        self._looking = threading.Lock()
        self._looked_at, self._version = 0.0, ""
        self._known = Once()
        self._told = ""

    def version(self, state: State) -> str:
        """Another text whenever anything that a state shows has changed. Looks at the disk twice a second at most.

        Never fails: what is wrong is the version then, and the page says it.
        """
        try:
            return self._store_version() + self._pulse(state)
        except (SweError, OSError, sqlite3.Error) as error:
            return self._tell(error)

    def page(self, query: str) -> Rendered:
        """The page for a query; the same as before where nothing has changed. Never fails: it says what is wrong."""
        state = State.parse(query)
        try:
            version = self._store_version() + self._pulse(state)
            key = (state.query, state.problems, version)
            return self._rendered(key, lambda: Rendered(self._render(state), title_of(state), version))
        except SweError as error:  # of the index itself: its disk is full, say
            return self._unreadable(state, error, error.message, error.remedy)
        except (OSError, sqlite3.Error) as error:
            return self._unreadable(state, error, f"{type(error).__name__}: {error}", _ASK_AGAIN)

    def _unreadable(self, state: State, error: Exception, what: str, remedy: str) -> Rendered:
        return Rendered(problem("The runs cannot be read", what, remedy), title_of(state), self._tell(error))

    def _tell(self, error: Exception) -> str:
        """Log what is wrong once, however many look at it each second."""
        told = f"{type(error).__name__}: {error}"
        if told != self._told:
            self._told = told
            _LOG.warning("the runs below %s cannot be read: %s", self.root, told)
        return told

    def _pulse(self, state: State) -> str:
        view = views().get(state.view)
        if view is None or view.pulse is None:
            return ""
        try:
            return f"/{view.pulse(self.context(state))}"
        except Exception:  # noqa: BLE001  the page itself says what is wrong, and the clock of all viewers goes on
            _LOG.exception("the pulse of the view %s failed", state.view)
            return ""

    def context(self, state: State) -> Context:
        """What a view gets."""
        return Context(index=self.index, state=state, root=self.root, now=time.time(), known=self._known)

    def close(self) -> None:
        """Close the index."""
        self.index.close()

    def _render(self, state: State) -> Html:
        context = self.context(state)
        view = views().get(state.view)
        try:
            if view is None:
                body = problem(f"There is no view {state.view!r}", "The menu above has those that there are.")
            else:
                body = self._body(context)
        except SweError as error:
            body = problem("This cannot be shown", error.message, error.remedy)
        except Exception as error:  # noqa: BLE001  a row that nobody thought of must not take the other views away
            _LOG.exception("the view %s failed for %s", state.view, state.query)
            what = f"{type(error).__name__}: {error}"
            body = problem("This view failed", what, "The others go on. Please report it, with the link of this page.")
        return framed(context, body)

    def _body(self, context: Context) -> Html:
        view = views()[context.state.view]
        try:
            return view.render(context)
        except IndexDamaged:  # it was made anew just now
            self.index.refresh()
            return view.render(context)

    def _store_version(self) -> str:
        with self._looking:
            if time.monotonic() - self._looked_at > _LOOK_EVERY_S:
                version = self._look()
                if version != self._version:
                    self._version, self._known = version, Once()
                self._looked_at = time.monotonic()
            return self._version

    def _look(self) -> str:
        try:
            return self.index.version()
        except IndexDamaged:  # it was made anew just now
            return self.index.version()
