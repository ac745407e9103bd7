"""The actor of a node: it carries out jobs, several at a time, in the event loop that Ray gives it.

An async actor, because the cancellation of a job must reach its cleanup: Ray does not deliver it to a plain task, and
to end one by force leaks its sandboxes. Everything in and out is JSON.
"""

from __future__ import annotations

from functools import cached_property

import anyio
from anyio import to_thread

from swe_sdk.executors.contract import Job, lost
from swe_sdk.executors.local import LocalPool, this_node
from swe_sdk.executors.mirror import listing, piece
from swe_sdk.executors.place import own_folder
from swe_sdk.executors.worker import open_worker

_LOOK_EVERY_S = 0.05


class RayNode:
    """One node of the cluster. Made an actor by the pool; the first call is :meth:`serve`, which lasts."""

    def __init__(self, node: str, slots: int, shared: bool) -> None:
        self._node, self._slots, self._shared = node, slots, shared
        self._pool: LocalPool | None = None
        self._trouble: Exception | None = None
        self._scopes: dict[int, anyio.CancelScope] = {}
        self._cancelled: set[int] = set()

    # made when they are first used, since Ray begins calls in any order, and this object outside of its event loop

    @cached_property
    def _ready(self) -> anyio.Event:
        return anyio.Event()

    @cached_property
    def _stop(self) -> anyio.Event:
        return anyio.Event()

    async def serve(self) -> None:
        """Reap, then be there for jobs until :meth:`drain`."""
        try:
            async with open_worker(self._node, self._slots, shared=self._shared) as pool:
                self._pool = pool
                self._ready.set()
                await self._stop.wait()
                self._pool = None
        except Exception as error:
            self._trouble = error  # who waits for the start is told; nobody else would hear of it
            self._ready.set()
            raise

    async def start(self) -> str:
        """When it is ready: a :class:`~swe_sdk.executors.contract.NodeInfo`. Raises what kept it from being so."""
        await self._ready.wait()
        if self._trouble is not None:
            raise self._trouble
        return this_node(self._node, self._slots).model_dump_json()

    async def run(self, call: int, text: str) -> str:
        """The result of a job; ``call`` is for :meth:`cancel`."""
        job, pool = Job.model_validate_json(text), self._pool
        if pool is None:
            return lost(job, "the worker is being stopped", node=self._node).model_dump_json()
        with anyio.CancelScope() as scope:
            self._scopes[call] = scope
            if call in self._cancelled:
                self._cancelled.discard(call)
                scope.cancel()
            try:
                return (await pool.run(job)).model_dump_json()
            finally:
                del self._scopes[call]
        return lost(job, "the job was cancelled", node=self._node).model_dump_json()

    async def cancel(self, call: int) -> None:
        """Cancel a job; its :meth:`run` returns when its cleanup is over."""
        scope = self._scopes.get(call)
        if scope is not None:
            scope.cancel()
        else:
            self._cancelled.add(call)  # it comes later, or is over

    async def everywhere(self, text: str) -> None:
        """Carry out a job apart from the slots of the others."""
        if self._pool is not None:
            await self._pool.everywhere(Job.model_validate_json(text))

    async def drain(self) -> None:
        """Cancel what still runs, and end :meth:`serve`."""
        while self._scopes:
            for scope in list(self._scopes.values()):
                scope.cancel()
            await anyio.sleep(_LOOK_EVERY_S)
        self._stop.set()

    async def listing(self, folder: str, below: list[str]) -> dict[str, int]:
        """What this node has written for some parts of a folder of the driver: paths in it, and sizes in bytes."""
        return await to_thread.run_sync(listing, own_folder(folder), below)

    async def piece(self, folder: str, path: str, offset: int, length: int) -> bytes:
        """Some bytes of one of those files; fewer at its end."""
        return await to_thread.run_sync(piece, own_folder(folder) / path, offset, length)
