"""The main process of a server with several workers: it holds their coordinator, starts them, and starts them again."""

from __future__ import annotations

import errno
import logging
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process, TaskGroup
from pydantic import Field, SecretStr

from swe_sdk.checkpoint.messages import Kind
from swe_sdk.checkpoint.settings import CheckpointSettings
from swe_sdk.model.record import Record
from swe_sdk.server.control.settings import ControlLimits
from swe_sdk.server.control.workers.child import Order, factory_of
from swe_sdk.server.control.workers.hub import WorkersParticipant
from swe_sdk.server.serve import BACKLOG, listen_at, url_of

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_HEALTHY_S = 10.0
"""A worker that lived so long is started again at once."""
_FOLDERS, _SOCKET = "swe_sdk-workers-", "coordinator"
_log = logging.getLogger("swe_sdk.checkpoint")


class WorkersSettings(Record):
    """One server, and how many workers it has."""

    factory: str
    """``package.module:function``: makes what each worker serves (:class:`.child.Factory`)."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """That it gets beside the member, as JSON: over a pipe, so that no other user sees them."""
    kind: Kind
    instance: str
    """Its name in checkpoints; the same in every life."""
    workers: int = Field(default=4, ge=1)
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    """0 = any free one."""
    token: SecretStr | None = None
    """Of the control routes; None = there are none."""
    lease_grace_seconds: float = Field(default=600.0, gt=0)
    limits: ControlLimits = ControlLimits()
    stop_s: float = Field(default=10.0, gt=0)
    """How long workers that were told to stop may take; then they are killed."""


async def serve_workers(
    settings: WorkersSettings, *, on_ready: Callable[[str], None] = lambda url: None
) -> signal.Signals:
    """Serve until SIGTERM or SIGINT, and return which it was; must run in the main thread. ``on_ready`` gets the URL
    once all workers are there.

    The control routes are those of any worker, at the same port. A worker that ends is started again. Workers end with
    this process, however that ends. The first signal is passed on to them, and so are further ones, by which they give
    up what they would have finished. Raises ``InputError`` for a factory or an address that cannot be had.
    """
    factory_of(settings.factory)
    sweep_folders()
    checkpoint = CheckpointSettings(lease_grace_seconds=settings.lease_grace_seconds)
    with (
        listen_at(settings.host, settings.port) as listener,
        anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals,
        tempfile.TemporaryDirectory(prefix=_FOLDERS) as folder,
    ):
        listener.listen(BACKLOG)
        url, path = url_of(listener), Path(folder) / _SOCKET
        hub = WorkersParticipant(
            settings.kind, settings.instance, socket_path=path, expected=settings.workers, settings=checkpoint
        )
        crew = _Processes(_order(settings, path, listener, url), settings.stop_s)
        async with hub, anyio.create_task_group() as tasks:
            tasks.start_soon(crew.keep, settings.workers)
            _say_when_ready(hub, tasks, lambda: on_ready(url))
            first = await anext(signals)
            tasks.start_soon(crew.pass_on, signals)
            await crew.stop()
            tasks.cancel_scope.cancel()
    return first


def _order(settings: WorkersSettings, path: Path, listener: socket.socket, url: str) -> Order:
    return Order(
        factory=settings.factory,
        arguments=settings.arguments,
        socket_path=path,
        listener=listener.fileno(),
        token=None if settings.token is None else settings.token.get_secret_value(),
        limits=settings.limits,
        url=url,
    )


def sweep_folders() -> None:
    """Remove the folders of main processes that were killed: nobody listens there any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDERS}*"):
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
            if probe.connect_ex(str(folder / _SOCKET)) == errno.ECONNREFUSED:
                shutil.rmtree(folder, ignore_errors=True)


def _say_when_ready(hub: WorkersParticipant, tasks: TaskGroup, on_ready: Callable[[], None]) -> None:
    async def wait() -> None:
        await hub.changes.until(lambda: len(hub.crew.workers) >= hub.expected)
        on_ready()

    tasks.start_soon(wait)


class _Processes:
    """The workers of one server."""

    def __init__(self, order: Order, stop_s: float) -> None:
        self._order = order
        self._stop_s = stop_s
        self._alive: set[Process] = set()
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()

    async def keep(self, workers: int) -> None:
        """So many, until :meth:`stop`."""
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    for _ in range(workers):
                        tasks.start_soon(self.keep_one)
        finally:
            self._ended.set()

    async def stop(self) -> None:
        """Start none any more, tell those that there are to stop, and wait for their ends."""
        self._scope.cancel()
        await self._ended.wait()

    async def pass_on(self, signals: AsyncIterator[signal.Signals]) -> None:
        """Tell them again to stop, whenever we are told again."""
        async for _number in signals:
            for process in self._alive:
                _tell(process)

    async def keep_one(self) -> None:
        """One worker after the other, in one place."""
        pause_s = _FIRST_PAUSE_S
        while True:
            started = anyio.current_time()
            try:
                end = f"ended with {await self._live()}"
            except OSError as error:  # this machine has no process, or no memory, to give just now
                end = f"could not be started: {error}"
            lived_s = anyio.current_time() - started
            _log.warning("a worker %s after %.1f s; another one is started", end, lived_s)
            pause_s = _FIRST_PAUSE_S if lived_s > _HEALTHY_S else min(2 * pause_s, _LONGEST_PAUSE_S)
            await anyio.sleep(pause_s)

    async def _live(self) -> int:
        """One worker, from its start to its end; stopped with us."""
        command = [sys.executable, "-m", "swe_sdk.server.control.workers.child"]
        process = await anyio.open_process(command, stdout=None, stderr=None, pass_fds=(self._order.listener,))
        self._alive.add(process)
        try:
            assert process.stdin is not None
            # its secrets are no arguments, which all users can see
            await process.stdin.send(self._order.model_dump_json().encode())
            await process.stdin.aclose()
            return await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await self._end(process)
            self._alive.discard(process)

    async def _end(self, process: Process) -> None:
        if process.returncode is None:
            _tell(process)
            with anyio.move_on_after(self._stop_s):
                await process.wait()
        if process.returncode is None:
            process.kill()
        await process.aclose()


def _tell(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
