"""What is on disk of snapshots and images: a small file each, which names layers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from swe_sdk.files import write_atomic
from swe_sdk.model.ids import safe_name
from swe_sdk.sandbox.contract import Snapshot

IMAGE = "image-"
"""How the ids of images and of their layers begin."""


class ImageFacts(NamedTuple):
    """What a box must know of the container image that it stands on."""

    name: str
    """In full."""
    digest: str
    """Of its manifest."""
    env: dict[str, str]
    shell: str
    """A shell of its own that runs."""


@dataclass(frozen=True)
class SnapshotRecord:
    """A snapshot, or an image, as it is on disk."""

    id: str
    chain: tuple[str, ...]
    created_at: float
    image: ImageFacts | None = None
    """What is at the bottom; None = the host's system."""

    @property
    def public(self) -> Snapshot:
        """What callers get."""
        return Snapshot(id=self.id, provider="local", created_at=self.created_at)


class Records:
    """The records below a state directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, dict[tuple[str, int], SnapshotRecord]] = {}
        """By directory, then name and inode: a record never changes, and there may be hundreds to look through."""

    def path(self, record_id: str) -> Path:
        """Where the record of a snapshot or an image is."""
        directory = "images" if record_id.startswith(IMAGE) else "snapshots"
        return self._root / directory / f"{safe_name(record_id)}.json"

    def read(self, record_id: str) -> SnapshotRecord | None:
        """A record, or None where there is none that can be read."""
        return _read(self.path(record_id))

    def write(self, record: SnapshotRecord) -> None:
        """Put a record into place, of a sudden and for good."""
        image = record.image and record.image._asdict()
        content = {"chain": record.chain, "created_at": record.created_at, "image": image}
        write_atomic(self.path(record.id), json.dumps(content).encode())

    def forget(self, record_id: str) -> None:
        """Remove a record, if it is there."""
        self.path(record_id).unlink(missing_ok=True)

    def snapshots(self) -> list[SnapshotRecord]:
        """Those of snapshots, oldest first."""
        return sorted(self._all("snapshots"), key=lambda record: record.created_at)

    def images(self) -> list[SnapshotRecord]:
        """Those of images, the one that was not used for the longest time first."""
        return sorted(self._all("images"), key=lambda record: _last_use(self.path(record.id)))

    def layers(self) -> set[str]:
        """All layers that any record names."""
        return {layer for record in (*self._all("snapshots"), *self._all("images")) for layer in record.chain}

    def names_all(self, record_id: str | None, layers: Iterable[str]) -> bool:
        """Whether a record is there that names ``layers``; that of a snapshot which a box names always does."""
        if record_id is None or not record_id.startswith(IMAGE):
            return record_id is not None and self.path(record_id).exists()
        record = self.read(record_id)  # a tag may have moved on to another image
        return record is not None and set(layers) <= set(record.chain)

    def files(self) -> Iterator[tuple[Path, SnapshotRecord | None]]:
        """All files where records are, with what they hold; None where that is half a record, or something else."""
        for directory in ("snapshots", "images"):
            for path in (self._root / directory).iterdir():
                yield path, _read(path) if path.suffix == ".json" else None

    def _all(self, directory: str) -> Iterable[SnapshotRecord]:
        with os.scandir(self._root / directory) as entries:
            paths = {(entry.name, entry.inode()): entry.path for entry in entries if entry.name.endswith(".json")}
        before = self._known.get(directory, {})
        found = {key: before.get(key) or _read(Path(path)) for key, path in paths.items()}
        self._known[directory] = known = {key: record for key, record in found.items() if record}
        return known.values()


def _read(path: Path) -> SnapshotRecord | None:
    try:
        content = json.loads(path.read_bytes())
        chain, created_at = tuple(content["chain"]), float(content["created_at"])
        image = ImageFacts(**content["image"]) if content.get("image") else None
        return SnapshotRecord(path.stem, chain, created_at, image)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _last_use(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0  # it was just deleted
