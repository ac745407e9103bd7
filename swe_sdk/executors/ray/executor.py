"""The settings of jobs on Ray, and how a driver comes to its cluster."""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread
from pydantic import Field

from swe_sdk.errors import PrerequisiteError
from swe_sdk.executors.ray.address import REMEDY, require_answer
from swe_sdk.model.record import Record

if TYPE_CHECKING:
    from swe_sdk.executors.ray.pool import RayPool

_LEAVE_CAP_S = 30.0


class RayExecutor(Record):
    """Jobs on the nodes of a Ray cluster, one process a node. Needs ``pip install 'swe_sdk[ray]'`` on all of them.

    The cluster is the one that this program has joined already, or else the one at ``address``. Nodes may come and go
    meanwhile. Retries of Ray itself are off.
    """

    address: str = "auto"
    """As ``ray.init`` takes it; ``auto`` = ``$RAY_ADDRESS``, or a cluster on this machine."""
    slots: int | None = Field(default=None, ge=1)
    """Jobs at a time on each node; None = as many as Ray counts processors there."""
    resource: str | None = None
    """Work only on nodes that have this resource of Ray; None = on those that have processors."""
    shared: bool = True
    """Whether the nodes see the results directories of this machine by the same paths. If not, what they write is
    copied here."""
    patience_s: float = Field(default=60.0, ge=0)
    """How long to wait for a node while there is none; then jobs are lost."""
    drain_s: float = Field(default=120.0, gt=0)
    """How long cancelled jobs may take to close their sandboxes."""
    restarts: int = Field(default=5, ge=0)
    """How often a process may die on a node without having finished a job, before the node gets no more."""
    runtime_env: dict[str, Any] | None = None
    """For the processes, as Ray takes it."""

    @property
    def name(self) -> str:
        """``ray``."""
        return "ray"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[RayPool]:
        """A pool on the cluster. Raises ``PrerequisiteError`` where there is no Ray, or no cluster."""
        ray = _imported()
        joined = await to_thread.run_sync(_MEMBERSHIP.enter, ray, self.address)
        _hear_sigterm_ourselves()
        from swe_sdk.executors.ray.pool import open_pool

        try:
            async with open_pool(self, ray) as pool:
                yield pool
        finally:
            if joined:
                with anyio.move_on_after(_LEAVE_CAP_S, shield=True):
                    await to_thread.run_sync(_MEMBERSHIP.leave, ray)


class _Membership:
    """Of this process in a cluster that it has joined for its pools: the first one joins, the last one leaves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools = 0

    def enter(self, ray: Any, address: str) -> bool:
        """Join, unless this process is there. False where it had joined before, and not for a pool: nothing to leave.

        Raises ``PrerequisiteError``; blocks.
        """
        with self._lock:
            if not ray.is_initialized():
                require_answer(address)
                _join(ray, address)
            elif not self._pools:
                return False
            self._pools += 1
            return True

    def leave(self, ray: Any) -> None:
        """A pool that entered is closed; blocks."""
        with self._lock:
            self._pools -= 1
            if not self._pools:
                ray.shutdown()


_MEMBERSHIP = _Membership()


def _hear_sigterm_ourselves() -> None:
    """Ray puts a handler of its own before ours, which prints a stack trace, as of a crash, and then calls ours."""
    if threading.current_thread() is threading.main_thread():
        handler = signal.getsignal(signal.SIGTERM)
        if handler is not None:  # None = not Python's, so not ours
            signal.signal(signal.SIGTERM, handler)


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise PrerequisiteError("Ray is not installed", remedy="pip install 'swe_sdk[ray]'") from None
    return ray


def _join(ray: Any, address: str) -> None:
    try:  # of its warnings, one comes each time: that this thread is not the main one
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", namespace="swe_sdk")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise PrerequisiteError(f"no Ray cluster at {address!r}: {error}", remedy=REMEDY) from error
