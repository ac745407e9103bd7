"""A box of another provider, whose calls are counted and may fail."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar, Unpack

import anyio

from swe_sdk.errors import CapabilityMissing
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import (
    Box,
    BoxStatus,
    Capability,
    ExecOptions,
    Process,
    SandboxSpec,
    SupportsListen,
    SupportsPause,
    SupportsProcesses,
)
from swe_sdk.testing.faults import Operation
from swe_sdk.testing.injection import Injector
from swe_sdk.testing.memory import command_text

T = TypeVar("T")


class FakeBox:
    """Delegates to ``inner``; what ``capabilities`` does not name is refused."""

    def __init__(self, inner: Box, injector: Injector, capabilities: frozenset[Capability]) -> None:
        self.inner = inner
        self.is_lost = False
        """Whether it has died by a fault."""
        self.is_gone = False
        """Whether it was closed or lost."""
        self._injector = injector
        self._capabilities = capabilities

    @property
    def id(self) -> str:
        """The inner box's."""
        return self.inner.id

    @property
    def spec(self) -> SandboxSpec:
        """The inner box's."""
        return self.inner.spec

    async def lose(self) -> None:
        """Let it die, as by a crash of its machine."""
        self.is_lost = self.is_gone = True
        await self.inner.close()

    async def exec(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        """Run it in the inner box."""

        async def run() -> ExecResult:
            return await self.inner.exec(command, **options)

        async def die(delay_s: float) -> ExecResult:
            if delay_s:
                with anyio.move_on_after(delay_s):
                    await run()
            await self.lose()
            return ExecResult(status="lost", duration_s=delay_s)

        return await self._injector.call("exec", command_text(command), run, box=self, when_lost=die)

    async def read(self, path: str) -> bytes:
        """Read in the inner box."""
        return await self._call("read", path, lambda: self.inner.read(path))

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write in the inner box."""
        await self._call("write", path, lambda: self.inner.write(path, data, mode=mode))

    async def upload(self, local: Path, remote: str) -> None:
        """Upload to the inner box."""
        await self._call("upload", remote, lambda: self.inner.upload(local, remote))

    async def download(self, remote: str, local: Path) -> None:
        """Download from the inner box."""
        await self._call("download", remote, lambda: self.inner.download(remote, local))

    async def status(self) -> BoxStatus:
        """``lost`` after an injected loss, else the inner box's."""

        async def ask() -> BoxStatus:
            return "lost" if self.is_lost else await self.inner.status()

        return await self._call("status", self.id, ask)

    async def close(self) -> None:
        """Close the inner box."""

        async def end() -> None:
            await self.inner.close()
            self.is_gone, self.is_lost = True, False

        await self._call("close", self.id, end)

    async def pause(self) -> None:
        """Pause the inner box."""
        await self._pausable().pause()

    async def resume(self) -> None:
        """Continue the inner box."""
        await self._pausable().resume()

    async def processes(self) -> list[Process]:
        """The processes of the inner box."""
        if "processes" in self._capabilities and isinstance(self.inner, SupportsProcesses):
            return await self.inner.processes()
        raise CapabilityMissing("this provider cannot list processes")

    async def listen(self, port: int = 0) -> tuple[int, socket.socket]:
        """Listen inside the inner box."""
        if "listen" in self._capabilities and isinstance(self.inner, SupportsListen):
            return await self.inner.listen(port)
        raise CapabilityMissing("this provider cannot listen in a box")

    def _pausable(self) -> SupportsPause:
        if "pause" in self._capabilities and isinstance(self.inner, SupportsPause):
            return self.inner
        raise CapabilityMissing("this provider cannot pause")

    async def _call(self, op: Operation, subject: str, action: Callable[[], Awaitable[T]]) -> T:
        return await self._injector.call(op, subject, action, box=self)
