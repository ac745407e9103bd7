"""A provider that works for real, until it is told to fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Box, SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider

Fault = Callable[[], Awaitable[Any]]


def raises(error: BaseException, *, times: int = 1_000_000) -> Fault:
    """Raise ``error``, the first ``times`` times."""
    left = [times]

    async def fault() -> None:
        if left[0] > 0:
            left[0] -= 1
            raise error

    return fault


def hangs() -> Fault:
    """Never return."""
    return anyio.sleep_forever


class FaultyProvider(LocalProvider):
    """The real local provider, with ``faults`` run before create, exec, write or close of boxes that grade.

    ``on_exec`` may replace the result of a command: it gets the command and returns a result or None. Boxes that build
    environments are left alone.
    """

    def __init__(self, state: Path, faults: dict[str, Fault] | None = None, on_exec: Any = None) -> None:
        super().__init__(state)
        self.faults = faults or {}
        self.on_exec = on_exec
        self.creates = 0
        self.live = 0

    async def fail(self, where: str) -> None:
        if where in self.faults:
            await self.faults[where]()

    async def create(self, spec: SandboxSpec) -> Any:
        if spec.labels.get("purpose") == "build":
            return await super().create(spec)
        self.creates += 1
        await self.fail("create")
        box = await super().create(spec)
        self.live += 1
        return FaultyBox(self, box)


class FaultyBox:
    """A box of a :class:`FaultyProvider`."""

    def __init__(self, provider: FaultyProvider, box: Box) -> None:
        self._provider = provider
        self._box = box
        self._closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._box, name)

    async def exec(self, command: Any, **kwargs: Any) -> ExecResult:
        await self._provider.fail("exec")
        if self._provider.on_exec is not None:
            replaced = self._provider.on_exec(command)
            if replaced is not None:
                return replaced
        return await self._box.exec(command, **kwargs)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        await self._provider.fail("write")
        await self._box.write(path, data, mode=mode)

    async def close(self) -> None:
        try:
            await self._provider.fail("close")
        finally:
            await self._box.close()
            self._provider.live -= not self._closed
            self._closed = True
