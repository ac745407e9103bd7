"""The control plane: sandboxes and snapshots, one method a route, in both dialects.

``e2b``: the routes that version 2.63.0 of E2B's own SDK uses. ``agentenv``: those of AgentENV's ``openapi.yml`` of
August 2026, which has no ``POST /v2/sandboxes``, and by that is told apart.
"""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

from swe_sdk.errors import ProviderUnavailable
from swe_sdk.sandbox.contract import Limits
from swe_sdk.sandbox.providers.e2b.http import Connections
from swe_sdk.sandbox.providers.e2b.naming import system_id
from swe_sdk.sandbox.providers.e2b.settings import API_KEY, VARIABLES, Dialect, E2BSettings
from swe_sdk.sandbox.providers.e2b.shapes import Sandbox, Snapshot, read
from swe_sdk.sandbox.providers.remote.engine import Wanted
from swe_sdk.sandbox.providers.remote.failures import InUse, NotThere, Refused
from swe_sdk.sandbox.providers.remote.settings import checked_key

if TYPE_CHECKING:
    import httpx

_PAGE, _MOST_PAGES = 100, 10_000
_NO_ROUTE = 405
_BAD_REQUEST = 400
_ALL_STATES = "running,paused"
_CREATE_KEY = "Idempotency-Key"
T = TypeVar("T", bound=Sandbox | Snapshot)


class Rest:
    """The routes. Raises what :mod:`swe_sdk.sandbox.providers.remote.failures` names; ``ProviderUnavailable`` without a
    key, and then asks nobody."""

    def __init__(self, settings: E2BSettings, api_key: str | None, connections: Connections) -> None:
        self._settings = settings
        self._api_key = (api_key or os.environ.get(API_KEY, "")).strip()
        self._connections = connections
        self.known_dialect: Dialect | None = None if settings.dialect == "auto" else settings.dialect

    async def dialect(self) -> Dialect:
        """By a request that makes nothing: E2B finds it incomplete, AgentENV knows no such route."""
        if self.known_dialect is None:
            try:
                await self._ask("look which dialect it speaks", "POST", "/v2/sandboxes", json={}, is_repeatable=True)
            except Refused as refused:
                if refused.status not in (_BAD_REQUEST, _NO_ROUTE):
                    raise
                self.known_dialect = "agentenv" if refused.status == _NO_ROUTE else "e2b"
            except NotThere:
                self.known_dialect = "agentenv"
            else:
                self.known_dialect = "e2b"
        return self.known_dialect

    # -- sandboxes --------------------------------------------------------------------------------------------------

    async def create(self, wanted: Wanted, key: str) -> Sandbox:
        """Make one; what the system says of it. ``key`` makes a second request for the same one harmless, with E2B."""
        dialect = await self.dialect()
        route, body = self._creation(wanted, dialect)
        answer = await self._ask(
            "make a sandbox",
            "POST",
            route,
            json=body,
            headers={_CREATE_KEY: key},
            within_s=self._settings.create_timeout_s,
        )
        return read(answer, Sandbox)

    def _creation(self, wanted: Wanted, dialect: Dialect) -> tuple[str, dict[str, Any]]:
        online = wanted.network != "none"
        body: dict[str, Any] = {
            "timeout": math.ceil(wanted.ttl_s),
            "metadata": dict(wanted.metadata),
            # What the two do unless they are told differs: E2B kills a sandbox whose time is up, AgentENV pauses it.
            "autoPause": False,
            "autoResume": {"enabled": False},
        }
        template = system_id(wanted.snapshot) if wanted.snapshot else self._settings.templates.get(wanted.image or "")
        if dialect == "e2b":
            return "/v2/sandboxes", {**body, "templateID": template or wanted.image, "allow_internet_access": online}
        if template is not None:
            return "/sandboxes", {**body, "templateID": template, "secure": True, "allow_internet_access": online}
        cold = {"image": wanted.image, "secure": True, "allowInternetAccess": online, **_size(wanted.limits)}
        return "/sandboxes-cold", {**body, **cold}

    async def sandbox(self, sandbox: str) -> Sandbox:
        """What the system says of one, without resuming it."""
        answer = await self._ask("look at a sandbox", "GET", _path(sandbox), is_repeatable=True)
        return read(answer, Sandbox)

    async def sandboxes(self, metadata: Mapping[str, str]) -> AsyncIterator[Sandbox]:
        """All pages of those with this metadata, in any state. What a system tells of others as well is nobody's here:
        what is found by its metadata may be ended."""
        query = {"metadata": urlencode(metadata), "state": _ALL_STATES}
        async for found in self._pages("/v2/sandboxes", query, Sandbox):
            if metadata.items() <= (found.get("metadata") or {}).items():
                yield found

    async def kill(self, sandbox: str) -> None:
        """End it."""
        await self._ask("end a sandbox", "DELETE", _path(sandbox), is_repeatable=True)

    async def renew(self, sandbox: str, ttl_s: float) -> None:
        """Let it live so long from now on; ``NotThere`` for a paused one."""
        body = {"timeout": math.ceil(ttl_s)}
        path = f"{_path(sandbox)}/timeout"
        await self._ask("renew a sandbox", "POST", path, json=body, is_repeatable=True)

    async def pause(self, sandbox: str) -> None:
        """With its memory. ``InUse`` where it is paused already, or about to be."""
        body = {"memory": True} if await self.dialect() == "e2b" else None
        await self._ask("pause a sandbox", "POST", f"{_path(sandbox)}/pause", json=body)

    async def connect(self, sandbox: str, ttl_s: float) -> Sandbox:
        """Resume it if it is paused; it then has at least so long to live."""
        version = "/v2" if await self.dialect() == "e2b" else ""
        path, body = f"{version}{_path(sandbox)}/connect", {"timeout": math.ceil(ttl_s)}
        return read(await self._ask("resume a sandbox", "POST", path, json=body, is_repeatable=True), Sandbox)

    # -- snapshots --------------------------------------------------------------------------------------------------

    async def snapshot(self, sandbox: str, wire_name: str, *, with_memory: bool) -> Snapshot:
        """Freeze a running one under that name; it goes on."""
        body: dict[str, Any] = {"name": wire_name}
        if await self.dialect() == "e2b":
            body["memory"] = with_memory
        path, within_s = f"{_path(sandbox)}/snapshots", self._settings.create_timeout_s
        return read(await self._ask("freeze a sandbox", "POST", path, json=body, within_s=within_s), Snapshot)

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        """All pages of all there are."""
        async for found in self._pages("/snapshots", {}, Snapshot):
            yield found

    async def delete_snapshot(self, snapshot: str) -> None:
        """By its id in a path. A snapshot is a template; E2B answers 400 while paused sandboxes stand on one."""
        try:
            await self._ask("delete a snapshot", "DELETE", f"/templates/{snapshot}", is_repeatable=True)
        except Refused as refused:
            if refused.status == _BAD_REQUEST:
                raise InUse(refused.message) from refused
            raise

    # -- requests ---------------------------------------------------------------------------------------------------

    async def _pages(self, path: str, query: Mapping[str, str], kind: type[T]) -> AsyncIterator[T]:
        tokens: list[str] = []
        while len(tokens) < _MOST_PAGES:
            params = {**query, "limit": str(_PAGE), **({"nextToken": tokens[-1]} if tokens else {})}
            response = await self._ask("list", "GET", path, params=params, is_repeatable=True)
            for found in read(response, list[kind]):  # type: ignore[valid-type]
                yield found
            token = response.headers.get("X-Next-Token")
            if not token:
                return
            if token in tokens:
                break
            tokens.append(token)
        raise Refused(f"the list at {response.request.url} has no end")

    async def _ask(
        self,
        what: str,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        within_s: float | None = None,
        **request: Any,
    ) -> httpx.Response:
        if not self._api_key:  # the address may be E2B's own, which a machine without a key has no business with
            remedy = f"set {API_KEY}, and {VARIABLES['api_url']} where it is not E2B's own"
            raise ProviderUnavailable("there is no key for an E2B system", remedy=remedy)
        named = {"X-API-KEY": checked_key(self._api_key, API_KEY), **(headers or {})}
        within_s = within_s or self._settings.request_timeout_s
        return await self._connections.ask(
            what, method, self._settings.control + path, headers=named, timeout=within_s, within_s=within_s, **request
        )


def _path(sandbox: str) -> str:
    """Of one; its id may come from anybody, and must lead to no other route."""
    return f"/sandboxes/{quote(sandbox, safe='')}"


def _size(limits: Limits) -> dict[str, int]:
    wanted = {"cpuCount": limits.cpus, "memoryMB": limits.memory_mib}
    return {name: math.ceil(value) for name, value in wanted.items() if value is not None}
