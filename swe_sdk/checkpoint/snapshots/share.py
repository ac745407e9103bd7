"""Copies of snapshots on shared storage, from where another node can have them.

::

    SHARE/<run>/<series>/parts/<part>.<sha256>      a part, as its provider exports it
                        /snapshots/<id>.json        all of a snapshot is there: written last

A series (see :mod:`swe_sdk.store.checkpoints`) is written by its process alone. What is half written has a name that
begins with a dot, and goes with the next copy or release.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from anyio import to_thread
from pydantic import ValidationError

from swe_sdk.errors import CapabilityMissing, TransferFailed
from swe_sdk.files import write_atomic
from swe_sdk.model.ids import new_id
from swe_sdk.model.record import Record
from swe_sdk.sandbox.contract import SandboxProvider, Snapshot, SnapshotParts, SupportsExport
from swe_sdk.store.atomic import disk_full_is_typed, sync_directory


class Part(Record):
    """One file of a copy."""

    name: str
    """As the provider that made it calls it."""
    sha256: str
    size_bytes: int

    @property
    def file(self) -> str:
        """Its name below ``parts``."""
        return f"{self.name}.{self.sha256}"

    @property
    def elsewhere(self) -> str:
        """What another machine calls it: by what is in it."""
        return f"shared-{self.sha256[:32]}"


class SnapshotCopy(Record):
    """A snapshot, all of which is there."""

    snapshot_id: str
    provider: str
    node: str
    """Where it was made."""
    parts: tuple[Part, ...]
    """From the top down."""
    facts: dict[str, Any]


class SnapshotShare:
    """The copies of one series."""

    def __init__(self, folder: Path, series: str) -> None:
        self.folder = folder / series
        self._parts, self._snapshots = self.folder / "parts", self.folder / "snapshots"

    # -- there -------------------------------------------------------------------------------------------------------

    async def copy(self, provider: SandboxProvider, snapshot_id: str, node: str) -> SnapshotCopy:
        """Copy a snapshot of ``node``, which is this one; parts that are there are not copied again.

        It is on the disk when this returns, and not to be seen before. Raises ``NoSpace``, another ``SandboxError``,
        or ``CapabilityMissing``.
        """
        exporter = as_exporter(provider)
        with disk_full_is_typed(self.folder):
            for place in (self._parts, self._snapshots):
                place.mkdir(parents=True, exist_ok=True)
            made_of = await exporter.parts_of(snapshot_id)
            parts = [await self._part(exporter, name) for name in made_of.parts]
            copy = SnapshotCopy(
                snapshot_id=snapshot_id, provider=provider.name, node=node, parts=tuple(parts), facts=made_of.facts
            )
            await to_thread.run_sync(self._complete, copy)
        return copy

    async def _part(self, exporter: SupportsExport, name: str) -> Part:
        there = next(self._parts.glob(f"{name}.*"), None)
        if there is not None:
            return Part(name=name, sha256=there.suffix[1:], size_bytes=there.stat().st_size)
        draft = self._parts / f".{new_id('draft')}"
        try:
            await exporter.export_part(name, draft)
            return await to_thread.run_sync(_settle, draft, name)
        finally:
            draft.unlink(missing_ok=True)

    def _complete(self, copy: SnapshotCopy) -> None:
        sync_directory(self._parts)
        write_atomic(self._snapshots / f"{copy.snapshot_id}.json", copy.model_dump_json().encode())
        sync_directory(self._snapshots)

    def keep_only(self, snapshot_ids: Collection[str]) -> None:
        """Drop all copies but these, and the parts that no copy needs; blocks. Nothing may be copied meanwhile."""
        for file in _files(self._snapshots):
            if file.stem not in snapshot_ids:
                file.unlink(missing_ok=True)
        needed = {part.file for copy in self.copies() for part in copy.parts}
        for file in _files(self._parts):
            if file.name not in needed:
                file.unlink(missing_ok=True)
        if not snapshot_ids:
            shutil.rmtree(self.folder, ignore_errors=True)

    # -- back --------------------------------------------------------------------------------------------------------

    def copies(self) -> Iterator[SnapshotCopy]:
        """All that are complete; blocks."""
        for file in _files(self._snapshots):
            found = self.find(file.stem)
            if found is not None:
                yield found

    def find(self, snapshot_id: str) -> SnapshotCopy | None:
        """The copy of a snapshot; None where there is none that can be read; blocks."""
        try:
            return SnapshotCopy.model_validate_json((self._snapshots / f"{snapshot_id}.json").read_bytes())
        except (OSError, ValidationError):
            return None

    async def bring(self, provider: SandboxProvider, copy: SnapshotCopy, *, snapshot_id: str) -> Snapshot:
        """Make a snapshot of a copy, by an id of its own.

        Raises ``TransferFailed`` where a part is gone or is not what was copied, and what
        :meth:`~swe_sdk.sandbox.contract.SupportsExport.import_snapshot` raises.
        """
        if copy.provider != provider.name:
            raise CapabilityMissing(f"it was made by the provider {copy.provider}, and this is {provider.name}")
        parts = {part.elsewhere: part for part in copy.parts}

        async def fetch(name: str) -> Path:
            file = self._parts / parts[name].file
            if await to_thread.run_sync(_digest, file) != parts[name].sha256:
                raise TransferFailed(f"{file} is not what was copied there")
            return file

        made_of = SnapshotParts(parts=tuple(parts), facts=copy.facts)
        return await as_exporter(provider).import_snapshot(snapshot_id, made_of, fetch)


def as_exporter(provider: SandboxProvider) -> SupportsExport:
    """The provider, which can export; ``CapabilityMissing`` where it cannot."""
    if "export" in provider.capabilities and isinstance(provider, SupportsExport):
        return provider
    raise CapabilityMissing(
        f"snapshots of the provider {provider.name} cannot be copied to shared storage",
        remedy="leave snapshot_share out (checkpoints stay on their nodes), or use the provider local",
    )


def shares(folder: Path) -> Iterable[SnapshotShare]:
    """Those of all series of a run; blocks."""
    return [SnapshotShare(folder, path.name) for path in _files(folder)]


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _settle(draft: Path, name: str) -> Part:
    """Give a whole part its name."""
    with draft.open("rb+") as file:
        os.fsync(file.fileno())
    part = Part(name=name, sha256=_digest(draft), size_bytes=draft.stat().st_size)
    draft.replace(draft.with_name(part.file))
    return part


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise TransferFailed(f"{file} cannot be read: {error}") from error
