"""The course of one call: held, queued, sent, answered, delivered, recorded."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from swe_sdk.agents.gateway import refusals
from swe_sdk.agents.gateway.admission import CallState, OpenCall, OpenCalls
from swe_sdk.agents.gateway.exchange import ClientGone, Exchange
from swe_sdk.agents.gateway.ledger import CallEnd, Ledger, ModelCall
from swe_sdk.agents.gateway.recording import LedgerFailed, Recording
from swe_sdk.agents.gateway.refusals import Refusal, corrected, error_name
from swe_sdk.agents.gateway.routes import Asked, Headers, response_headers
from swe_sdk.agents.gateway.session import GatewaySession
from swe_sdk.agents.gateway.settings import GatewaySettings
from swe_sdk.agents.gateway.upstream import EndpointFailed, Sent, Upstream
from swe_sdk.agents.gateway.usage import UsageReader
from swe_sdk.errors import ModelError, ModelFailed, SweError

_ERROR_BYTES = 1 << 20
_RECORD_CAP_S = 30.0
_ENDS: dict[Refusal, CallEnd] = {refusals.SILENT: "endpoint_silent", refusals.BROKE: "endpoint_broke"}


@dataclass
class Desk:
    """What all calls share."""

    upstream: Upstream
    ledger: Ledger | None
    settings: GatewaySettings
    limiter: anyio.CapacityLimiter
    calls: OpenCalls


@dataclass
class Course:
    """One call, from its request to its row in the ledger."""

    desk: Desk
    session: GatewaySession
    exchange: Exchange
    call: OpenCall
    asked: Asked
    body: bytes
    started_at: float = field(default_factory=time.time)
    queued_s: float = 0.0
    sent_at: float = 0.0
    first_byte_s: float = 0.0
    tries: int = 1
    status: int = 0
    error: str = ""
    usage: UsageReader = field(default_factory=UsageReader)
    is_complete: bool = False
    """Delivered whole, and recorded."""

    def __post_init__(self) -> None:
        self.recording = Recording(self.desk.ledger, self.session, self.call.call_id, self.body)

    async def run(self) -> None:
        """Answer the call. What was delivered of it is recorded, whoever breaks it off."""
        async with self._turn():
            self.sent_at = time.monotonic()
            try:
                async with self.desk.upstream.send(self.call.route, self.exchange.headers, self.body) as sent:
                    self.tries = sent.tries
                    await self._answer(sent)
            except EndpointFailed as failure:
                self.tries = max(self.tries, failure.tries)
                error = failure.error(self.desk.upstream.endpoint.base_url)
                await self._deliver_error(failure.refusal.status, failure.refusal.body(self.call.route), [], error)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """A turn at the endpoint. A call that is held has none, so that it stands in nobody's way."""
        while True:
            await self.call.passed("held")
            self._enter("queued")
            asked_at = time.monotonic()
            async with self.desk.limiter:
                self.queued_s += time.monotonic() - asked_at
                if not self.call.is_held:
                    self._enter("sent")
                    yield
                    return

    def _enter(self, state: CallState) -> None:
        self.call.state = state
        self.desk.calls.change()

    async def _answer(self, sent: Sent) -> None:
        status, pieces = sent.response.status_code, sent.pieces()
        headers = response_headers(sent.response.headers.raw, self.desk.upstream.secrets)
        if status >= 400:
            body = await _read_some(pieces)
            error = _trouble(status, body, self.desk.upstream.endpoint.base_url)
            body = corrected(status, body, self.call.route, self.desk.upstream.secrets)
            await self._deliver_error(status, body, headers, error)
            return
        first = await anext(pieces, b"")  # until it is there, an answer that does not come is an error with a status
        self.first_byte_s = time.monotonic() - self.sent_at
        await self._begin(status)
        await self._deliver(status, headers, first, pieces)

    async def _begin(self, status: int) -> None:
        """The last moment at which the answer can be held back."""
        await self.call.passed("answered")
        self.status = status
        self._enter("delivering")

    async def _deliver_error(self, status: int, body: bytes, headers: Headers, error: SweError | None) -> None:
        await self._begin(status)
        self.session.trouble = error
        self.error = error_name(body)
        kept = [(name, value) for name, value in headers if name not in (b"content-type", b"content-encoding")]
        async with self._recorded() as end:
            await self.recording.take(body)
            await self.exchange.begin(status, [*kept, (b"content-type", b"application/json")])
            await self.exchange.write(body)
            end.append("delivered")
        await self._end()

    async def _deliver(self, status: int, headers: Headers, first: bytes, rest: AsyncIterator[bytes]) -> None:
        async with self._recorded() as end:
            await self.exchange.begin(status, headers)
            end.append(await self._pass_on(first, rest))
        await self._end()

    async def _pass_on(self, first: bytes, rest: AsyncIterator[bytes]) -> CallEnd:
        try:
            await self._pass(first)
            async for piece in rest:
                if self.recording.size_bytes + len(piece) > self.desk.settings.response_bytes:
                    return "too_large"
                await self._pass(piece)
        except EndpointFailed as failure:
            self.session.trouble = failure.error(self.desk.upstream.endpoint.base_url)
            return _ENDS[failure.refusal]
        self.session.trouble = None
        return "delivered"

    async def _pass(self, piece: bytes) -> None:
        if piece:
            self.usage.feed(piece)
            await self.recording.take(piece)
            await self.exchange.write(piece)

    async def _end(self) -> None:
        """Tell the agent that the response is complete, if it is."""
        if self.is_complete:
            await self.exchange.end()
        else:
            await self.exchange.cut()

    # -- the ledger -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _recorded(self) -> AsyncIterator[list[CallEnd]]:
        """Around a delivery: its row is in the ledger before the agent is told that the response is complete."""
        end: list[CallEnd] = []
        try:
            yield end
        except ClientGone:
            end.append("client_gone")
        except LedgerFailed as failure:
            self.session.trouble = _not_recorded(failure)
            end.append("unrecorded")
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_RECORD_CAP_S):
                await self._record(end[0] if end else "client_gone")

    async def _record(self, end: CallEnd) -> None:
        if self.status < 400:
            self.session.usage = self.session.usage.plus(self.usage.prompt_tokens, self.usage.completion_tokens)
        try:
            await self.recording.finish(self._row(end))
        except LedgerFailed as failure:
            self.session.trouble = _not_recorded(failure)
        else:
            self.is_complete = end == "delivered"

    def _row(self, end: CallEnd) -> ModelCall:
        call, recording = self.call, self.recording
        return ModelCall(
            call_id=call.call_id,
            rollout_id=call.rollout_id,
            attempt=call.attempt,
            n=self.session.next_number(),
            route=call.route,
            model=self.asked.model,
            is_stream=self.asked.is_stream,
            end=end,
            status=self.status,
            error=self.error,
            prompt_tokens=self.usage.prompt_tokens,
            completion_tokens=self.usage.completion_tokens,
            tries=self.tries,
            started_at=self.started_at,
            seconds=max(0.0, time.monotonic() - call.came_at - call.held_s),
            held_s=call.held_s,
            queued_s=self.queued_s,
            first_byte_s=self.first_byte_s,
            largest_gap_s=recording.largest_gap_s,
            pieces=recording.pieces,
            request_bytes=len(self.body),
            response_bytes=recording.size_bytes,
        )


async def _read_some(pieces: AsyncIterator[bytes]) -> bytes:
    """The beginning of an error's body; what a broken connection left of it."""
    body = b""
    try:
        async for piece in pieces:
            body += piece
            if len(body) > _ERROR_BYTES:
                break
    except EndpointFailed:
        pass  # its status says enough
    return body


def _trouble(status: int, body: bytes, url: str) -> ModelError | None:
    """An error that is the endpoint's own; None for one that the request has brought about."""
    if status < 500 and status not in (401, 402, 403, 429):
        return None
    return ModelFailed(f"{url} answers with status {status} {error_name(body)}".rstrip(), remedy="is the endpoint up?")


def _not_recorded(failure: LedgerFailed) -> SweError:
    error = failure.__cause__
    return error if isinstance(error, SweError) else ModelError(f"a call of the model could not be recorded: {error}")
