"""A small OpenAI-compatible proxy between agents and the user's endpoint.

One a process. Each attempt of a rollout has a session with a key of its own; the user's key never leaves this process.
Responses are passed on byte for byte, as they come, and recorded in a ledger. For a checkpoint the gateway is *held*:
calls wait at it, and an attempt whose calls wait (:attr:`GatewaySession.awaiting_model
<swe_sdk.agents.gateway.session.GatewaySession.awaiting_model>`) can be saved. Of a call that waits the agent has seen
nothing; it is in no ledger, counts as nothing, and can be dropped, because the agent that is restored makes it again.
"""

from __future__ import annotations

import resource
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from swe_sdk.agents.gateway import refusals
from swe_sdk.agents.gateway.admission import CallView, Gate, OpenCall, OpenCalls, drop_all
from swe_sdk.agents.gateway.course import Course, Desk
from swe_sdk.agents.gateway.endpoint import ModelEndpoint
from swe_sdk.agents.gateway.exchange import BodyTooLarge, Exchange
from swe_sdk.agents.gateway.ledger import Ledger
from swe_sdk.agents.gateway.refusals import Refusal
from swe_sdk.agents.gateway.routes import ROUTES, Asked, Target, headers_fit, read_body, read_path
from swe_sdk.agents.gateway.serving import HttpService, listen_on
from swe_sdk.agents.gateway.session import GatewaySession, digest_of
from swe_sdk.agents.gateway.settings import GatewaySettings, ModelAllowance, ModelUsage
from swe_sdk.agents.gateway.upstream import Upstream, open_upstream
from swe_sdk.errors import InputError
from swe_sdk.model.ids import new_id

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

_PARSE_IN_THREAD_BYTES = 1 << 18


class Gateway:
    """See the module; made by :func:`open_gateway`. All methods belong to the event loop that it was opened in."""

    def __init__(self, upstream: Upstream, ledger: Ledger | None, settings: GatewaySettings) -> None:
        self.settings = settings
        self.id = f"gateway-{secrets.token_hex(8)}"
        """Told to whoever asks for ``/health``: a box that hears it has reached this very gateway."""
        self._calls = OpenCalls()
        self._gate = Gate()
        self._desk = Desk(upstream, ledger, settings, anyio.CapacityLimiter(settings.max_calls), self._calls)
        self._sessions: dict[bytes, GatewaySession] = {}
        self._service = HttpService(self._app)
        self.port = 0

    @property
    def url(self) -> str:
        """Its base URL on this machine; ends in ``/v1``."""
        everywhere = self.settings.host == "0.0.0.0"  # noqa: S104 - compared, not bound
        return f"http://{'127.0.0.1' if everywhere else self.settings.host}:{self.port}/v1"

    @property
    def endpoint(self) -> ModelEndpoint:
        """The user's endpoint."""
        return self._desk.upstream.endpoint

    async def check(self) -> None:
        """Whether the endpoint answers, without spending a token; asked at most every ``check_every_s``.

        Raises ``ModelUnreachable`` or ``ModelFailed``.
        """
        await self._desk.upstream.check()

    # -- sessions ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def session(
        self,
        rollout_id: str,
        attempt: int = 1,
        *,
        allowance: ModelAllowance | None = None,
        used: ModelUsage | None = None,
    ) -> AsyncIterator[GatewaySession]:
        """Let one attempt call the model while the block runs; then its key is void and its calls are broken off.

        ``used`` = what earlier attempts of the rollout have used, where that counts against ``allowance``.
        """
        if any((each.rollout_id, each.attempt) == (rollout_id, attempt) for each in self._sessions.values()):
            raise InputError(f"attempt {attempt} of {rollout_id} has a session at the model gateway already")
        session = GatewaySession(
            rollout_id,
            attempt,
            allowance=allowance or ModelAllowance(),
            used=used or ModelUsage(),
            settings=self.settings,
            calls=self._calls,
        )
        self._sessions[session.digest] = session
        try:
            yield session
        finally:
            del self._sessions[session.digest]
            await self._calls.end(rollout_id, attempt)

    @property
    def sessions(self) -> tuple[GatewaySession, ...]:
        """All that are open."""
        return tuple(self._sessions.values())

    def serve(self, listener: socket.socket, session: GatewaySession) -> AbstractAsyncContextManager[None]:
        """Serve one session, and no other, on a listening socket (that of a box) while the block runs."""
        return self._service.serve(listener, label=session, max_connections=self.settings.connections_per_rollout)

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Hold all calls from now on.

        New ones wait before they are sent; those at the endpoint go on there, and their answers are held back. What is
        being delivered goes on: wait for it with :meth:`quiet`. Twice is once.
        """
        self._gate.hold()

    def release(self) -> None:
        """Let all calls go on, but those of sessions that are held by themselves."""
        self._gate.release()

    @property
    def is_held(self) -> bool:
        """Whether all calls are held."""
        return self._gate.is_held

    def drop(self, rollout_id: str | None = None, *, up_to: int | None = None) -> int:
        """Break off undelivered calls (of one rollout, or all; of its attempts up to ``up_to``, or all); how many.

        Their connections are reset, without a response; so it is for agents that will not live to see it.
        """
        return drop_all(call for call in self._calls.of(rollout_id) if up_to is None or call.attempt <= up_to)

    def calls(self, rollout_id: str | None = None) -> tuple[CallView, ...]:
        """Calls under way, of one rollout or all."""
        return tuple(call.view() for call in self._calls.of(rollout_id))

    async def quiet(self, rollout_id: str | None = None, *, timeout_s: float | None = None) -> tuple[CallView, ...]:
        """Wait until nothing is being delivered, to one rollout or at all. () or, after ``timeout_s``, what still is.

        Without a hold the answer may be out of date at once.
        """
        return await self._calls.quiet(rollout_id, timeout_s)

    # -- requests ---------------------------------------------------------------------------------------------------

    async def _app(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        exchange = Exchange(scope, receive, send)
        if (exchange.method, exchange.path) == ("GET", "/health"):
            await exchange.reply_json(200, {"status": "ok", "gateway": self.id})
            return
        target = read_path(exchange.path)
        if target is None:
            await _refuse(exchange, refusals.UNKNOWN_PATH, "")
            return
        session = self._session_of(exchange, target)
        if session is None:
            await _refuse(exchange, refusals.UNKNOWN_KEY, target.route)
        elif exchange.method == "GET" and target.route == "/models":
            await exchange.reply_json(200, {"object": "list", "data": [_model(name) for name in self.endpoint.models]})
        elif not headers_fit(exchange.headers):
            await _refuse(exchange, refusals.HEADERS_TOO_LARGE, target.route)
        elif exchange.method == "POST" and target.route in ROUTES:
            await self._take(exchange, session, target.route)
        else:
            await _refuse(exchange, refusals.UNKNOWN_PATH, target.route)

    def _session_of(self, exchange: Exchange, target: Target) -> GatewaySession | None:
        """By the key of the request; on a box's own listener it must be that box's."""
        session = self._sessions.get(digest_of(target.key or _key(exchange)))
        return session if exchange.label in (None, session) else None

    async def _take(self, exchange: Exchange, session: GatewaySession, route: str) -> None:
        async with session.limiter:
            try:
                body = await exchange.body(self.settings.request_bytes)
            except BodyTooLarge:
                await _refuse(exchange, refusals.TOO_LARGE, route)
                return
            asked = await _read(body)
            refusal = self._refusal(asked, session)  # now: the session may have ended while it waited or was read
            if refusal is not None or asked is None:
                await _refuse(exchange, refusal or refusals.NO_REQUEST, route)
                return
            await self._run(exchange, session, route, asked, body)

    def _refusal(self, asked: Asked | None, session: GatewaySession) -> Refusal | None:
        if session.digest not in self._sessions:
            return refusals.UNKNOWN_KEY
        if asked is None:
            return refusals.NO_REQUEST
        if asked.model not in self.endpoint.models:
            return refusals.unknown_model(asked.model)
        if session.may_call():
            return None
        session.refused += 1
        return refusals.SPENT

    async def _run(self, exchange: Exchange, session: GatewaySession, route: str, asked: Asked, body: bytes) -> None:
        gates = (self._gate, session.gate, session.parking)
        call = OpenCall(new_id("call"), session.rollout_id, session.attempt, route, gates)
        course = Course(self._desk, session, exchange, call, asked, body)
        self._calls.add(call)
        try:
            with call.scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_cancel_when_gone, exchange, tasks.cancel_scope)
                    await course.run()
                    tasks.cancel_scope.cancel()
        finally:
            self._calls.remove(call)
        if call.scope.cancelled_caught:
            await exchange.cut()


@asynccontextmanager
async def open_gateway(
    endpoint: ModelEndpoint, ledger: Ledger | None = None, *, settings: GatewaySettings | None = None
) -> AsyncIterator[Gateway]:
    """A gateway in front of ``endpoint``, on this machine's loopback interface, while the block runs.

    Sockets inside boxes are served by :meth:`Gateway.serve`. The endpoint need not be up: see :meth:`Gateway.check`.
    """
    settings = settings or GatewaySettings()
    async with open_upstream(endpoint, settings) as upstream:
        gateway = Gateway(upstream, ledger, settings)
        listener = listen_on(settings.host, settings.port)
        gateway.port = listener.getsockname()[1]
        async with gateway._service.serve(listener, max_connections=settings.connections or _half_of_descriptors()):
            yield gateway


def _half_of_descriptors() -> int | None:
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else max(1, soft // 2)


async def _cancel_when_gone(exchange: Exchange, scope: anyio.CancelScope) -> None:
    await exchange.gone()
    scope.cancel()


async def _refuse(exchange: Exchange, refusal: Refusal, route: str) -> None:
    """Say no, and close: nobody waits for the rest of a request that is not wanted."""
    await exchange.reply(refusal.status, refusal.body(route), {"connection": "close"})


async def _read(body: bytes) -> Asked | None:
    return await to_thread.run_sync(read_body, body) if len(body) > _PARSE_IN_THREAD_BYTES else read_body(body)


def _key(exchange: Exchange) -> str:
    scheme, _, token = (exchange.header("authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else exchange.header("x-api-key") or ""


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "swe_sdk"}
