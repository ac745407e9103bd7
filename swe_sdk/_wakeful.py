"""A beat within awaited calls, so that the stop button of a notebook reaches them.

The kernel of a notebook (ipykernel) cancels an awaiting cell from a signal handler, which does not wake an event loop
that waits: without a timer of our own the cell would go on until the loop had something else to do
(https://github.com/ipython/ipykernel/issues/881).
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_BEAT_S = 0.2


def wakeful(function: Callable[P, Coroutine[object, object, R]]) -> Callable[P, Coroutine[object, object, R]]:
    """The same coroutine function; while it runs in the loop of a notebook, that loop wakes up several times a second.

    Elsewhere nothing is added: other loops wake up when they are interrupted.
    """

    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True  # notebooks and pytest leave this frame out
        with beating():
            return await function(*args, **kwargs)

    return call


@contextmanager
def beating() -> Iterator[None]:
    """Wake the loop of a notebook while the block runs."""
    loop = _loop_of_cell()
    if loop is None:
        yield
        return
    beat = _Beat(loop)
    try:
        yield
    finally:
        beat.timer.cancel()


class _Beat:
    """A timer that starts itself anew; what a loop waits for never takes longer than to its next timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.again()

    def again(self) -> None:
        self.timer = self._loop.call_later(_BEAT_S, self.again)


def _loop_of_cell() -> asyncio.AbstractEventLoop | None:
    """The running loop of a kernel's main thread, where signals arrive; None elsewhere."""
    if "ipykernel" not in sys.modules or threading.current_thread() is not threading.main_thread():
        return None
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None  # no loop of asyncio's: trio wakes up by itself
