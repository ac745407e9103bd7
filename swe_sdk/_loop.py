"""The one background event loop that every blocking call runs on.

A thread of our own, so that blocking calls work in a notebook, whose thread already runs a loop. Not
``start_blocking_portal()``: kept open for the life of a process, it hangs a forked child.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from swe_sdk.errors import BlockedLoop, InputError, PrerequisiteError

P = ParamSpec("P")
R = TypeVar("R")

_INTERRUPT_CAP_S = 30.0
"""How long an interrupted call may take to tear its sandboxes down."""
_EXIT_CAP_S = 20.0


class LoopThread:
    """A thread with an event loop, started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._portal: BlockingPortal | None = None
        self._thread: threading.Thread | None = None

    def portal(self) -> BlockingPortal:
        """The portal, its thread started on first use."""
        with self._lock:
            if self._portal is None:
                ready: Future[BlockingPortal] = Future()
                self._thread = threading.Thread(target=_run_portal, args=(ready,), name="swe_sdk", daemon=True)
                self._thread.start()
                self._portal = ready.result()
            return self._portal

    def run(self, main: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine function to its end; Ctrl-C cancels it and waits for its own cleanup."""
        __tracebackhide__ = True  # notebooks and pytest leave such frames out
        portal = self.portal()
        if threading.current_thread() is self._thread:
            remedy = "await swe_sdk.aio there, or make the call when this one is over"
            raise BlockedLoop("a blocking call of swe_sdk within a callback of another one", remedy=remedy)
        ended = threading.Event()

        async def run_and_tell() -> R:
            try:
                return await main()
            finally:
                ended.set()

        # in the caller's context, so that what it prints reaches the notebook cell that called
        future: Future[R] = contextvars.copy_context().run(portal.start_task_soon, run_and_tell)
        try:
            return future.result()
        except Exception as error:
            error.__traceback__ = _shown(error)
            raise
        except KeyboardInterrupt:
            future.cancel()
            print("swe_sdk: interrupted, closing sandboxes ...", file=sys.stderr, flush=True)  # noqa: T201
            ended.wait(_INTERRUPT_CAP_S)
            raise

    def close(self) -> None:
        """Cancel what still runs, and end the thread."""
        with self._lock:
            portal, self._portal = self._portal, None
            thread, self._thread = self._thread, None
        if portal is not None and thread is not None:
            portal.start_task_soon(portal.stop, True)
            thread.join(_EXIT_CAP_S)

    def forget(self) -> None:
        """In a forked child, where the thread does not exist."""
        self._lock = threading.Lock()
        self._portal = self._thread = None


def _shown(error: Exception) -> TracebackType | None:
    """Of an error's traceback what tells a caller something: not the way through this loop and its futures.

    Where the argument or the machine is at fault, the message says all, and frames of the SDK would only bury it.
    """
    if isinstance(error, InputError | PrerequisiteError):
        return None
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_name != "run_and_tell":
        frames = frames.tb_next
    return error.__traceback__ if frames is None else frames.tb_next


def _run_portal(ready: Future[BlockingPortal]) -> None:
    async def main() -> None:
        async with BlockingPortal() as portal:
            ready.set_result(portal)
            await portal.sleep_until_stopped()

    try:
        anyio.run(main)
    except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for the portal
        if not ready.done():
            ready.set_exception(error)


_LOOP = LoopThread()
atexit.register(_LOOP.close)
os.register_at_fork(after_in_child=_LOOP.forget)


def blocking(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """The blocking twin of an async function: same arguments, same result, same documentation."""

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        return _LOOP.run(lambda: function(*args, **kwargs))

    for attribute in ("__name__", "__qualname__", "__doc__"):
        setattr(call, attribute, getattr(function, attribute))
    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


class BlockingMethod(Generic[P, R]):
    """The blocking twin of an async method, on a class that keeps the async object in ``_async``."""

    def __init__(self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[P, R]:
        if instance is None:
            return self._method  # type: ignore[return-value]  # on the class: the documented function
        method, target = self._method, instance._async

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            __tracebackhide__ = True
            return _LOOP.run(lambda: method(target, *args, **kwargs))

        call.__doc__ = method.__doc__
        call.__wrapped__ = method.__get__(target)  # type: ignore[attr-defined]  # notebooks show its signature
        return call
