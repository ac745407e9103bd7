"""What a remote sandbox system must do for us; :class:`~swe_sdk.sandbox.providers.remote.provider.RemoteProvider`
makes a provider out of it.

An *engine* is a thin adapter: one method, one or two calls to the system. It knows nothing of tasks, leases and
supervisors, retries nothing that makes or runs something, and raises the errors of
:mod:`~swe_sdk.sandbox.providers.remote.failures`. What systems do differently is data: :class:`Traits`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from swe_sdk.model.record import Record
from swe_sdk.sandbox.contract import Limits, Network

SandboxState = Literal["running", "paused", "gone"]
"""``gone``: it has failed or ended, or is about to."""
OnLine = Callable[[str], None]


class Traits(Record):
    """What a system can do, and how."""

    snapshot_scope: Literal["files", "memory"] = "files"
    """``memory``: a fork goes on with the processes of its origin, so nothing may run in a box that is frozen."""
    pause_keeps_processes: bool = False
    """Where its own pause ends them, a box is paused by our supervisor alone."""
    snapshot_while_paused: bool = False
    """Else a paused box is resumed for the time of its snapshot, with all of its programs stopped."""
    max_fork: int | None = None
    """How many boxes may be made of one snapshot at once; None = as many as one likes."""
    byte_exact_output: bool = False
    """Whether what a command prints arrives as it was printed. We send all that counts as files in any case."""
    kills_tree: bool = False
    """Whether its own timeouts and cancellations end all of a command's processes. Our supervisor does so anyway."""
    offline: bool = False
    """Whether boxes of network ``none`` have none. Where not, whoever made the engine has accepted that."""
    min_ttl_s: float = 60.0
    """The shortest time to live that it takes."""
    limits: frozenset[str] = frozenset()
    """Which fields of ``Limits`` it enforces."""
    own_variables: tuple[str, ...] = ()
    """Prefixes of environment variables that are the system's own, and no program's business."""


@dataclass(frozen=True)
class Wanted:
    """A sandbox to be made: on an image, or on a snapshot by the system's own id."""

    image: str | None
    snapshot: str | None
    metadata: Mapping[str, str]
    """Complete: what a snapshot has of another box must be replaced by it. Values are label-safe; no secrets."""
    ttl_s: float
    network: Network
    limits: Limits


@dataclass(frozen=True)
class FoundSandbox:
    """What the system says of one."""

    id: str
    metadata: Mapping[str, str]
    state: SandboxState


@dataclass(frozen=True)
class FoundSnapshot:
    """One of a listing: whole, or about to be."""

    id: str
    """The system's own."""
    name: str
    """Ours; several may have the same."""
    created_at: float
    """Unix seconds; the same in every listing."""
    is_ready: bool


@dataclass(frozen=True)
class Upload:
    """One file on its way into a box: bytes, or a file of this machine."""

    path: str
    data: bytes | Path = field(repr=False)
    mode: int = 0o644


class Engine(Protocol):
    """One remote system. May be used from several event loops and threads, one after the other or at once.

    ``sandbox`` is always the system's own id. Methods raise ``NotThere`` for one that is not (any more), ``Silent``
    where the system does not answer, ``Refused`` where it says no, ``NoSpace`` where it is full.
    """

    @property
    def name(self) -> str:
        """As in the registry of providers."""

    @property
    def traits(self) -> Traits:
        """What it can do."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Plain data without secrets, by which another process reaches the same system."""

    async def introduce(self) -> dict[str, str]:
        """What it says of itself, for ``swe-sdk doctor``; ``ProviderUnavailable`` with a remedy where it cannot be
        used from here."""

    # -- sandboxes --------------------------------------------------------------------------------------------------

    async def create(self, wanted: Wanted) -> str:
        """Make one and wait until commands can run in it; its id. ``ImageNotFound``, ``SnapshotNotFound``,
        ``CreateFailed``. Where it fails, or is cancelled, nothing stays."""

    async def find(self, sandbox: str) -> FoundSandbox | None:
        """What the system says of it, without resuming it; None where there is none."""

    async def relabel(self, sandbox: str, metadata: Mapping[str, str]) -> None:
        """Replace what is named of its metadata; ``CapabilityMissing`` where the system cannot."""

    async def answers(self, sandbox: str) -> bool:
        """Whether commands can be run in it at this moment, by trying."""

    async def kill(self, sandbox: str) -> None:
        """End it, paused or not, and return when it is gone. Gone already is no error."""

    async def renew(self, sandbox: str, ttl_s: float) -> None:
        """Let it live so long from now on."""

    async def pause(self, sandbox: str) -> None:
        """Freeze it; called only where ``pause_keeps_processes``. Paused already is no error."""

    async def resume(self, sandbox: str) -> None:
        """Let it go on. Running already is no error."""

    async def sandboxes(self, metadata: Mapping[str, str]) -> list[FoundSandbox]:
        """All pages of those that have all of this metadata, in any state."""

    # -- in a sandbox -----------------------------------------------------------------------------------------------

    async def run(self, sandbox: str, line: str, env: Mapping[str, str], on_line: OnLine) -> None:
        """Run a shell line of ours as its most powerful user, and return at its end, whatever that was.

        ``on_line`` gets each line of plain ASCII that it prints on standard output, as it comes. ``env`` must not come
        onto any command line. A caller that is cancelled has merely stopped to listen.
        """

    async def upload(self, sandbox: str, files: Sequence[Upload]) -> None:
        """Create or replace files, and the directories above them. All paths are ours: absolute, plain ASCII."""

    def download(self, sandbox: str, path: str, offset: int = 0) -> AsyncGenerator[bytes]:
        """A file from an offset to its end, in pieces: none where it is no longer than that. ``FileMissing``."""

    # -- snapshots --------------------------------------------------------------------------------------------------

    async def snapshot(self, sandbox: str, name: str) -> FoundSnapshot:
        """Freeze it under a name, and wait until that is done; the sandbox goes on. Nothing half made stays."""

    async def snapshots(self, name: str | None = None) -> list[FoundSnapshot]:
        """All pages; only those of that name where one is given."""

    async def delete_snapshot(self, snapshot: str) -> None:
        """By the system's own id. Gone already is no error; ``InUse`` while something stands on it."""

    # -- the end ----------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Give back connections of this event loop. May be used again."""

    def forget(self) -> None:
        """In a forked child: let go of connections without using them."""
