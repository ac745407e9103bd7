"""Connections to the system: one set for each event loop, and every failure of HTTP told in our own words."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import anyio

from swe_sdk.sandbox.providers.e2b.answers import PASSING, failure, text_of, unanswered
from swe_sdk.sandbox.providers.remote.failures import Refused
from swe_sdk.sandbox.providers.remote.per_loop import PerLoop

if TYPE_CHECKING:
    import ssl

    import httpx

PAUSES_S = (0.5, 1.0, 2.0)
"""Before the second, third and fourth attempt."""
_MOST_PAUSE_S = 10.0
_IDLE_CONNECTIONS = 20
_MOST_ANSWER_BYTES = 64 << 20
"""Of an answer that is no file: what answers in a sandbox may be any program of it."""
_HERE = ("all://localhost", "all://127.0.0.1", "all://[::1]")
"""What no proxy could reach for us, and should not hear of."""


class Connections:
    """May be used from several event loops and threads, one after the other or at once."""

    def __init__(self, timeout_s: float) -> None:
        self._clients = PerLoop(partial(_new_client, timeout_s))

    async def aclose(self) -> None:
        """Close those of this event loop. They may be opened again."""
        await self._clients.aclose()

    async def ask(
        self,
        what: str,
        method: str,
        url: str,
        *,
        is_repeatable: bool = False,
        within_s: float = math.inf,
        **request: Any,
    ) -> httpx.Response:
        """One request and its whole answer, which is a success; else a ``RemoteTrouble`` that tells ``what`` we wanted.

        One that ``is_repeatable`` is made again where the system is busy or cannot be reached, for a few seconds; an
        attempt lasts ``within_s`` at most, however often a byte of its answer comes.
        """
        import httpx

        for pause_s in (*PAUSES_S, None) if is_repeatable else (None,):
            try:
                with anyio.fail_after(within_s):
                    response = await self._whole(method, url, **request)
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
                if pause_s is None:
                    raise unanswered(what, error) from error
            else:
                if response.is_success:
                    return response
                if pause_s is None or response.status_code not in PASSING:
                    raise failure(what, response.status_code, text_of(response))
                pause_s = _wanted_pause_s(response, pause_s)
            await anyio.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    async def _whole(self, method: str, url: str, **request: Any) -> httpx.Response:
        async with (await self._clients.get()).stream(method, url, **request) as response:
            return await _read(response)

    @asynccontextmanager
    async def open(self, what: str, method: str, url: str, **request: Any) -> AsyncIterator[httpx.Response]:
        """One request, and its answer as it comes: a success. A connection that breaks is ``Silent``."""
        import httpx

        client = await self._clients.get()
        try:
            async with client.stream(method, url, **request) as response:
                if not response.is_success:
                    raise failure(what, response.status_code, text_of(await _read(response)))
                yield response
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise unanswered(what, error) from error


def _new_client(timeout_s: float) -> httpx.AsyncClient:
    import httpx

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=_IDLE_CONNECTIONS)
    # not compressed: an offset in a file is one of what it holds
    headers = {"Accept-Encoding": "identity"}
    mounts = dict.fromkeys(_HERE)
    return httpx.AsyncClient(timeout=timeout_s, limits=limits, headers=headers, verify=_certificates(), mounts=mounts)


async def _read(response: httpx.Response) -> httpx.Response:
    """The same answer with its body; ``Refused`` where that does not end."""
    import httpx

    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > _MOST_ANSWER_BYTES:
            raise Refused(f"the answer to {response.request.url} is too long")
    kept = {name: value for name, value in response.headers.items() if name != "content-encoding"}
    return httpx.Response(response.status_code, headers=kept, content=bytes(body), request=response.request)


@cache
def _certificates() -> ssl.SSLContext:
    """Whom to trust. To read that takes 25 ms, and renewals run in an event loop of their own each time."""
    import httpx

    return httpx.create_ssl_context()


def _wanted_pause_s(response: httpx.Response, usual_s: float) -> float:
    """How long to wait for the next attempt, as the system says, within reason."""
    try:
        wanted_s = float(response.headers["Retry-After"])
    except (KeyError, ValueError):
        return usual_s
    return min(max(wanted_s, 0.0), _MOST_PAUSE_S) if math.isfinite(wanted_s) else usual_s
