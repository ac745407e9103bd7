"""The SDK of OpenSandbox."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio

from swe_sdk.errors import PrerequisiteError
from swe_sdk.sandbox.providers.opensandbox.settings import OpenSandboxSettings

if TYPE_CHECKING:
    from httpx import AsyncBaseTransport
    from opensandbox.config import ConnectionConfig
    from opensandbox.services import Commands, Filesystem, Health, Sandboxes

REQUEST_TIMEOUT_S = 60.0
PING_TIMEOUT_S = 5.0
_MOST_CONNECTIONS, _IDLE_CONNECTIONS = 1000, 20
_CONNECT_S = 3.5
"""The kernel tries again after one second, and after two more."""
_EXECD_PORT = 44772


@dataclass(frozen=True)
class Inside:
    """What talks to one sandbox."""

    commands: Commands
    files: Filesystem
    health: Health


class Client:
    """Connections of one event loop to one server."""

    def __init__(self, settings: OpenSandboxSettings, api_key: str | None) -> None:
        from opensandbox.adapters.factory import AdapterFactory
        from opensandbox.transport import unwrap_retry_transport

        self.config = _config(settings, api_key)
        self._factory = AdapterFactory(self.config)
        # who waits for a sandbox asks again himself: one question that is lost must not take up all the time there is
        once = {
            "transport": unwrap_retry_transport(self.config.transport),
            "request_timeout": timedelta(seconds=PING_TIMEOUT_S),
        }
        self._pings = AdapterFactory(self.config.model_copy(update=once))
        self.lifecycle: Sandboxes = self._factory.create_sandbox_service()
        self._inside: dict[str, Inside] = {}

    async def connect(self) -> None:
        """``OSError`` where nobody takes connections, at once: the SDK would ask such a server again and again."""
        address = urlsplit(self.config.get_base_url())
        port = address.port or {"http": 80, "https": 443}[address.scheme]
        with anyio.fail_after(_CONNECT_S):
            connection = await anyio.connect_tcp(address.hostname or "", port)
        await connection.aclose()

    async def inside(self, sandbox: str) -> Inside:
        """By the address that the server gives of it, which is asked for once."""
        if sandbox not in self._inside:
            endpoint = await self.lifecycle.get_sandbox_endpoint(sandbox, _EXECD_PORT, self.config.use_server_proxy)
            self._inside[sandbox] = Inside(
                self._factory.create_command_service(endpoint),
                self._factory.create_filesystem_service(endpoint),
                self._pings.create_health_service(endpoint),
            )
        return self._inside[sandbox]

    def forget(self, sandbox: str) -> None:
        """Its address may be another one from now on, or none."""
        self._inside.pop(sandbox, None)

    async def aclose(self) -> None:
        """Give the connections back."""
        if self.config.transport is not None:
            await self.config.transport.aclose()


def _config(settings: OpenSandboxSettings, api_key: str | None) -> ConnectionConfig:
    from opensandbox.config import ConnectionConfig

    return ConnectionConfig(
        domain=settings.domain,
        protocol=settings.protocol,
        api_key=api_key,
        use_server_proxy=settings.use_server_proxy,
        request_timeout=timedelta(seconds=REQUEST_TIMEOUT_S),
        disable_metrics=True,  # it would tell the server how long each create took
        headers={"OPEN-SANDBOX-CLIENT-IP": ""},  # and with each request this machine's address
        transport=_transport(),
    )


def _transport() -> AsyncBaseTransport:
    """As the SDK would make it, but for the bounds."""
    import httpx
    from opensandbox.transport import RetryAsyncTransport, RetryPolicy

    from swe_sdk.sandbox.providers.opensandbox.bounded import Bounded

    limits = httpx.Limits(max_connections=_MOST_CONNECTIONS, max_keepalive_connections=_IDLE_CONNECTIONS)
    return RetryAsyncTransport(Bounded(httpx.AsyncHTTPTransport(limits=limits)), RetryPolicy(), owns_inner=True)


def quieten() -> None:
    """The SDK logs a traceback for every failed call, which its caller is told of anyway."""
    logging.getLogger("opensandbox").setLevel(logging.CRITICAL)


def require_sdk() -> None:
    """``PrerequisiteError`` where it is not installed."""
    try:
        import opensandbox  # noqa: F401 - the first import of it
    except ModuleNotFoundError:
        raise PrerequisiteError(
            "the SDK of OpenSandbox is not installed", remedy="pip install 'swe_sdk[opensandbox]'"
        ) from None
