"""One viewer: what they look at, and what was sent to them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import panel as pn
from anyio import to_thread
from panel.custom import JSComponent

from swe_sdk.dashboard.hub import Hub, Rendered
from swe_sdk.dashboard.page import bridge_script
from swe_sdk.dashboard.state import State
from swe_sdk.errors import SweError

TICK_MS = 1000
_LONGEST_QUERY = 8000


class Bridge(JSComponent):
    """The wire to the browser: queries come, pages go. Nothing is kept in it."""

    _esm = bridge_script()

    def __init__(self, viewer: Viewer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of param
        self._viewer = viewer

    def _handle_msg(self, data: Any) -> None:
        if not isinstance(data, Mapping):
            return
        query, number = data.get("query"), data.get("n")
        if isinstance(query, str) and isinstance(number, int):
            pn.state.execute(partial(self._viewer.goto, query[:_LONGEST_QUERY], number))
        elif "ping" in data:
            self._send_msg({"pong": True})

    def send(self, page: Rendered, number: int, *, is_answer: bool) -> None:
        """Show a page: that of the viewer's query of that number, for the first time or because it changed."""
        self._send_msg({"html": str(page.html), "title": page.title, "n": number, "answer": is_answer})


class Viewer:
    """Lives as long as its browser's tab. A page is sent when it was asked for, or when it is another one than before.

    Pages are rendered in worker threads: a slow one keeps no other viewer waiting.
    """

    def __init__(self, hub: Hub, query: str) -> None:
        self._hub, self._query = hub, query
        self._number = 0
        self._sent = hub.page(query)
        self.bridge = Bridge(self)

    @property
    def first(self) -> Rendered:
        """The page to begin with."""
        return self._sent

    async def goto(self, query: str, number: int) -> None:
        """Go to another state."""
        self._query, self._number = query, number
        page = await to_thread.run_sync(self._hub.page, query)
        if number == self._number:  # else they have gone on already
            self._sent = page
            self.bridge.send(page, number, is_answer=True)

    async def tick(self) -> None:
        """Look whether anything changed, and send the page if it did."""
        query, number = self._query, self._number
        try:
            version = await to_thread.run_sync(self._hub.version, State.parse(query))
        except SweError:  # the page says so
            version = ""
        if version == self._sent.version:
            return
        page = await to_thread.run_sync(self._hub.page, query)
        if (query, number) == (self._query, self._number):
            is_other, self._sent = page.html != self._sent.html, page
            if is_other:
                self.bridge.send(page, number, is_answer=False)
