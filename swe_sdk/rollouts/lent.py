"""The agent's box as it is lent: it cannot be closed, and what is done with it is counted."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import TypeVar, Unpack

from swe_sdk.errors import SandboxError, SandboxLost
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Box, BoxStatus, ExecOptions, SandboxSpec

T = TypeVar("T")


class Lent:
    """Delegates to a box. Remembers that it was lost, since an agent may swallow that and go on."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self.commands = 0
        self.commands_s = 0.0
        self.lost: SandboxError | None = None
        self._is_changed = False
        self._running = 0

    @property
    def is_changed(self) -> bool:
        """Whether the agent may have changed it since its latest boundary: a command that runs on may at any time."""
        return self._is_changed or self._running > 0

    def came_to_a_boundary(self) -> None:
        """What was done until now is part of where the agent stands."""
        self._is_changed = False

    @property
    def id(self) -> str:
        """The box's id."""
        return self._box.id

    @property
    def spec(self) -> SandboxSpec:
        """What it was made from."""
        return self._box.spec

    async def exec(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        """Run a command in the box."""
        begin = time.monotonic()
        self.commands += 1
        self._running += 1
        try:
            result = await self._watched(self._box.exec(command, **options))
        finally:
            self._running -= 1
            self._is_changed = True
            self.commands_s += time.monotonic() - begin
        if result.status == "lost":
            self.lost = self.lost or SandboxLost("the sandbox died under a command of the agent")
        return result

    async def read(self, path: str) -> bytes:
        """Read a file of the box."""
        return await self._watched(self._box.read(path))

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file of the box."""
        self._is_changed = True
        await self._watched(self._box.write(path, data, mode=mode))

    async def upload(self, local: Path, remote: str) -> None:
        """Copy a file in."""
        self._is_changed = True
        await self._watched(self._box.upload(local, remote))

    async def download(self, remote: str, local: Path) -> None:
        """Copy a file out."""
        await self._watched(self._box.download(remote, local))

    async def status(self) -> BoxStatus:
        """The box's status."""
        return await self._box.status()

    async def _watched(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except SandboxLost as error:
            self.lost = self.lost or error
            raise
