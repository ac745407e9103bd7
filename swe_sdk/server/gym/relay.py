"""Connections to a port within a sandbox, passed on to a port of whoever has borrowed it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

_CHUNK_BYTES = 1 << 16
_PAUSE_S = 0.05
_MOST_CONNECTIONS = 64
"""Out of one sandbox at once; more are closed: each is two descriptors of this process."""


@asynccontextmanager
async def relayed(listener: socket.socket, host: str, port: int) -> AsyncIterator[None]:
    """Pass what connects to ``listener`` on to ``host:port`` while the block runs; the listener is closed then."""
    listener.setblocking(False)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_accept, listener, (host, port), tasks, anyio.CapacityLimiter(_MOST_CONNECTIONS))
            yield
            tasks.cancel_scope.cancel()
    finally:
        listener.close()


async def _accept(
    listener: socket.socket, target: tuple[str, int], tasks: TaskGroup, limiter: anyio.CapacityLimiter
) -> None:
    while True:
        await anyio.wait_readable(listener)
        try:
            inside, _address = listener.accept()
        except OSError:  # it was there, and has left again; or we have no descriptor for it, which lasts
            await anyio.sleep(_PAUSE_S)
            continue
        tasks.start_soon(_serve, inside, target, limiter)


async def _serve(inside: socket.socket, target: tuple[str, int], limiter: anyio.CapacityLimiter) -> None:
    with inside:
        if limiter.available_tokens < 1:
            return
        async with limiter:
            try:
                outside = await to_thread.run_sync(partial(socket.create_connection, target, timeout=10))
            except OSError:
                return  # who listens there is gone: so is this connection
            with outside:
                await _both_ways(inside, outside)


async def _both_ways(one: socket.socket, other: socket.socket) -> None:
    for each in (one, other):
        each.setblocking(False)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_pump, one, other, tasks.cancel_scope)
        tasks.start_soon(_pump, other, one, tasks.cancel_scope)


async def _pump(source: socket.socket, sink: socket.socket, scope: anyio.CancelScope) -> None:
    """All that comes, to its end; where one side breaks, the other is broken as well."""
    try:
        while chunk := await _received(source):
            rest = memoryview(chunk)
            while rest:
                await anyio.wait_writable(sink)
                rest = rest[sink.send(rest) :]
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        scope.cancel()


async def _received(source: socket.socket) -> bytes:
    while True:
        await anyio.wait_readable(source)
        try:
            return source.recv(_CHUNK_BYTES)
        except BlockingIOError:
            continue
