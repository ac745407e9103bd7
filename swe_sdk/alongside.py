"""Work beside a block, without the exception groups that task groups put around the block's own error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

T = TypeVar("T")


@asynccontextmanager
async def ungrouped(opened: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """``opened`` with a task group somewhere in it: an error of the block comes as it is, once all of it is closed."""
    failure: Exception | None = None
    async with opened as value:
        try:
            yield value
        except Exception as error:  # noqa: BLE001  raised below, where no group is put around it
            failure = error
    if failure is not None:
        raise failure


def alongside() -> AbstractAsyncContextManager[TaskGroup]:
    """A task group for what goes on while the block runs, and is cancelled at its end."""
    return ungrouped(_until_the_end())


@asynccontextmanager
async def _until_the_end() -> AsyncIterator[TaskGroup]:
    async with anyio.create_task_group() as tasks:
        yield tasks
        tasks.cancel_scope.cancel()
