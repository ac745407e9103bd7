"""A worker process: ``python -m swe_sdk.server.control.workers.child``, with its order as JSON on standard input."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import anyio
from pydantic import Field, SecretStr
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from swe_sdk.agents.gateway.serving import HttpService, listen_on
from swe_sdk.checkpoint.participants.base import BaseParticipant
from swe_sdk.checkpoint.settings import CheckpointSettings
from swe_sdk.errors import CheckpointError, InputError, SweError
from swe_sdk.model.record import Record
from swe_sdk.server.control.app import control_routes
from swe_sdk.server.control.settings import ControlLimits
from swe_sdk.server.control.workers.carrying import FORWARDED, open_carrying_client
from swe_sdk.server.control.workers.member import Member
from swe_sdk.server.control.workers.to_owner import ToOwner
from swe_sdk.server.serve import Drains, drained

_log = logging.getLogger("swe_sdk.checkpoint")
LOST_COORDINATOR = 70
"""The exit code of a worker whose coordinator has gone."""
_PRIVATE = "of workers alone"
_LAST_ANSWERS_S = 30.0
"""For clients to take the answers that are on their way."""


class Served(NamedTuple):
    """What a worker serves; the participant is opened and joined around it."""

    participant: BaseParticipant[Any]
    app: ASGIApp
    drains: Drains | None = None
    """Finishes what was begun, once the server was told to stop; None = that is broken off."""
    finds_owners: bool = False
    """Whether ``app`` sees to it that requests reach the worker which has their session; else a cookie does."""


class Factory(Protocol):
    """Makes what one worker serves, and cleans it up at its end."""

    def __call__(self, member: Member, **arguments: Any) -> AbstractAsyncContextManager[Served]:
        """Once in each worker, with the arguments of its settings."""


class Order(Record):
    """What a worker is told at its start, by its main process."""

    factory: str
    """``package.module:function``, a :class:`Factory`."""
    socket_path: Path
    listener: int
    """The descriptor of the socket that all workers listen at."""
    token: str | None
    """Of the control routes; None = there are none."""
    limits: ControlLimits
    url: str = ""
    """Where the server is reached from this machine."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Of the factory."""


def factory_of(name: str) -> Factory:
    """The factory of that name; ``InputError`` where there is none."""
    module, _, attribute = name.partition(":")
    try:
        found: Factory = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"{name!r} is no factory: {error}", remedy="write package.module:function") from None
    return found


async def work(order: Order) -> None:
    """Serve until SIGTERM, or until the coordinator is gone; a second SIGTERM gives up what is under way."""
    private = listen_on()
    address = f"http://127.0.0.1:{private.getsockname()[1]}"
    member = Member(order.socket_path, address=address, url=order.url)
    # around all of it: who is told to stop twice (by a key, and by the main process) still cleans up
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with AsyncExitStack() as stack, aclosing(_terminations(signals)) as terminations:
            served, underway = await _serve(order, member, private, stack)
            await anext(terminations)
            if served.drains is not None:
                await drained(served.drains, terminations)
                await underway.none()


async def _terminations(signals: AsyncIterator[signal.Signals]) -> AsyncGenerator[signal.Signals]:
    """Those of the main process, which hears of the keys of a terminal as well, and says when."""
    async for number in signals:
        if number == signal.SIGTERM:
            yield number


class _Underway:
    """Counts the requests that an application has not answered in full. None of those that come from outside was
    forwarded by a worker, whatever it says."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope.get("state", {}).get("label") != _PRIVATE:
            scope = {**scope, "headers": [one for one in scope["headers"] if one[0] != FORWARDED.encode()]}
        self._count += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._count -= 1

    async def none(self) -> None:
        """Wait, for a while, until there is none."""
        with anyio.move_on_after(_LAST_ANSWERS_S):
            while self._count:
                await anyio.sleep(0.02)


async def _serve(
    order: Order, member: Member, private: socket.socket, stack: AsyncExitStack
) -> tuple[Served, _Underway]:
    """Until ``stack`` is closed, which ends it in order."""
    served = await stack.enter_async_context(factory_of(order.factory)(member, **order.arguments))
    owned = served.app
    if not served.finds_owners:
        client = await stack.enter_async_context(open_carrying_client())
        owned = ToOwner(owned, member, client, server=f"{served.participant.kind} {served.participant.instance}")
    token = None if order.token is None else SecretStr(order.token)
    settings = CheckpointSettings(enabled=token is not None, control_auth_token=token)
    routes = [*control_routes(member.control, settings, order.limits), Mount("/", app=owned)]
    underway = _Underway(Starlette(routes=routes))
    service = HttpService(underway)  # type: ignore[arg-type]  # uvicorn names the types of ASGI in other words
    await stack.enter_async_context(served.participant)
    await stack.enter_async_context(member.joined(served.participant))
    await stack.enter_async_context(service.serve(private, label=_PRIVATE))
    await stack.enter_async_context(service.serve(socket.socket(fileno=order.listener)))
    return served, underway


def main() -> int:
    """As a process."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    order = Order.model_validate_json(sys.stdin.buffer.read())
    try:
        anyio.run(work, order)
    except CheckpointError as error:
        _log.warning("a worker ends: %s", error)
        return LOST_COORDINATOR
    except SweError as error:
        _log.error("a worker cannot serve: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
