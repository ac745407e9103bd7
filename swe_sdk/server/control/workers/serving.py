"""The main process of a server with several workers: it holds their coordinator, starts them, and starts them again."""

from __future__ import annotations

import errno
import logging
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import Process, TaskGroup
from pydantic import Field, SecretStr

from swe_sdk.agents.gateway.serving import listen_on
from swe_sdk.checkpoint.messages import Kind
from swe_sdk.checkpoint.settings import CheckpointSettings
from swe_sdk.errors import InputError
from swe_sdk.model.record import Record
from swe_sdk.server.control.settings import ControlLimits
from swe_sdk.server.control.workers.child import Order, factory_of
from swe_sdk.server.control.workers.hub import WorkersParticipant

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_HEALTHY_S = 10.0
"""A worker that lived so long is started again at once."""
_STOP_S = 10.0
"""For workers that were told to stop."""
_FOLDERS, _SOCKET = "swe_sdk-workers-", "coordinator"
_log = logging.getLogger("swe_sdk.checkpoint")


class WorkersSettings(Record):
    """One server, and how many workers it has."""

    factory: str
    """``package.module:function``: makes what each worker serves (:class:`.child.Factory`)."""
    kind: Kind
    instance: str
    """Its name in checkpoints; the same in every life."""
    workers: int = Field(default=4, ge=1)
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    """0 = any free one."""
    token: SecretStr
    """Of the control routes."""
    lease_grace_seconds: float = Field(default=600.0, gt=0)
    limits: ControlLimits = ControlLimits()


async def serve_workers(settings: WorkersSettings, *, on_ready: Callable[[str], None] = lambda url: None) -> None:
    """Serve until SIGTERM or SIGINT; must run in the main thread. ``on_ready`` gets the URL once all workers are there.

    The control routes are those of any worker, at the same port. A worker that ends is started again. Workers end with
    this process, however that ends. Raises ``InputError`` for a factory or an address that cannot be had.
    """
    factory_of(settings.factory)
    sweep_folders()
    checkpoint = CheckpointSettings(lease_grace_seconds=settings.lease_grace_seconds)
    with (
        _listening(settings.host, settings.port) as listener,
        anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals,
        tempfile.TemporaryDirectory(prefix=_FOLDERS) as folder,
    ):
        url = f"http://{settings.host}:{listener.getsockname()[1]}"
        path = Path(folder) / _SOCKET
        hub = WorkersParticipant(
            settings.kind, settings.instance, socket_path=path, expected=settings.workers, settings=checkpoint
        )
        order = Order(
            factory=settings.factory,
            socket_path=path,
            listener=listener.fileno(),
            token=settings.token.get_secret_value(),
            limits=settings.limits,
        )
        async with hub, anyio.create_task_group() as tasks:
            for _ in range(settings.workers):
                tasks.start_soon(_keep_one, order)
            _say_when_ready(hub, tasks, lambda: on_ready(url))
            await anext(signals)
            tasks.cancel_scope.cancel()


def _listening(host: str, port: int) -> socket.socket:
    try:
        return listen_on(host, port)
    except OSError as error:
        raise InputError(f"cannot listen at {host}:{port}: {error.strerror}", remedy="choose another port") from None


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


async def _keep_one(order: Order) -> None:
    """One worker after the other, in one place."""
    pause_s = _FIRST_PAUSE_S
    while True:
        started = anyio.current_time()
        try:
            end = f"ended with {await _live(order)}"
        except OSError as error:  # this machine has no process, or no memory, to give just now
            end = f"could not be started: {error}"
        lived_s = anyio.current_time() - started
        _log.warning("a worker %s after %.1f s; another one is started", end, lived_s)
        pause_s = _FIRST_PAUSE_S if lived_s > _HEALTHY_S else min(2 * pause_s, _LONGEST_PAUSE_S)
        await anyio.sleep(pause_s)


async def _live(order: Order) -> int:
    """One worker, from its start to its end; stopped with us."""
    command = [sys.executable, "-m", "swe_sdk.server.control.workers.child"]
    process = await anyio.open_process(command, stdout=None, stderr=None, pass_fds=(order.listener,))
    try:
        assert process.stdin is not None
        await process.stdin.send(order.model_dump_json().encode())  # its token is no argument, which all users can see
        await process.stdin.aclose()
        return await process.wait()
    finally:
        with anyio.CancelScope(shield=True):
            await _stop(process)


async def _stop(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        with anyio.move_on_after(_STOP_S):
            await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()
