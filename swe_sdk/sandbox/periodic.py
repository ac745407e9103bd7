"""Something that is done again and again while this process lives, for objects that serve many event loops."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable

import anyio


class Periodic:
    """Does ``work`` every ``interval_s`` seconds, in a thread of its own, whose event loop lives as long as one turn.

    The process may end in the middle of it.
    """

    def __init__(self, name: str, interval_s: float, work: Callable[[], Awaitable[None]]) -> None:
        self._name = name
        self._interval_s = interval_s
        self._work = work
        self.forget()

    def forget(self) -> None:
        """In a forked child, where the thread does not exist; also makes it stopped at first."""
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, if it has not begun yet."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(self._stopped,), name=self._name, daemon=True)
            self._thread.start()

    def stop(self, cap_s: float = 5.0) -> None:
        """End, or leave it to its end after ``cap_s`` seconds where something holds it up; may be started again."""
        thread, stopped = self._thread, self._stopped
        self.forget()
        stopped.set()
        if thread is not None:
            thread.join(cap_s)

    def _run(self, stopped: threading.Event) -> None:
        while not stopped.wait(self._interval_s):
            anyio.run(self._work)
