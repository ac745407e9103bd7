"""A worker process: ``python -m swe_sdk.server.control.workers.child``, with its order as JSON on standard input."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import anyio
import httpx
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from swe_sdk.agents.gateway.serving import HttpService, listen_on
from swe_sdk.checkpoint.participants.base import BaseParticipant
from swe_sdk.checkpoint.settings import CheckpointSettings
from swe_sdk.errors import CheckpointError, InputError
from swe_sdk.model.record import Record
from swe_sdk.server.control.app import control_routes
from swe_sdk.server.control.settings import ControlLimits
from swe_sdk.server.control.workers.member import Member
from swe_sdk.server.control.workers.to_owner import ToOwner

LOST_COORDINATOR = 70
"""The exit code of a worker whose coordinator has gone."""


class Served(NamedTuple):
    """What a worker serves; the participant is opened and joined around it."""

    participant: BaseParticipant[Any]
    app: ASGIApp


class Factory(Protocol):
    """Makes what one worker serves, and cleans it up at its end."""

    def __call__(self, member: Member) -> AbstractAsyncContextManager[Served]:
        """Once in each worker."""


class Order(Record):
    """What a worker is told at its start, by its main process."""

    factory: str
    """``package.module:function``, a :class:`Factory`."""
    socket_path: Path
    listener: int
    """The descriptor of the socket that all workers listen at."""
    token: str
    limits: ControlLimits


def factory_of(name: str) -> Factory:
    """The factory of that name; ``InputError`` where there is none."""
    module, _, attribute = name.partition(":")
    try:
        found: Factory = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"{name!r} is no factory: {error}", remedy="write package.module:function") from None
    return found


async def work(order: Order) -> None:
    """Serve until SIGTERM, or until the coordinator is gone."""
    private = listen_on()
    member = Member(order.socket_path, address=f"http://127.0.0.1:{private.getsockname()[1]}")
    # around all of it: who is told to stop twice (by a key, and by the main process) still cleans up
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with AsyncExitStack() as stack:
            await _serve(order, member, private, stack)
            await anext(signals)


async def _serve(order: Order, member: Member, private: socket.socket, stack: AsyncExitStack) -> None:
    """Until ``stack`` is closed, which ends it in order."""
    served = await stack.enter_async_context(factory_of(order.factory)(member))
    client = await stack.enter_async_context(httpx.AsyncClient(verify=False, limits=httpx.Limits()))
    owned = ToOwner(served.app, member, client, server=f"{served.participant.kind} {served.participant.instance}")
    settings = CheckpointSettings(enabled=True, control_auth_token=SecretStr(order.token))
    app: Any = Starlette(routes=[*control_routes(member.control, settings, order.limits), Mount("/", app=owned)])
    service = HttpService(app)
    await stack.enter_async_context(served.participant)
    await stack.enter_async_context(member.joined(served.participant))
    await stack.enter_async_context(service.serve(private))
    await stack.enter_async_context(service.serve(socket.socket(fileno=order.listener)))


def main() -> int:
    """As a process."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    order = Order.model_validate_json(sys.stdin.buffer.read())
    try:
        anyio.run(work, order)
    except CheckpointError as error:
        logging.getLogger("swe_sdk.checkpoint").warning("a worker ends: %s", error)
        return LOST_COORDINATOR
    return 0


if __name__ == "__main__":
    sys.exit(main())
