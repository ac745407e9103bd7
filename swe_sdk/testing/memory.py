"""Sandboxes that are only a dictionary of files and a function: instant, and on any machine."""

from __future__ import annotations

import inspect
import posixpath
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import anyio

from swe_sdk.errors import SandboxClosed, SnapshotNotFound, TransferFailed
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.contract import (
    DEFAULT_OUTPUT_BYTES,
    Box,
    BoxStatus,
    Capability,
    OnOutput,
    ProviderHealth,
    SandboxSpec,
    Snapshot,
)


class File(NamedTuple):
    """A file of a box in memory."""

    data: bytes
    mode: int = 0o644


class Command(str):
    """What a box in memory is asked to run: the shell line, or the quoted argument list, with its circumstances."""

    argv: tuple[str, ...] | None
    """The argument list; None where it was a shell line."""
    cwd: str
    env: dict[str, str]
    """The spec's variables and the command's own."""
    user: str | None
    stdin: bytes
    timeout_s: float | None

    @classmethod
    def of(cls, command: str | Sequence[str]) -> Command:
        """The text of a command; the circumstances are set by the box."""
        made = cls(command_text(command))
        made.argv = None if isinstance(command, str) else tuple(command)
        return made


Reply = ExecResult | bytes | str
Handler = Callable[[Command, "MemoryBox"], Reply | Awaitable[Reply]]
"""Plays the program: a result, or its standard output (exit code 0). It may use ``box.files`` and may be async."""


def command_text(command: str | Sequence[str]) -> str:
    """A command as one line of text."""
    return command if isinstance(command, str) else shlex.join(command)


def succeed(command: Command, box: MemoryBox) -> Reply:
    """The default handler: exit code 0, no output."""
    return b""


class MemoryBox:
    """A box whose files are :attr:`files`, by absolute path, and whose programs are a handler."""

    def __init__(self, spec: SandboxSpec, handler: Handler, files: Mapping[str, File]) -> None:
        self.id = new_id("memory")
        self.spec = spec
        self.files: dict[str, File] = dict(files)
        self._handler = handler
        self._closed = False

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
        """Ask the handler; a handler that waits is subject to the timeout."""
        self._require_open()
        asked = Command.of(command)
        asked.cwd, asked.env = cwd or self.spec.workdir, {**self.spec.env, **(env or {})}
        asked.user, asked.stdin, asked.timeout_s = user, stdin or b"", timeout_s
        begin = time.monotonic()
        result = ExecResult(status="timeout")
        with anyio.move_on_after(timeout_s):
            result = await _answer(self._handler, asked, self)
        return _shaped(result, time.monotonic() - begin, output_bytes, merge_stderr, on_output)

    async def read(self, path: str) -> bytes:
        """The bytes of a file."""
        return self._file(path).data

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Set a file."""
        self._require_open()
        if any(name.startswith(f"{self._path(path)}/") for name in self.files):
            raise TransferFailed(f"cannot write {path}: it is a directory")
        self.files[self._path(path)] = File(bytes(data), mode)

    async def upload(self, local: Path, remote: str) -> None:
        """Set a file from a local one."""
        try:
            data, mode = local.read_bytes(), local.stat().st_mode & 0o7777
        except OSError as error:
            raise TransferFailed(f"cannot upload {local}: {error}") from error
        await self.write(remote, data, mode=mode)

    async def download(self, remote: str, local: Path) -> None:
        """Write a file to a local one."""
        file = self._file(remote)
        try:
            local.write_bytes(file.data)
            local.chmod(file.mode)
        except OSError as error:
            raise TransferFailed(f"cannot download to {local}: {error}") from error

    async def status(self) -> BoxStatus:
        """Running until it is closed."""
        return "stopped" if self._closed else "running"

    async def close(self) -> None:
        """Forget the files."""
        self._closed = True
        self.files.clear()

    def _file(self, path: str) -> File:
        self._require_open()
        file = self.files.get(self._path(path))
        if file is None:
            raise TransferFailed(f"no file {path} in box {self.id}")
        return file

    def _path(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.spec.workdir, path))

    def _require_open(self) -> None:
        if self._closed:
            raise SandboxClosed(f"box {self.id} is closed")


class MemoryProvider:
    """Makes :class:`MemoryBox`; a snapshot is a copy of the dictionary."""

    def __init__(self, handler: Handler = succeed, *, name: str = "fake") -> None:
        self.name = name
        self.capabilities: frozenset[Capability] = frozenset({"snapshots"})
        self._handler = handler
        self._snapshots: dict[str, tuple[Snapshot, dict[str, File]]] = {}
        self._boxes: list[MemoryBox] = []

    async def probe(self) -> ProviderHealth:
        """It always works."""
        return ProviderHealth(provider=self.name, works=True)

    async def create(self, spec: SandboxSpec) -> Box:
        """A box with no files, or with those of a snapshot."""
        files = {} if spec.snapshot is None else self._frozen(spec.snapshot)
        box = MemoryBox(spec, self._handler, files)
        self._boxes.append(box)
        return box

    async def aclose(self) -> None:
        """Close all boxes."""
        for box in self._boxes:
            await box.close()

    async def snapshot(self, box: Box, *, snapshot_id: str | None = None) -> Snapshot:
        """A copy of the files."""
        if not isinstance(box, MemoryBox) or await box.status() == "stopped":
            raise SandboxClosed(f"box {box.id} is closed")
        snapshot = Snapshot(id=snapshot_id or new_id("snapshot"), provider=self.name, created_at=time.time())
        self._snapshots[snapshot.id] = (snapshot, dict(box.files))
        return snapshot

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Forget the copy."""
        self._snapshots.pop(snapshot_id, None)

    async def snapshots(self) -> list[Snapshot]:
        """All that are not deleted."""
        return [snapshot for snapshot, _ in self._snapshots.values()]

    def _frozen(self, snapshot_id: str) -> dict[str, File]:
        if snapshot_id not in self._snapshots:
            raise SnapshotNotFound(f"no snapshot {snapshot_id!r}")
        return self._snapshots[snapshot_id][1]


async def _answer(handler: Handler, command: Command, box: MemoryBox) -> ExecResult:
    reply = handler(command, box)
    told = await reply if inspect.isawaitable(reply) else reply
    if isinstance(told, str):
        told = told.encode()
    return ExecResult(status="exited", exit_code=0, stdout_bytes=told) if isinstance(told, bytes) else told


def _shaped(
    result: ExecResult, took_s: float, output_bytes: int, merge_stderr: bool, on_output: OnOutput | None
) -> ExecResult:
    """The handler's result, as a provider would have told it: merged, streamed, cut, timed."""
    out, err = result.stdout_bytes, result.stderr_bytes
    if merge_stderr:
        out, err = out + err, b""
    if on_output and out:
        on_output("stdout", out)
    if on_output and err:
        on_output("stderr", err)
    (out, out_dropped), (err, err_dropped) = _cut(out, output_bytes), _cut(err, output_bytes)
    changes = {
        "stdout_bytes": out,
        "stderr_bytes": err,
        "stdout_dropped_bytes": result.stdout_dropped_bytes + out_dropped,
        "stderr_dropped_bytes": result.stderr_dropped_bytes + err_dropped,
        "duration_s": result.duration_s or took_s,
    }
    return result.model_copy(update=changes)


def _cut(data: bytes, limit: int) -> tuple[bytes, int]:
    """Head and tail of at most ``limit`` bytes in all, and how many are dropped between them."""
    if len(data) <= limit:
        return data, 0
    head = limit - limit // 2
    return data[:head] + data[len(data) - limit // 2 :], len(data) - limit
