"""Connections to the system: one set for each event loop, and every failure of HTTP told in our own words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import anyio

from swe_sdk.sandbox.providers.e2b.answers import PASSING, failure, text_of, unanswered
from swe_sdk.sandbox.providers.remote.per_loop import PerLoop

if TYPE_CHECKING:
    import ssl

    import httpx

PAUSES_S = (0.5, 1.0, 2.0)
"""Before the second, third and fourth attempt."""
_MOST_PAUSE_S = 10.0
_IDLE_CONNECTIONS = 20


class Connections:
    """May be used from several event loops and threads, one after the other or at once."""

    def __init__(self, timeout_s: float) -> None:
        self._clients = PerLoop(partial(_new_client, timeout_s))

    async def aclose(self) -> None:
        """Close those of this event loop. They may be opened again."""
        await self._clients.aclose()

    async def ask(
        self, what: str, method: str, url: str, *, is_repeatable: bool = False, **request: Any
    ) -> httpx.Response:
        """One request and its whole answer, which is a success; else a ``RemoteTrouble`` that tells ``what`` we wanted.

        One that ``is_repeatable`` is made again where the system is busy or cannot be reached, for a few seconds.
        """
        import httpx

        client = await self._clients.get()
        for pause_s in (*PAUSES_S, None) if is_repeatable else (None,):
            try:
                response = await client.request(method, url, **request)
            except httpx.HTTPError as error:
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

    @asynccontextmanager
    async def open(self, what: str, method: str, url: str, **request: Any) -> AsyncIterator[httpx.Response]:
        """One request, and its answer as it comes: a success. A connection that breaks is ``Silent``."""
        import httpx

        client = await self._clients.get()
        try:
            async with client.stream(method, url, **request) as response:
                if not response.is_success:
                    await response.aread()
                    raise failure(what, response.status_code, text_of(response))
                yield response
        except httpx.HTTPError as error:
            raise unanswered(what, error) from error


def _new_client(timeout_s: float) -> httpx.AsyncClient:
    import httpx

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=_IDLE_CONNECTIONS)
    # not compressed: an offset in a file is one of what it holds
    headers = {"Accept-Encoding": "identity"}
    return httpx.AsyncClient(timeout=timeout_s, limits=limits, headers=headers, verify=_certificates())


@cache
def _certificates() -> ssl.SSLContext:
    """Whom to trust. To read that takes 25 ms, and renewals run in an event loop of their own each time."""
    import httpx

    return httpx.create_ssl_context()


def _wanted_pause_s(response: httpx.Response, usual_s: float) -> float:
    """How long to wait for the next attempt, as the system says, within reason."""
    try:
        return min(max(float(response.headers["Retry-After"]), 0.0), _MOST_PAUSE_S)
    except (KeyError, ValueError):
        return usual_s
