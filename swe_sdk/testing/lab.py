"""Where a check of a provider works: boxes and snapshots that are tidied up, and what checks often ask."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import anyio
from pydantic import Field

from swe_sdk.errors import SandboxError
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.record import Record
from swe_sdk.sandbox.contract import Box, ExecOptions, SandboxProvider, SandboxSpec, Snapshot, SupportsSnapshots
from swe_sdk.testing.expect import CheckFailed, NotApplicable, require, require_ok

ProviderFactory = Callable[[], SandboxProvider]
QUIET_S = 0.4
"""A loop that ticks every 0.05 s and is silent for so long has stopped."""


class ProviderSettings(Record):
    """What the provider suite may assume, and how hard it tries."""

    spec: SandboxSpec = SandboxSpec()
    """The boxes of all checks; set ``image`` where the provider needs one."""
    prompt_s: float = Field(default=10.0, gt=0)
    """What "promptly" means: a timeout's grace period plus the slowness of the machine."""
    timeout_s: float = Field(default=0.5, gt=0)
    """The timeout in checks of timeouts: programs must have started by then."""
    exec_timeout_s: float = Field(default=45.0, gt=0)
    """The timeout of commands that should end by themselves, so that a defect is a failure and not a hang."""
    flood_bytes: int = Field(default=100 * 1000 * 1000, gt=1 << 20)
    """How much a program prints in the checks of bounded output."""
    transfer_bytes: int = Field(default=50 << 20, gt=1 << 20)
    """The size of the large file that is uploaded and downloaded."""
    parallel_execs: int = Field(default=30, gt=1)
    parallel_boxes: int = Field(default=20, gt=1)


@dataclass
class Pending:
    """A command that is running; ``result`` is there once it has ended."""

    result: ExecResult | None = None
    error: SandboxError | None = None

    def need(self) -> ExecResult:
        """The result; a failure of the check where the command raised instead."""
        if self.result is None:
            raise CheckFailed(f"exec raised {type(self.error).__name__}: {self.error}")
        return self.result


@dataclass
class Lab:
    """One check's workplace; everything made through it is gone after :meth:`clear`."""

    provider: SandboxProvider
    settings: ProviderSettings
    scratch: Path
    """An empty directory on the host."""
    fresh: ProviderFactory | None = None
    _boxes: list[Box] = field(default_factory=list)
    _snapshots: list[str] = field(default_factory=list)

    async def box(self, **changes: Any) -> Box:
        """A new box of the suite's spec, with some of its fields changed."""
        spec = SandboxSpec.model_validate({**self.settings.spec.model_dump(), **changes})
        box = await self.provider.create(spec)
        self._boxes.append(box)
        return box

    async def run(self, box: Box, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        """``exec`` with the suite's timeout, unless the check gives one."""
        options.setdefault("timeout_s", self.settings.exec_timeout_s)
        return await box.exec(command, **options)

    async def ok(self, box: Box, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        """Run a command that must succeed."""
        return require_ok(await self.run(box, command, **options), f"{command!r:.200}")

    @asynccontextmanager
    async def running(
        self, box: Box, command: str | Sequence[str], **options: Unpack[ExecOptions]
    ) -> AsyncIterator[Pending]:
        """A command that runs while the block does, and is awaited at its end; ``SandboxError`` is kept, not raised."""
        pending = Pending()

        async def keep() -> None:
            try:
                pending.result = await self.run(box, command, **options)
            except SandboxError as error:
                pending.error = error

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep)
            yield pending

    @property
    def snapshots(self) -> SupportsSnapshots:
        """The provider, as one that can snapshot."""
        require(isinstance(self.provider, SupportsSnapshots), "it claims 'snapshots', but lacks the methods")
        assert isinstance(self.provider, SupportsSnapshots)
        return self.provider

    async def snapshot(self, box: Box, *, snapshot_id: str | None = None) -> Snapshot:
        """A snapshot that is deleted after the check."""
        snapshot = await self.snapshots.snapshot(box, snapshot_id=snapshot_id)
        self._snapshots.append(snapshot.id)
        return snapshot

    async def fork(self, snapshot: Snapshot) -> Box:
        """A new box from a snapshot."""
        return await self.box(snapshot=snapshot.id, image=None)

    async def size(self, box: Box, path: str) -> int:
        """Bytes in a file of the box; 0 where there is none."""
        result = await self.ok(box, ["sh", "-c", 'if [ -e "$1" ]; then wc -c < "$1"; else echo 0; fi', "sh", path])
        return int(result.stdout)

    async def wait_for_file(self, box: Box, path: str, otherwise: str = "") -> None:
        """Until a file of the box is there."""
        with self.promptly(otherwise or f"{path} never appeared in the box"):
            while not (await self.run(box, ["test", "-e", path])).ok:
                await anyio.sleep(0.02)

    async def require_growing(self, box: Box, path: str, what: str) -> None:
        """Fail unless the file gets longer."""
        before = await self.size(box, path)
        with self.promptly(f"{what} has stopped"):
            while await self.size(box, path) == before:
                await anyio.sleep(0.05)

    async def require_stopped(self, box: Box, path: str, what: str) -> None:
        """Fail unless the file was written to, and gets no longer."""
        before = await self.size(box, path)
        require(before, f"{what} never ran, so nothing can be said about its end")
        await anyio.sleep(QUIET_S)
        require(await self.size(box, path) == before, f"{what} is still running")

    @contextmanager
    def promptly(self, otherwise: str) -> Iterator[None]:
        """A block that is cancelled, and fails the check, once it takes longer than is prompt."""
        with anyio.move_on_after(self.settings.prompt_s) as scope:
            yield
        require(not scope.cancelled_caught, f"{otherwise} (within {self.settings.prompt_s:g} s)")

    def new_provider(self) -> SandboxProvider:
        """A provider of the check's own; not applicable where the suite was given an instance and no factory."""
        if self.fresh is None:
            raise NotApplicable("needs a factory of providers, not an instance")
        return self.fresh()

    async def clear(self) -> None:
        """Close the boxes and delete the snapshots; a failure where that does not end."""
        with anyio.CancelScope(shield=True), self.promptly("closing the boxes of this check does not end"):
            async with anyio.create_task_group() as tasks:
                for box in self._boxes:
                    tasks.start_soon(box.close)
            for snapshot in self._snapshots:
                await self.snapshots.delete_snapshot(snapshot)


def unique(prefix: str = "swe-sdk-check") -> str:
    """A word that is found nowhere else on this machine."""
    return f"{prefix}-{secrets.token_hex(8)}"
