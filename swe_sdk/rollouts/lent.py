"""The agent's box as it is lent: it cannot be closed, and what is done with it is counted."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from swe_sdk.errors import SandboxError, SandboxLost
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import DEFAULT_OUTPUT_BYTES, Box, BoxStatus, OnOutput, SandboxSpec

T = TypeVar("T")


class Lent:
    """Delegates to a box. Remembers that it was lost, since an agent may swallow that and go on."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self.commands = 0
        self.commands_s = 0.0
        self.lost: SandboxError | None = None
        self.is_changed = False
        """Whether the agent may have changed it since its latest boundary."""

    @property
    def id(self) -> str:
        """The box's id."""
        return self._box.id

    @property
    def spec(self) -> SandboxSpec:
        """What it was made from."""
        return self._box.spec

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
        """Run a command in the box."""
        begin = time.monotonic()
        self.commands += 1
        self.is_changed = True
        try:
            result = await self._watched(
                self._box.exec(
                    command,
                    cwd=cwd,
                    env=env,
                    user=user,
                    stdin=stdin,
                    timeout_s=timeout_s,
                    output_bytes=output_bytes,
                    merge_stderr=merge_stderr,
                    on_output=on_output,
                )
            )
        finally:
            self.commands_s += time.monotonic() - begin
        if result.status == "lost":
            self.lost = self.lost or SandboxLost("the sandbox died under a command of the agent")
        return result

    async def read(self, path: str) -> bytes:
        """Read a file of the box."""
        return await self._watched(self._box.read(path))

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file of the box."""
        self.is_changed = True
        await self._watched(self._box.write(path, data, mode=mode))

    async def upload(self, local: Path, remote: str) -> None:
        """Copy a file in."""
        self.is_changed = True
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
