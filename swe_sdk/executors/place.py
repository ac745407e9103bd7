"""What a job finds where it runs: the name of the node, and things that are kept open from job to job."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus

from swe_sdk import paths
from swe_sdk.model.ids import safe_name

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Place:
    """Made by :func:`open_place`; of one event loop."""

    def __init__(self, node: str, tasks: TaskGroup, *, shared: bool) -> None:
        self.node = node
        self._shared = shared
        self._tasks = tasks
        self._kept: dict[str, Any] = {}
        self._locks: dict[str, anyio.Lock] = {}
        self._ends: dict[str, tuple[anyio.Event, anyio.Event]] = {}
        """For each that is kept: when it is to close, and when it has."""

    def folder(self, asked: str) -> Path:
        """Where to write what belongs into the folder ``asked`` of who gave the job.

        The same path where the file system is shared; else one of this node's own, from which it is collected.
        """
        return Path(asked) if self._shared else own_folder(asked)

    async def keep(self, key: str, opening: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """What a context manager gives, opened by the first who asks for ``key`` and closed with the place.

        It lives in a task of its own, so that it may hold a task group. Raises what opening it raises.
        """
        async with self._locks.setdefault(key, anyio.Lock()):
            if key not in self._kept:
                self._kept[key] = await self._tasks.start(self._host, key, opening)
            value: T = self._kept[key]
            return value

    async def let_go(self, key: str) -> None:
        """Close what is kept, now; nothing where it is not."""
        async with self._locks.setdefault(key, anyio.Lock()):
            if key in self._ends:
                closing, closed = self._ends[key]
                closing.set()
                await closed.wait()

    def close(self) -> None:
        """Let everything go."""
        for closing, _ in self._ends.values():
            closing.set()

    async def _host(
        self, key: str, opening: Callable[[], AbstractAsyncContextManager[T]], *, task_status: TaskStatus[T]
    ) -> None:
        closing, closed = anyio.Event(), anyio.Event()
        try:
            async with opening() as value:
                self._ends[key] = closing, closed
                task_status.started(value)
                await closing.wait()
        except Exception:  # whatever it is: nobody waits for the end of what is kept, so it is logged
            if key not in self._ends:
                raise  # to who asked for it
            _log.exception("%s could not be closed in order", key)
        finally:
            self._kept.pop(key, None)
            self._ends.pop(key, None)
            closed.set()


def own_folder(asked: str) -> Path:
    """The folder of this node that stands for one of the driver's."""
    return paths.state_dir() / "carried" / safe_name(asked)


@asynccontextmanager
async def open_place(node: str, *, shared: bool = True) -> AsyncIterator[Place]:
    """A place for jobs; what they keep there is closed when the block ends, however it ends."""
    async with anyio.create_task_group() as tasks:
        place = Place(node, tasks, shared=shared)
        try:
            yield place
        finally:
            place.close()
