"""The gateway's own client of the user's endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import httpx

from swe_sdk.agents.gateway import refusals
from swe_sdk.agents.gateway.endpoint import ModelEndpoint, is_loopback
from swe_sdk.agents.gateway.refusals import Refusal
from swe_sdk.agents.gateway.routes import Headers, request_headers
from swe_sdk.agents.gateway.settings import GatewaySettings
from swe_sdk.errors import ModelError, ModelFailed, ModelUnreachable

_KEEP_IDLE_S = 3.0
"""Shorter than servers keep idle connections (5 s and more): one that just closes cannot be used for a request."""


class EndpointFailed(Exception):
    """The endpoint gave no response, or not all of it."""

    def __init__(self, refusal: Refusal, detail: str, tries: int = 1) -> None:
        super().__init__(detail)
        self.refusal = refusal
        self.detail = detail
        self.tries = tries

    def error(self, url: str) -> ModelError:
        """The same as an error of the package."""
        return ModelUnreachable(f"{self.refusal.message} ({url}: {self.detail})", remedy="is the endpoint up?")


@dataclass(frozen=True)
class Sent:
    """A request that is on its way, or has a response."""

    response: httpx.Response
    tries: int

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes; ``EndpointFailed`` where it does not come whole."""
        try:
            async for piece in self.response.aiter_raw():
                yield piece
        except httpx.TimeoutException as error:
            raise EndpointFailed(refusals.SILENT, _detail(error)) from error
        except httpx.TransportError as error:
            raise EndpointFailed(refusals.BROKE, _detail(error)) from error


class Upstream:
    """Sends requests to the endpoint; see :func:`open_upstream`."""

    def __init__(self, client: httpx.AsyncClient, endpoint: ModelEndpoint, settings: GatewaySettings) -> None:
        self._client = client
        self._settings = settings
        self.endpoint = endpoint
        key = endpoint.api_key
        self._key = key.get_secret_value() if key is not None else None
        self._checked_at: float | None = None
        self._checking = anyio.Lock()

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be told to anybody."""
        return (self._key,) if self._key else ()

    @asynccontextmanager
    async def send(self, route: str, headers: Headers, body: bytes) -> AsyncIterator[Sent]:
        """Send a request; the block has the response as soon as its headers are there. Raises ``EndpointFailed``.

        It is tried again only while no connection can be made: once connected, it may have been delivered.
        """
        sent = await self._send(route, headers, body)
        try:
            yield sent
        finally:
            with anyio.CancelScope(shield=True):
                await sent.response.aclose()

    async def _send(self, route: str, headers: Headers, body: bytes) -> Sent:
        tries = self._settings.connect_tries
        for number in range(1, tries + 1):
            try:
                request = self._request("POST", route, request_headers(headers, self._key, route), body)
                return Sent(await self._client.send(request, stream=True), number)
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
                if number == tries:
                    raise EndpointFailed(refusals.UNREACHABLE, _detail(error), number) from error
            except httpx.TimeoutException as error:
                raise EndpointFailed(refusals.SILENT, _detail(error), number) from error
            except (httpx.TransportError, httpx.InvalidURL) as error:
                raise EndpointFailed(refusals.BROKE, _detail(error), number) from error
            await anyio.sleep(self._settings.connect_pause_s * 2 ** (number - 1))
        raise AssertionError("every way out of the loop is above")

    def _request(self, method: str, route: str, headers: Headers, body: bytes = b"") -> httpx.Request:
        settings = self._settings
        timeout = httpx.Timeout(settings.silence_timeout_s, connect=settings.connect_timeout_s)
        url = f"{self.endpoint.base_url}{route}"
        return httpx.Request(method, url, headers=headers, content=body, extensions={"timeout": timeout.as_dict()})

    async def check(self) -> None:
        """Ask the endpoint for its models, unless it has answered lately. It costs no tokens.

        Raises ``ModelUnreachable`` where there is no answer, and ``ModelFailed`` where it refuses our key or says that
        it does not work. Any other answer will do: not every endpoint can list its models.
        """
        async with self._checking:
            now = anyio.current_time()
            if self._checked_at is None or now - self._checked_at > self._settings.check_every_s:
                await self._check()
                self._checked_at = now

    async def _check(self) -> None:
        url = self.endpoint.base_url
        request = self._request("GET", "/models", request_headers([], self._key, "/models"))
        try:
            with anyio.fail_after(self._settings.check_timeout_s):
                response = await self._client.send(request, stream=True)
                await response.aclose()
        except (httpx.TransportError, httpx.InvalidURL, TimeoutError) as error:
            raise EndpointFailed(refusals.UNREACHABLE, _detail(error)).error(url) from error
        if response.status_code in (401, 403):
            raise ModelFailed(f"{url} refuses the key (status {response.status_code})", remedy="check its api_key")
        if response.status_code >= 500:
            raise ModelFailed(f"{url} answers with status {response.status_code}", remedy="is the endpoint up?")


@asynccontextmanager
async def open_upstream(endpoint: ModelEndpoint, settings: GatewaySettings) -> AsyncIterator[Upstream]:
    """A client of ``endpoint``. The proxies of this machine's environment are used, unless it is on loopback."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=_KEEP_IDLE_S)
    client = httpx.AsyncClient(limits=limits, trust_env=not is_loopback(endpoint.base_url), follow_redirects=False)
    try:
        yield Upstream(client, endpoint, settings)
    finally:
        with anyio.CancelScope(shield=True):
            await client.aclose()


def _detail(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")
