"""A participant behind HTTP: the same methods as one of this process, for the same coordinator."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, NamedTuple, Self

import anyio
import httpx
from pydantic import SecretStr

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.coordinator import REPLY_GRACE_S
from swe_sdk.checkpoint.participant import PREFIX
from swe_sdk.checkpoint.waiting import Clock
from swe_sdk.errors import CheckpointError
from swe_sdk.server.control.forwarding import ForwardingParticipant
from swe_sdk.server.control.tracing import outgoing
from swe_sdk.server.wire import read_error

CONNECT_S = 10.0
STATUS_S = 60.0
"""For a status, all its tries together."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
MAX_ANSWER_BYTES = 64 << 20


class ParticipantUnreachable(CheckpointError):
    """There was no answer of a participant in time; it may have done what it was asked for."""


class NotAParticipant(CheckpointError):
    """A server answers, and has no control routes: it takes no part in checkpoints."""


class _Answer(NamedTuple):
    status: int
    body: bytes


class HttpParticipant(ForwardingParticipant):
    """The participant whose server is at ``url``. Implements :class:`~swe_sdk.checkpoint.participant.Participant`.

    Every operation of the protocol may be repeated, so what was lost on its way (no connection, no answer, a gateway's
    502 or 504, ``checkpoint_coordinator_unavailable``) is asked for again, with pauses, until the deadline of the
    request. An answer is never asked for again. Raises what the participant raised: ``CheckpointError`` with its code;
    :class:`ParticipantUnreachable` where it did not answer in time; :class:`NotAParticipant`.

    ``client`` is used and not closed; without it there is one of its own, closed by :meth:`aclose` or ``async with``.
    """

    def __init__(
        self, url: str, *, token: str | SecretStr, client: httpx.AsyncClient | None = None, clock: Clock = time.time
    ) -> None:
        super().__init__(self._answered)
        self.url = url.rstrip("/")
        self._token = token if isinstance(token, SecretStr) else SecretStr(token)
        self._owns_client = client is None
        # certificates take a while to read, and are for https alone; redirects are not followed
        self._client = client or httpx.AsyncClient(verify=self.url.startswith("https:"))
        self._clock = clock

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close connections."""
        if self._owns_client:
            await self._client.aclose()

    # -- how --------------------------------------------------------------------------------------------------------

    async def _answered(self, operation: str, request: Any) -> Any:
        deadline_ts = self._clock() + STATUS_S if request is None else request["deadline_ts"]
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return await self._once(operation, request, deadline_ts)
            except ParticipantUnreachable:
                if self._clock() + pause_s >= deadline_ts:
                    raise
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _once(self, operation: str, request: Any, deadline_ts: float) -> Any:
        left_s = max(0.0, deadline_ts - self._clock()) + REPLY_GRACE_S
        try:
            with anyio.fail_after(left_s):
                answer = await self._exchange(operation, request, httpx.Timeout(left_s, connect=CONNECT_S))
        except (httpx.TransportError, TimeoutError) as error:
            raise self._unreachable(operation, repr(error)) from error
        return self._value(operation, answer)

    async def _exchange(self, operation: str, request: Any, timeout: httpx.Timeout) -> _Answer:
        headers = {"Authorization": f"Bearer {self._token.get_secret_value()}", **outgoing()}
        body = None
        if request is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(request).encode()
        method, url = "GET" if request is None else "POST", f"{self.url}{PREFIX}/{operation}"
        async with self._client.stream(method, url, headers=headers, content=body, timeout=timeout) as response:
            return _Answer(response.status_code, await _bounded(response.aiter_bytes()))

    def _value(self, operation: str, answer: _Answer) -> Any:
        """What a good answer holds; raises what any other one tells."""
        if answer.status == 200:
            try:
                return json.loads(answer.body)
            except ValueError as error:
                raise refuse("checkpoint_error", f"{self.url} does not answer in JSON") from error
        if answer.status == 404:
            raise NotAParticipant("checkpoint_error", f"{self.url} has no {PREFIX}/{operation}")
        told = read_error(answer.status, answer.body)
        if answer.status in (502, 503, 504):
            raise self._unreachable(operation, told.detail)
        raise told

    def _unreachable(self, operation: str, why: str) -> ParticipantUnreachable:
        detail = f"{operation} at {self.url}: {why}"
        return ParticipantUnreachable(
            "checkpoint_coordinator_unavailable", detail, remedy="the same call may be made again"
        )


async def _bounded(chunks: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise refuse("checkpoint_error", f"an answer is larger than {MAX_ANSWER_BYTES} bytes")
    return bytes(body)
