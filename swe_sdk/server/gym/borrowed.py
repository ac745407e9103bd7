"""A sandbox that another server has lent, as a box of this process; and the provider that it seems to come from."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import anyio
import httpx
from pydantic import ValidationError

from swe_sdk.agents.contract import AgentTask
from swe_sdk.agents.gateway.endpoint import is_loopback
from swe_sdk.errors import CapabilityMissing, InputError, SandboxLost, TransferFailed
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.contract import (
    DEFAULT_OUTPUT_BYTES,
    BoxStatus,
    Capability,
    OnOutput,
    ProviderHealth,
    SandboxSpec,
)
from swe_sdk.server.gym.contract import PROVIDER_REF, LentSandbox, SandboxAccess
from swe_sdk.server.gym.http import error_told, open_client
from swe_sdk.server.gym.loan_messages import LOANS, LOST, ExecLine, ExecOrder, ListenReply, told_error

_CHUNK_BYTES = 1 << 18
MOST_READ_BYTES = 1 << 30
"""Larger files are downloaded, not read."""


class _Relay(NamedTuple):
    socket: socket.socket
    stack: AsyncExitStack
    lines: AsyncIterator[str]
    """Of the answer that lasts as long as the relay: with the iterator, its connection would go."""


class BorrowedBox:
    """Implements :class:`~swe_sdk.sandbox.contract.Box`; to close it gives it back, and its owner closes it.

    Open it with :func:`borrow`. Of one event loop. A call that is cancelled is broken off; its owner kills what ran.
    """

    def __init__(self, lent: LentSandbox, client: httpx.AsyncClient) -> None:
        self._lent = lent
        self._client = client
        self._spec = SandboxSpec.model_validate(lent.spec)
        self._relays: list[_Relay] = []
        self.task = AgentTask.model_validate(lent.task)
        """What the owner says that an agent may know of the task."""

    @property
    def id(self) -> str:
        """The owner's session is its name."""
        return self._lent.session_id

    @property
    def spec(self) -> SandboxSpec:
        """What it was made from."""
        return self._spec

    @property
    def provider(self) -> BorrowedProvider:
        """What made it, as far as borrowers are concerned."""
        return BorrowedProvider(self._lent.provider, can_listen=self._is_near)

    @property
    def _is_near(self) -> bool:
        return is_loopback(self._lent.url)

    # -- commands ---------------------------------------------------------------------------------------------------

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: bytes | None = None,
        timeout_s: float | None = None,
        output_bytes: int = DEFAULT_OUTPUT_BYTES,
        merge_stderr: bool = False,
        on_output: OnOutput | None = None,
    ) -> ExecResult:
        """See :meth:`swe_sdk.sandbox.contract.LentBox.exec`."""
        order = _checked_order(
            command=command if isinstance(command, str) else tuple(command),
            cwd=cwd,
            env=None if env is None else dict(env),
            user=user,
            stdin=stdin,
            timeout_s=timeout_s,
            output_bytes=output_bytes,
            merge_stderr=merge_stderr,
            stream=on_output is not None,
        )
        is_begun = False
        try:
            async with self._client.stream("POST", "/exec", content=order.model_dump_json()) as answer:
                await _require_ok(answer)
                is_begun = True
                async for line in answer.aiter_lines():
                    told = ExecLine.model_validate_json(line)
                    if told.stream is not None and on_output is not None:
                        on_output(told.stream, told.data)
                    elif told.result is not None:
                        return told.result
                    elif told.error is not None:
                        raise told.error.error()
        except httpx.TransportError as error:
            if not is_begun:
                raise _lost(error) from error
        return ExecResult(status="lost")

    async def status(self) -> BoxStatus:
        """As its owner says; ``lost`` where that is gone."""
        try:
            answer = await self._client.get("/status")
        except httpx.TransportError:
            return "lost"
        if answer.is_error:
            return "lost" if error_told(answer)[0] in LOST else "stopped"
        found: BoxStatus = answer.json()["status"]
        return found

    # -- files ------------------------------------------------------------------------------------------------------

    async def read(self, path: str) -> bytes:
        """The content of a file; ``TransferFailed`` beyond :data:`MOST_READ_BYTES`, as for a box of this machine."""
        content = bytearray()
        with _reached():
            async with self._client.stream("GET", "/files", params={"path": path}) as answer:
                await _require_ok(answer)
                async for chunk in answer.aiter_bytes(_CHUNK_BYTES):
                    content += chunk
                    if len(content) > MOST_READ_BYTES:
                        raise TransferFailed(f"{path} is larger than {MOST_READ_BYTES:,} bytes", remedy="download it")
        return bytes(content)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Create or replace a file."""
        await self._put(path, data, mode)

    async def upload(self, local: Path, remote: str) -> None:
        """Copy a file in."""
        try:
            mode = local.stat().st_mode & 0o777
            async with await anyio.open_file(local, "rb") as file:

                async def chunks() -> AsyncIterator[bytes]:
                    while chunk := await file.read(_CHUNK_BYTES):
                        yield chunk

                await self._put(remote, chunks(), mode)
        except OSError as error:
            raise TransferFailed(f"cannot read {local}: {error}") from error

    async def download(self, remote: str, local: Path) -> None:
        """Copy a file out: it appears complete or not at all."""
        part = local.with_name(f".{local.name}.{new_id('part')}")
        try:
            with _reached():
                async with self._client.stream("GET", "/files", params={"path": remote}) as answer:
                    await _require_ok(answer)
                    async with await anyio.open_file(part, "wb") as file:
                        async for chunk in answer.aiter_bytes(_CHUNK_BYTES):
                            await file.write(chunk)
            part.replace(local)
        except OSError as error:
            raise TransferFailed(f"cannot write {local}: {error}") from error
        finally:
            part.unlink(missing_ok=True)

    async def _put(self, path: str, content: bytes | AsyncIterator[bytes], mode: int) -> None:
        with _reached():
            answer = await self._client.put("/files", params={"path": path, "mode": f"{mode:o}"}, content=content)
            await _require_ok(answer)

    # -- a listener -------------------------------------------------------------------------------------------------

    async def listen(self, port: int = 0) -> tuple[int, socket.socket]:
        """A listener on its loopback interface, passed on to a socket of this process, which the caller closes."""
        if not self._is_near:
            remedy = "give the agent server a service_url of its model gateway"
            raise CapabilityMissing("the sandbox is on another machine, and cannot reach this process", remedy=remedy)
        await self._drop_closed_relays()
        ours = socket.create_server(("127.0.0.1", 0))
        stack = AsyncExitStack()
        try:
            with _reached():
                order = {"port": port, "to_port": ours.getsockname()[1]}
                answer = await stack.enter_async_context(self._client.stream("POST", "/listen", json=order))
                await _require_ok(answer)
                lines = answer.aiter_lines()
                told = await anext(lines)
            self._relays.append(_Relay(ours, stack, lines))
            return ListenReply.model_validate_json(told).port, ours
        except BaseException:
            ours.close()
            await stack.aclose()
            raise

    async def _drop_closed_relays(self) -> None:
        over = [relay for relay in self._relays if relay.socket.fileno() < 0]
        self._relays = [relay for relay in self._relays if relay not in over]
        for relay in over:
            await relay.stack.aclose()

    async def close(self) -> None:
        """Let go of it."""
        relays, self._relays = self._relays, []
        for relay in relays:
            relay.socket.close()
            await relay.stack.aclose()
        await self._client.aclose()


class BorrowedProvider:
    """A :class:`~swe_sdk.sandbox.contract.SandboxProvider` that makes nothing: its boxes are lent."""

    def __init__(self, name: str, *, can_listen: bool) -> None:
        self.name = name
        known: tuple[Capability, ...] = ("streaming", "listen") if can_listen else ("streaming",)
        self.capabilities = frozenset(known)

    async def probe(self) -> ProviderHealth:
        """Nothing to try."""
        return ProviderHealth(provider=self.name, works=True)

    async def create(self, spec: SandboxSpec) -> NoReturn:
        """``CapabilityMissing``."""
        raise CapabilityMissing("this server makes no sandboxes: it borrows them", remedy="seed a session")

    async def aclose(self) -> None:
        """Nothing is held."""


def borrow(access: SandboxAccess) -> BorrowedBox:
    """The sandbox that was lent; ``InputError`` for access that is not of a swe_sdk resources server."""
    ref = access.connection.provider_config_ref
    if ref != PROVIDER_REF:
        problem = f"sandbox_access.connection.provider_config_ref is {ref!r:.100}"
        raise InputError(problem, remedy=f"this server borrows sandboxes of {PROVIDER_REF!r}")
    try:
        lent = LentSandbox.model_validate(access.connection.descriptor)
        headers = {"Authorization": f"Bearer {lent.token}"}
        client = open_client(f"{lent.url.rstrip('/')}{LOANS}/{lent.session_id}", headers=headers)
        return BorrowedBox(lent, client)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"sandbox_access.connection.descriptor.{place}: {first['msg']}") from None


def _checked_order(**fields: Any) -> ExecOrder:
    try:
        return ExecOrder.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InputError(f"a command's {first['loc'][0]}: {first['msg']}") from None


@contextmanager
def _reached() -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as error:
        raise _lost(error) from error


def _lost(error: httpx.TransportError) -> SandboxLost:
    return SandboxLost(f"the server that has lent the sandbox is gone: {str(error) or type(error).__name__}")


async def _require_ok(answer: httpx.Response) -> None:
    if answer.is_error:
        await answer.aread()
        raise told_error(*error_told(answer))
