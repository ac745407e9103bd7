"""What is asked of engines and not of the store: in the background, and by many viewers as by one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
_MOST = 64


class Answer(NamedTuple, Generic[T]):
    """What was found, and when (Unix seconds)."""

    found: T
    at: float


class Asked(Generic[T]):
    """Calls a function for a key, in a thread of its own, at most once in ``every_s`` seconds.

    An engine may take its time, and nobody's page waits for it: whoever asks gets what is known, be it older. Any
    thread may ask, that of an event loop too.
    """

    def __init__(self, ask: Callable[[Hashable], T], every_s: float) -> None:
        self._ask, self._every_s = ask, every_s
        self._known: dict[Hashable, Answer[T]] = {}
        self._errors: dict[Hashable, Exception] = {}
        self._began: dict[Hashable, tuple[float, Future[None]]] = {}
        self._lock = threading.Lock()

    def __call__(self, key: Hashable, wait_s: float = 0.3) -> Answer[T] | None:
        """The newest answer; None where there is none yet. Waits for a new one for ``wait_s`` seconds at most.

        Raises what the function raised, where that is newer than any answer.
        """
        wait_for([self._asking(key)], timeout=wait_s)
        with self._lock:
            if key in self._errors:
                raise self._errors[key]
            return self._known.get(key)

    def _asking(self, key: Hashable) -> Future[None]:
        with self._lock:
            began, asking = self._began.get(key, (0.0, None))
            if asking is not None and (not asking.done() or time.monotonic() - began < self._every_s):
                return asking
            asking = Future()
            self._make_room(key)
            self._began[key] = (time.monotonic(), asking)
        threading.Thread(target=self._run, args=(key, asking), name="swe_sdk dashboard asks", daemon=True).start()
        return asking

    def _make_room(self, key: Hashable) -> None:
        for old in list(self._began)[: max(0, len(self._began) - _MOST)]:
            if old != key and self._began[old][1].done():
                for table in (self._began, self._known, self._errors):
                    table.pop(old, None)

    def _run(self, key: Hashable, asking: Future[None]) -> None:
        try:
            answer = Answer(self._ask(key), time.time())
        except Exception as error:  # noqa: BLE001  raised to whoever asks
            with self._lock:
                self._errors[key] = error
        else:
            with self._lock:
                self._known[key] = answer
                self._errors.pop(key, None)
        asking.set_result(None)
