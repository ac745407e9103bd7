"""One viewer: what they look at, and what was sent to them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import panel as pn
from anyio import to_thread
from panel.custom import JSComponent

from swe_sdk.dashboard.hub import Hub, Rendered
from swe_sdk.dashboard.page import bridge_script
from swe_sdk.dashboard.state import State

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
        elif "got" in data:
            self._viewer.has_read()
        elif "ping" in data:
            self._send_msg({"pong": True})

    def send(self, page: Rendered, number: int, *, is_answer: bool) -> None:
        """Show a page: that of the viewer's query of that number, for the first time or because it changed."""
        self._send_msg({"html": str(page.html), "title": page.title, "n": number, "answer": is_answer})


class Viewer:
    """Lives as long as its browser's tab. A page is sent when it was asked for, or when it is another one than before.

    Pages are rendered in worker threads, one at a time: a slow one keeps no other viewer waiting, and whoever asks
    faster than pages can be made gets the last one. What changes is sent once the page before has arrived: a browser
    that is asleep, or far away, has one page waiting for it, and not one for each second.
    """

    def __init__(self, hub: Hub, query: str) -> None:
        self._hub = hub
        self._asked = _Asked(query, 0)
        self._is_making = False
        self._on_the_way = 0
        self._sent = hub.page(query)
        self.bridge = Bridge(self)

    @property
    def first(self) -> Rendered:
        """The page to begin with."""
        return self._sent

    async def goto(self, query: str, number: int) -> None:
        """Go to another state."""
        self._asked = _Asked(query, number)
        if not self._is_making:  # else whoever is at it goes on with this one
            self._is_making = True
            try:
                await self._answer()
            finally:
                self._is_making = False

    async def _answer(self) -> None:
        answered = None
        while answered is not self._asked:
            answered = self._asked
            page = await to_thread.run_sync(self._hub.page, answered.query)
            if answered is self._asked:
                self._send(page, is_answer=True)

    async def tick(self) -> None:
        """Look whether anything changed, and send the page if it did."""
        asked = self._asked
        if self._is_making or self._on_the_way:
            return
        version = await to_thread.run_sync(self._hub.version, State.parse(asked.query))
        if version == self._sent.version:
            return
        page = await to_thread.run_sync(self._hub.page, asked.query)
        if asked is self._asked and not self._is_making:
            if page.html != self._sent.html:
                self._send(page, is_answer=False)
            self._sent = page

    def has_read(self) -> None:
        """A page has arrived."""
        self._on_the_way = max(0, self._on_the_way - 1)

    def _send(self, page: Rendered, *, is_answer: bool) -> None:
        self._sent = page
        self._on_the_way += 1
        self.bridge.send(page, self._asked.number, is_answer=is_answer)


class _Asked(NamedTuple):
    query: str
    number: int
