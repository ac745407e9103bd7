"""The Docker engine: docker-py in worker threads, with a time limit on every call."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar

from swe_sdk.sandbox.providers.docker.failures import NotThere, translated

T = TypeVar("T")
CALL_TIMEOUT_S = 60.0
SLOW_TIMEOUT_S = 1800.0
"""For what moves whole images or layers: pull, commit, export."""
OLDEST_API = "1.41"
"""Of Docker 20.10, whose filter is the first to let openat2(2) pass."""
_THREADS = 48
_POOL = 64
"""docker-py keeps ten connections by default, and opens a new one for each further call."""
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("docker threads")
"""Threads of our own: commits that take minutes must not use up those that everybody shares."""


class Engine:
    """One engine, for any number of event loops and threads. Nothing is connected before the first call."""

    def __init__(self, base_url: str | None = None, *, call_timeout_s: float = CALL_TIMEOUT_S) -> None:
        self._call_timeout_s = call_timeout_s
        self.base_url = base_url or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        self._clients: dict[float, Any] = {}
        self._connecting = threading.Lock()

    async def call(
        self, what: str, work: Callable[[Any], T], *, timeout_s: float | None = None, abandon: bool = False
    ) -> T:
        """Run ``work(api)`` in a thread, ``api`` being a ``docker.APIClient``.

        A cancelled caller waits for the answer, so that what was made is known, unless it may ``abandon`` the call.
        Raises the errors of :mod:`~swe_sdk.sandbox.providers.docker.failures`, or ``NoSpace``.
        """
        return await to_thread.run_sync(
            self.call_blocking, what, work, timeout_s, abandon_on_cancel=abandon, limiter=_threads()
        )

    def call_blocking(self, what: str, work: Callable[[Any], T], timeout_s: float | None = None) -> T:
        """The same, in this thread."""
        try:
            _knock(self.base_url)
            return work(self._client(timeout_s or self._call_timeout_s))
        except Exception as error:
            ours = translated(error, what)
            if ours is None:
                raise
            raise ours from None

    async def inspect(self, container: str) -> dict[str, Any] | None:
        """What the engine knows of a container, by id or name; None where it has none."""
        try:
            found: dict[str, Any] = await self.call(
                "inspect a container", lambda api: api.inspect_container(container), abandon=True
            )
        except NotThere:
            return None
        return found

    def has_container(self, container: str) -> bool:
        """Whether the engine knows it. Blocks."""
        try:
            self.call_blocking("inspect a container", lambda api: api.inspect_container(container))
        except NotThere:
            return False
        return True

    def _client(self, timeout_s: float) -> Any:
        """One for each time limit: docker-py has no limit for a single call."""
        with self._connecting:
            if timeout_s not in self._clients:
                self._clients[timeout_s] = self._connect(timeout_s)
            return self._clients[timeout_s]

    def _connect(self, timeout_s: float) -> Any:
        import docker
        from docker.utils import kwargs_from_env

        settings = {**kwargs_from_env(), "base_url": self.base_url}
        # others wait for us meanwhile, and an engine that hangs says nothing for as long as it may
        connect_s = min(timeout_s, self._call_timeout_s)
        client = docker.APIClient(**settings, version=OLDEST_API, timeout=connect_s, max_pool_size=_POOL)
        try:
            # what version="auto" does, which leaves a connection open where it fails
            client._version = str(client.version(api_version=False)["ApiVersion"])
            client.timeout = timeout_s
        except BaseException:
            client.close()
            raise
        return client

    def close(self) -> None:
        """Give the connections back. The engine may be used again."""
        with self._connecting:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def forget(self) -> None:
        """In a forked child: connections cannot be shared with the parent."""
        self._connecting = threading.Lock()
        self._clients = {}


def _knock(base_url: str) -> None:
    """``OSError`` where nobody listens at a unix socket. docker-py would tell, too, and leave a descriptor open."""
    scheme, _, path = base_url.partition("://")
    if scheme in ("unix", "http+unix"):
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(CALL_TIMEOUT_S)
            door.connect(path)


def _threads() -> anyio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(_THREADS)
        _limiter.set(limiter)
        return limiter
