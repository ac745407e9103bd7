"""Executors by name, and opened for a call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

from swe_sdk.alongside import ungrouped
from swe_sdk.errors import InputError, did_you_mean
from swe_sdk.executors.contract import Executor, Pool
from swe_sdk.executors.local import LocalExecutor
from swe_sdk.executors.one_loop import OfOneLoop

EXECUTORS = ("local", "ray", "slurm")
ExecutorLike: TypeAlias = Executor | Pool | str | None
"""An executor, one that is open already, or a name; None = ``local``."""


def is_local(executor: ExecutorLike) -> bool:
    """Whether it is plainly this process, for which nobody needs jobs."""
    return executor is None or executor == "local"


def named_executor(name: str, *, limit: int | None = None) -> Executor:
    """The executor of that name, for ``limit`` jobs at a time on each node. Raises ``InputError``."""
    if name == "local":
        return LocalExecutor(slots=limit)
    if name == "ray":
        from swe_sdk.executors.ray.executor import RayExecutor

        return RayExecutor(slots=limit)
    if name == "slurm":
        from swe_sdk.executors.slurm.executor import SlurmExecutor

        return SlurmExecutor(slots=limit)
    raise _unknown(name)


def require_executor(name: str) -> None:
    """Raises ``InputError`` where there is none of that name; whether it works here is seen when it is opened."""
    if name not in EXECUTORS:
        raise _unknown(name)


def require_own_limit(executor: ExecutorLike, limit: int | None) -> None:
    """Raises ``InputError`` where a limit is given for an executor that says itself how much it does at a time."""
    if limit is not None and not isinstance(executor, str | None):
        remedy = "set it on the executor, as in RayExecutor(slots=8)"
        raise InputError(f"limit={limit} and an executor as an object do not go together", remedy=remedy)


def executor_name(executor: ExecutorLike) -> str:
    """What to call it in a record; one that is open already has no name of its own."""
    if executor is None or isinstance(executor, str):
        return executor or "local"
    return executor.name if isinstance(executor, Executor) else "open"


def _unknown(name: str) -> InputError:
    return InputError(f"unknown executor {name!r}", remedy=did_you_mean(name, EXECUTORS))


@asynccontextmanager
async def opened(executor: ExecutorLike, *, limit: int | None = None) -> AsyncIterator[Pool]:
    """A pool until the block ends; one that is open already stays so.

    Raises ``InputError`` where a ``limit`` is given to an executor that has its own, or a pool is closed or open in
    another event loop, and what opening raises.
    """
    require_own_limit(executor, limit)
    if executor is None or isinstance(executor, str):
        executor = named_executor(executor or "local", limit=limit)
    if isinstance(executor, Pool):
        if isinstance(executor, OfOneLoop):
            executor.require_here()
        yield executor
        return
    async with ungrouped(executor.open()) as pool:
        yield pool
