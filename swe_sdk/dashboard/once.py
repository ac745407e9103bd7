"""Things that are made once, however many ask for them at the same time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Once:
    """Keeps what was made for a key; of more than ``most`` keys, those that were asked for longest ago are forgotten.

    Any thread may ask: whoever asks for what is being made waits for it.
    """

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._made: OrderedDict[Hashable, Future[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._made)

    def __call__(self, key: Hashable, make: Callable[[], T]) -> T:
        """``make()``, or what it gave to whoever asked before. An error is for all who wait, and is not kept."""
        with self._lock:
            is_mine = key not in self._made
            made = self._made.setdefault(key, Future())
            self._made.move_to_end(key)
            while len(self._made) > self._most:
                self._made.popitem(last=False)
        if is_mine:
            self._make(key, made, make)
        return cast(T, made.result())

    def _make(self, key: Hashable, made: Future[Any], make: Callable[[], Any]) -> None:
        try:
            made.set_result(make())
        except BaseException as error:  # noqa: BLE001  raised to all who wait for it
            made.set_exception(error)
            with self._lock:
                if self._made.get(key) is made:
                    del self._made[key]
