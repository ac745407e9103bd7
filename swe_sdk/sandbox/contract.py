"""What a sandbox provider must do, and what it may do besides.

A provider makes *boxes*. Everybody above this floor knows only these protocols. What only some providers can do is a
protocol of its own (:class:`SupportsSnapshots`, :class:`SupportsPause`, ...), and is also listed by
:attr:`SandboxProvider.capabilities`, so that callers can ask before they try.

Rules that every implementation keeps, and that :mod:`swe_sdk.testing.provider_suite` checks:

* ``exec`` never raises for what the command did, and is never retried by anybody.
* Infrastructure trouble is an exception of :mod:`swe_sdk.errors` (``SandboxError``), decided from the provider's own
  facts and never from output or exit codes of the program.
* A timeout or a cancelled call kills the whole process tree of that command before it returns or raises.
* ``close`` may be called twice, works on a dead box, and leaves nothing behind.
"""

from __future__ import annotations

import posixpath
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict, runtime_checkable

from pydantic import Field, field_validator

from swe_sdk.model.environment import WORKDIR, Variables
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.record import Record
from swe_sdk.shown import Shown

Capability = Literal[
    "snapshots",
    "pause",
    "streaming",
    "listen",
    "processes",
    "build",
    "open_network",
    "export",
    "remote_snapshots",
]
"""``build``: sources can be built into environments here (snapshots and a network during the build).
``export``: its snapshots can be copied to another machine, see :class:`SupportsExport`.
``remote_snapshots``: its snapshots lie with a service, and every machine that reaches that can fork them.
``open_network``: its boxes have a network whatever their spec says, and whoever set it up has accepted that."""
BoxStatus = Literal["running", "paused", "stopped", "lost"]
Network = Literal["none", "host"]
Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, bytes], None]
"""Called with each piece of output as it arrives, in order within a stream."""

DEFAULT_OUTPUT_BYTES = 1 << 20
"""How much of each output stream an ``ExecResult`` keeps (half from the head, half from the tail)."""


class Limits(Record):
    """Upper bounds for a box; None = the provider's default."""

    memory_mib: int | None = Field(default=None, gt=0)
    """All processes of the box together; going beyond ends a command with status ``oom``."""
    cpus: float | None = Field(default=None, gt=0)
    pids: int | None = Field(default=None, gt=0)
    disk_mib: int | None = Field(default=None, gt=0)
    """All files together that it has written since it was made or last frozen; going beyond ends its programs."""
    file_size_bytes: int | None = Field(default=None, gt=0)
    open_files: int | None = Field(default=None, gt=0)


class Mount(Record):
    """A directory or file of this machine that is visible read-only in the box, at ``target``."""

    source: str
    target: str

    @field_validator("target")
    @classmethod
    def _plain(cls, target: str) -> str:
        if target != posixpath.normpath(target) or not target.startswith("/") or target == "/":
            raise ValueError("the target of a mount is an absolute path below /, without . and ..")
        return target


class SandboxSpec(Record):
    """What kind of box to make: on an image, on a snapshot, or (both None) on the provider's base system."""

    image: str | None = None
    snapshot: str | None = None
    workdir: str = WORKDIR
    env: Variables = Field(default_factory=dict)
    network: Network = "none"
    mounts: tuple[Mount, ...] = ()
    limits: Limits = Limits()
    labels: dict[str, str] = Field(default_factory=dict)

    @field_validator("workdir")
    @classmethod
    def _absolute(cls, workdir: str) -> str:
        if not workdir.startswith("/") or "\0" in workdir:
            raise ValueError("the workdir is an absolute path")
        return workdir


class Snapshot(Shown, Record):
    """A frozen writable layer, by id."""

    id: str
    provider: str
    created_at: float
    """Unix seconds."""


class Process(Record):
    """One process in a box."""

    pid: int
    ppid: int
    state: str
    """One letter, as in /proc: R running, S sleeping, T stopped, Z zombie."""
    command: str


Enforcement = Literal["enforced", "watched", "unavailable"]
"""A limit is *enforced* by the kernel, *watched* (looked at several times a second, acted on when it is passed), or
*unavailable* with this provider on this machine."""


class ProviderHealth(Record):
    """Whether a provider works on this machine and, if not, why and what to do."""

    provider: str
    works: bool
    reason: str = ""
    remedy: str = ""
    details: dict[str, str] = Field(default_factory=dict)
    limits: dict[str, Enforcement] = Field(default_factory=dict)
    """How each field of :class:`Limits` is kept here."""


class ExecOptions(TypedDict, total=False):
    """The keyword arguments of :meth:`LentBox.exec`, for what passes them on."""

    cwd: str | None
    env: Mapping[str, str] | None
    user: str | None
    stdin: bytes | None
    timeout_s: float | None
    output_bytes: int
    merge_stderr: bool
    on_output: OnOutput | None


@runtime_checkable
class LentBox(Protocol):
    """A live sandbox that belongs to somebody else: whoever works in it cannot close it."""

    @property
    def id(self) -> str:
        """Unique among all boxes of the provider on this machine."""

    @property
    def spec(self) -> SandboxSpec:
        """What it was made from."""

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
        """Run a command to its end.

        ``command`` is a shell line (run by bash, else sh) or an argument list. ``cwd`` is the spec's workdir by
        default; ``env`` is added to the spec's; standard input is empty unless ``stdin`` is given. Background
        processes that it leaves stay alive. ``merge_stderr`` sends standard error into standard output, in the order
        written.

        Raises ``SandboxLost``/``SandboxClosed`` where it could not be started at all. Where the box dies under the
        command the status is ``lost``.
        """

    async def read(self, path: str) -> bytes:
        """The content of a regular file; ``TransferFailed`` if there is none."""

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Create or replace a file; its parent directories are made."""

    async def upload(self, local: Path, remote: str) -> None:
        """Copy a local file of any size into the box, keeping its permission bits."""

    async def download(self, remote: str, local: Path) -> None:
        """Copy a file of any size out of the box; ``local`` appears complete or not at all."""

    async def status(self) -> BoxStatus:
        """From the provider's own facts."""


@runtime_checkable
class Box(LentBox, Protocol):
    """A live sandbox."""

    async def close(self) -> None:
        """Kill everything in it and remove what it wrote."""


@runtime_checkable
class SandboxProvider(Protocol):
    """Makes boxes."""

    @property
    def name(self) -> str:
        """For messages and settings, such as "local"."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can do beyond the basic contract."""

    async def probe(self) -> ProviderHealth:
        """Try it for real, on this machine; never raises."""

    async def create(self, spec: SandboxSpec) -> Box:
        """A new box; ``CreateFailed``, ``SnapshotNotFound`` or ``PrerequisiteError`` where there can be none."""

    async def aclose(self) -> None:
        """Close every box that is left, and give back what the provider holds."""


@runtime_checkable
class SupportsPing(Protocol):
    """A provider whose boxes are made by an engine or a system that may be away for a while."""

    async def ping(self) -> None:
        """Ask it for a sign of life; ``PrerequisiteError`` or ``SandboxError`` where there is none.

        One that was never used is not asked: whoever uses it first is told what is wrong, and need not wait.
        """


@runtime_checkable
class SupportsSnapshots(Protocol):
    """A provider whose boxes can be frozen, and forked in time that does not grow with their size."""

    async def snapshot(self, box: Box, *, snapshot_id: str | None = None) -> Snapshot:
        """Freeze what ``box`` has written. The box goes on, with its id, its files and its status.

        Where nothing runs in it, that takes the same time whatever it holds. Where processes live in it and it is
        paused, what it has written is copied and the processes notice nothing; the snapshot is then as after a crash
        of the box's machine: every write that had returned is in it, of those under way any part. It holds files, not
        processes, and no content of deleted files. Processes that run on are ``SnapshotBusy``, which names them: pause
        the box, or stop them. Calls that come meanwhile wait; ``SnapshotBusy`` as well if one is under way.

        ``snapshot_id``, made by ``new_id("snap")``, lets the caller write the id down before there is a snapshot, so
        that none is lost with a caller that dies.

        ``NoSpace`` where the disk is full. Whatever is raised, the box goes on and nothing is left of the snapshot.
        A snapshot survives its box and this process; what a crash of the whole machine may take is the provider's to
        say.
        """

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Forget a snapshot; its layers go when no box and no snapshot needs them. Unknown ids are ignored."""

    async def snapshots(self) -> list[Snapshot]:
        """All snapshots on this machine."""


class SnapshotParts(Record):
    """What a snapshot is made of, as its provider takes it apart."""

    parts: tuple[str, ...]
    """From the top down. A part never changes, and its name is given to no other one of that machine."""
    facts: dict[str, Any] = Field(default_factory=dict)
    """What else it takes to put it together again; plain data, for the same kind of provider."""


PartSource = Callable[[str], Awaitable[Path]]
"""Gives a file that a part was exported into, once it is sure what that holds."""


@runtime_checkable
class SupportsExport(Protocol):
    """A provider whose snapshots can be copied to another machine: in parts, which snapshots may share."""

    async def parts_of(self, snapshot_id: str) -> SnapshotParts:
        """What there is to copy. ``SnapshotNotFound``; ``CapabilityMissing`` where this one cannot be."""

    async def export_part(self, part: str, file: Path) -> None:
        """Write a part into a file. ``NoSpace``, ``TransferFailed``, or ``SnapshotNotFound`` where it is gone."""

    async def import_snapshot(self, snapshot_id: str, made_of: SnapshotParts, fetch: PartSource) -> Snapshot:
        """A snapshot by that id, of parts by the names that they are to have here.

        Names must say what is in them: one that is there already is not fetched. ``CapabilityMissing`` where it does
        not fit this machine, ``NoSpace``, ``TransferFailed``, or what ``fetch`` raises; nothing is left of it then.
        """


class Toolchain(Record):
    """What a build uses of its base system: where Python is in the box, and what must be mounted for it."""

    python: str | None = None
    mounts: tuple[Mount, ...] = ()
    path: tuple[str, ...] = ()
    """Directories in the box that come first on PATH."""
    fingerprint: tuple[str, ...] = ()
    """What another machine must have in common for a build to be the same."""
    of_machine: bool = True
    """Whether it is this machine's, and boxes see its programs and certificates; an image has its own."""


@runtime_checkable
class SupportsBuild(Protocol):
    """A provider on which sources can be built into environments."""

    @property
    def state(self) -> Path:
        """Where records of built environments are kept."""

    async def toolchain(self, python: str | None, tools: Sequence[str]) -> Toolchain:
        """A Python that matches a version or specifier, and the programs named; ``MissingTool`` if one is not there."""


@runtime_checkable
class SupportsImages(Protocol):
    """A provider that fetches container images by itself."""

    async def ensure_image(
        self, image: str, *, refresh: bool = False, on_progress: Callable[[str], None] | None = None
    ) -> str:
        """Have an image ready, so that its boxes start at once; returns what tells it from all others.

        It is fetched where it is not there, or where ``refresh`` is set and its registry has another one by now.
        ``ImageNotFound``, ``PullFailed`` or ``NoSpace``.
        """


@runtime_checkable
class SupportsPause(Protocol):
    """A box whose processes can be stopped and continued."""

    async def pause(self) -> None:
        """Stop every process; returns once all have stopped. Nothing can be executed meanwhile."""

    async def resume(self) -> None:
        """Continue them."""


@runtime_checkable
class SupportsProcesses(Protocol):
    """A box that can list its processes."""

    async def processes(self) -> list[Process]:
        """All of them but the supervisor."""


@runtime_checkable
class SupportsListen(Protocol):
    """A box within which this process can serve a TCP port, without any network."""

    async def listen(self, port: int = 0) -> tuple[int, socket.socket]:
        """A listening socket on the box's own loopback interface, and its port."""
