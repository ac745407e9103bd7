"""The settings of jobs on Ray, and how a driver comes to its cluster."""

from __future__ import annotations

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
        joined = not ray.is_initialized()
        if joined:
            await to_thread.run_sync(require_answer, self.address)
            await to_thread.run_sync(_join, ray, self.address)
        from swe_sdk.executors.ray.pool import open_pool

        try:
            async with open_pool(self, ray) as pool:
                yield pool
        finally:
            if joined:
                with anyio.move_on_after(_LEAVE_CAP_S, shield=True):
                    await to_thread.run_sync(ray.shutdown)


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise PrerequisiteError("Ray is not installed", remedy="pip install 'swe_sdk[ray]'") from None
    return ray


def _join(ray: Any, address: str) -> None:
    try:
        ray.init(address=address, log_to_driver=False, logging_level="WARNING", namespace="swe_sdk")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise PrerequisiteError(f"no Ray cluster at {address!r}: {error}", remedy=REMEDY) from error
