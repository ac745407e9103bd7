"""Snapshots on their way to another machine: a tar archive a layer, and the name of the image below them.

Archives are made and unpacked by GNU tar: it keeps what a layer of an overlay consists of (whiteouts, extended
attributes, holes, links, owners by number), and it lets no name and no link lead out of the directory.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import anyio
from anyio import to_thread

from swe_sdk.errors import CapabilityMissing, NoSpace, SnapshotNotFound, TransferFailed
from swe_sdk.sandbox.contract import PartSource, SnapshotParts
from swe_sdk.sandbox.locks import file_lock
from swe_sdk.sandbox.providers.local.layers import UPPER
from swe_sdk.sandbox.providers.local.records import ImageFacts, SnapshotRecord
from swe_sdk.sandbox.providers.local.workshops import workshop

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.local.provider import LocalProvider

_KEEPING = ("--numeric-owner", "--xattrs", "--xattrs-include=*")
_PACK = ("tar", "--create", "--format=posix", "--sparse", *_KEEPING)
_FULL = ("No space left", "quota exceeded", "Wrote only")
"""How tar says it, in the language that it is asked to speak."""
_ENV = {"PATH": os.defpath, "LC_ALL": "C"}
_NAMESPACE = ("unshare", "--user", "--map-root-user")
_UNPACK = ("tar", "--extract", "--same-owner", "--same-permissions", "--delay-directory-restore", *_KEEPING)


def parts_of(provider: LocalProvider, snapshot_id: str) -> SnapshotParts:
    """See :meth:`swe_sdk.sandbox.contract.SupportsExport.parts_of`; blocks."""
    record = provider.store.snapshot(snapshot_id)
    below = _image_below(provider, record)
    facts = {
        "first_id": provider.identity.first,
        "created_at": record.created_at,
        "image": None if record.image is None else record.image._asdict(),
    }
    return SnapshotParts(parts=record.chain[: len(record.chain) - len(below)], facts=facts)


def _image_below(provider: LocalProvider, record: SnapshotRecord) -> tuple[str, ...]:
    """The layers at the bottom that are those of an image: another machine pulls them by its name."""
    if record.image is None:
        return ()
    for image in provider.store.records.images():
        is_its = image.image is not None and image.image.digest == record.image.digest
        if is_its and record.chain[-len(image.chain) :] == image.chain:
            return image.chain
    raise CapabilityMissing(f"snapshot {record.id} stands on {record.image.name}, which is another image by now")


async def export_part(provider: LocalProvider, part: str, file: Path) -> None:
    """See :meth:`swe_sdk.sandbox.contract.SupportsExport.export_part`."""
    layer = provider.store.root / "layers" / part / "diff"
    if not layer.is_dir():
        raise SnapshotNotFound(f"the layer {part} is gone")
    with file.open("wb") as archive:
        await _tar([*_PACK, f"--directory={layer}", "--file=-", "."], output=archive)


async def import_snapshot(
    provider: LocalProvider, snapshot_id: str, made_of: SnapshotParts, fetch: PartSource
) -> SnapshotRecord:
    """See :meth:`swe_sdk.sandbox.contract.SupportsExport.import_snapshot`."""
    store, facts = provider.store, made_of.facts
    if facts.get("first_id") != provider.identity.first:
        remedy = "run the SDK as the same kind of user on all nodes"
        raise CapabilityMissing("the files of that snapshot belong to users that boxes do not have here", remedy=remedy)
    image = await _image_of(provider, facts)
    chain = (*made_of.parts, *(image.chain if image is not None else ()))
    async with workshop(provider) as needed:
        await to_thread.run_sync(store.need, needed, chain)
        for part in made_of.parts:
            async with file_lock(store.root / "locks" / part):
                if not store.has_layer(part):
                    await _import_layer(provider, part, await fetch(part))
        return await to_thread.run_sync(store.publish, snapshot_id, chain, image.image if image is not None else None)


async def _image_of(provider: LocalProvider, facts: Mapping[str, object]) -> SnapshotRecord | None:
    """The image that a snapshot stands on, pulled if it is not here."""
    told = facts.get("image")
    if told is None:
        return None
    wanted = ImageFacts(**told)  # type: ignore[arg-type]  # as parts_of has written it
    await provider.ensure_image(wanted.name)
    for record in provider.store.records.images():
        if record.image is not None and record.image.digest == wanted.digest and record.image.name == wanted.name:
            return record
    raise CapabilityMissing(f"that snapshot stands on {wanted.name} as of {wanted.digest}, which is another one here")


async def _import_layer(provider: LocalProvider, part: str, file: Path) -> None:
    async with workshop(provider) as path:
        with file.open("rb") as archive:
            await _tar([*_UNPACK, f"--directory={path / UPPER}", "--file=-"], source=archive)
        await to_thread.run_sync(provider.store.place, path, part)


async def _as_root_of_layers() -> tuple[str, ...]:
    """What a box has closed to all, its own user may not open outside: an ordinary user needs a user namespace.

    Where bubblewrap alone may make one, tar goes without, and fails for such files only.
    """
    if os.geteuid() == 0:
        return ()
    try:
        tried = await anyio.run_process([*_NAMESPACE, "true"], check=False, env=_ENV)
    except OSError:
        return ()
    return () if tried.returncode else _NAMESPACE


async def _tar(
    command: list[str], *, source: BinaryIO | int = subprocess.DEVNULL, output: BinaryIO | int = subprocess.DEVNULL
) -> None:
    """Run tar to its end; it is killed where nobody waits for it any more."""
    try:
        process = await anyio.open_process(
            [*await _as_root_of_layers(), *command], stdin=source, stdout=output, stderr=subprocess.PIPE, env=_ENV
        )
    except OSError as error:
        raise CapabilityMissing(f"snapshots are copied by GNU tar: {error}", remedy="install tar") from error
    async with process:
        assert process.stderr is not None
        said = b"".join([piece async for piece in process.stderr])[-2000:].decode("utf-8", "replace").strip()
        code = await process.wait()
    if code:
        full = any(words in said for words in _FULL)
        raise (NoSpace if full else TransferFailed)(f"a layer could not be copied: tar ended with {code}: {said}")
