"""Layers, snapshots and box directories on disk, and who still needs them.

::

    STATE/skeletons/<key>/                  lowest layers, see ``skeleton``
    STATE/layers/<id>/diff/                 frozen writable layers, immutable
    STATE/snapshots/<id>.json               a chain of layers, top first
    STATE/boxes/<owner>/<id>/{upper,work,chain.json}
    STATE/owners/<owner>.lock               locked as long as the owner process lives
    STATE/trash/                            renamed here first, then deleted
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from swe_sdk.errors import SnapshotNotFound
from swe_sdk.files import write_atomic
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.contract import Snapshot
from swe_sdk.sandbox.providers.local.identity import Identity

_DIRECTORIES = ("skeletons", "layers", "snapshots", "boxes", "owners", "trash", "stage")


@dataclass(frozen=True)
class SnapshotRecord:
    """A snapshot as it is on disk."""

    id: str
    chain: tuple[str, ...]
    created_at: float

    @property
    def public(self) -> Snapshot:
        """What callers get."""
        return Snapshot(id=self.id, provider="local", created_at=self.created_at)


class LayerStore:
    """One state directory, shared by any number of processes. Its methods block briefly; none waits for a box."""

    def __init__(self, root: Path, identity: Identity) -> None:
        self.root = root
        self.identity = identity
        self.owner = new_id("owner")
        for directory in (root, *(root / name for name in _DIRECTORIES)):
            directory.mkdir(parents=True, exist_ok=True)
            # The box's user must be able to pass through, not to list. Above STATE its own permissions do not matter.
            directory.chmod(0o711)
        self._boxes = root / "boxes" / self.owner
        with self.lock():  # a sweep must not find the lock file before it is locked
            self._owner_lock = os.open(self._lock_path(self.owner), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._owner_lock, fcntl.LOCK_EX)
            self._boxes.mkdir()
            self._boxes.chmod(0o711)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """The lock under which chains are published and garbage is collected; never held across an await."""
        fd = os.open(self.root / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    # -- boxes ------------------------------------------------------------------------------------------------------

    def new_box(self, box_id: str, chain: tuple[str, ...]) -> Path:
        """A box directory on top of ``chain``, whose layers are kept as long as it is there."""
        path = self._boxes / box_id
        path.mkdir()
        path.chmod(0o711)
        with self.lock():
            missing = [layer for layer in chain if not (self.root / "layers" / layer).is_dir()]
            if missing:
                path.rmdir()
                raise SnapshotNotFound(f"layers {', '.join(missing)} are gone", remedy="build the environment again")
            self.set_chain(path, chain)
        self.fresh_upper(path)
        return path

    def set_chain(self, box: Path, chain: tuple[str, ...]) -> None:
        """Record what a box stands on."""
        (box / "chain.json").write_text(json.dumps(chain))

    def fresh_upper(self, box: Path) -> None:
        """An empty writable layer and work directory: a volatile overlay refuses a work directory that was used."""
        for name in ("upper", "work"):
            path = box / name
            if path.exists():
                remove_tree(path)
            path.mkdir()
            path.chmod(0o755)
            self.identity.own(path)

    def discard(self, path: Path) -> None:
        """Delete a directory of ours, whatever a program left in it."""
        trash = self.root / "trash" / new_id("t")
        path.rename(trash)
        remove_tree(trash)

    # -- snapshots --------------------------------------------------------------------------------------------------

    def seal(self, box: Path, chain: tuple[str, ...]) -> SnapshotRecord:
        """Freeze the writable layer of a stopped box by renaming it: the same time for any size."""
        layer = new_id("layer")
        with self.lock():
            directory = self.root / "layers" / layer
            directory.mkdir()
            directory.chmod(0o711)
            (box / "upper").rename(directory / "diff")
            record = SnapshotRecord(new_id("snap"), (layer, *chain), time.time())
            self.set_chain(box, record.chain)
            content = {"chain": record.chain, "created_at": record.created_at}
            write_atomic(self._snapshot_path(record.id), json.dumps(content).encode())
        return record

    def snapshot(self, snapshot_id: str) -> SnapshotRecord:
        """A snapshot by id; ``SnapshotNotFound`` if there is none."""
        try:
            content = json.loads(self._snapshot_path(snapshot_id).read_bytes())
        except (OSError, ValueError):
            raise SnapshotNotFound(f"no snapshot {snapshot_id!r} in {self.root}") from None
        return SnapshotRecord(snapshot_id, tuple(content["chain"]), content["created_at"])

    def snapshots(self) -> list[SnapshotRecord]:
        """All of them, oldest first."""
        found = [self.snapshot(path.stem) for path in (self.root / "snapshots").glob("*.json")]
        return sorted(found, key=lambda record: record.created_at)

    def delete_snapshot(self, snapshot_id: str) -> None:
        """Forget a snapshot, and delete the layers that nothing needs any more."""
        with self.lock():
            self._snapshot_path(snapshot_id).unlink(missing_ok=True)
            garbage = self._unused_layers()
        for path in garbage:
            remove_tree(path)

    def _snapshot_path(self, snapshot_id: str) -> Path:
        if "/" in snapshot_id or snapshot_id.startswith("."):
            raise SnapshotNotFound(f"no snapshot {snapshot_id!r}")
        return self.root / "snapshots" / f"{snapshot_id}.json"

    def _unused_layers(self) -> list[Path]:
        """Layers that no snapshot and no box names, moved to the trash. Call it under the lock."""
        needed: set[str] = set()
        for record in self.snapshots():
            needed.update(record.chain)
        for chain in (self.root / "boxes").glob("*/*/chain.json"):
            try:
                needed.update(json.loads(chain.read_bytes()))
            except (OSError, ValueError):
                continue  # its box is just being removed
        unused = [layer for layer in (self.root / "layers").iterdir() if layer.name not in needed]
        return [layer.rename(self.root / "trash" / new_id("t")) for layer in unused]

    # -- other owners -----------------------------------------------------------------------------------------------

    def sweep(self) -> list[str]:
        """Remove the boxes of processes that are gone; returns those owners. Live ones hold their lock."""
        owners = {path.stem for path in (self.root / "owners").glob("*.lock")}
        owners |= {path.name for path in (self.root / "boxes").iterdir()}
        swept = [owner for owner in sorted(owners - {self.owner}) if self._bury_if_dead(owner)]
        for trash in (self.root / "trash").iterdir():
            remove_tree(trash)
        return swept

    def _bury_if_dead(self, owner: str) -> bool:
        """Move a dead owner's boxes to the trash."""
        with self.lock():
            fd = os.open(self._lock_path(owner), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            else:
                boxes = self.root / "boxes" / owner
                if boxes.exists():
                    boxes.rename(self.root / "trash" / new_id("t"))
                self._lock_path(owner).unlink()
                return True
            finally:
                os.close(fd)

    def _lock_path(self, owner: str) -> Path:
        return self.root / "owners" / f"{owner}.lock"

    def close(self) -> None:
        """Give up ownership; boxes must be closed before."""
        if self._owner_lock >= 0:
            remove_tree(self._boxes)
            self._lock_path(self.owner).unlink(missing_ok=True)
            os.close(self._owner_lock)
            self._owner_lock = -1

    def forget(self) -> None:
        """In a forked child: the owner is the parent, not this process."""
        os.close(self._owner_lock)
        self._owner_lock = -1


def remove_tree(path: Path) -> None:
    """Delete a tree that a program wrote: closed directories, any depth, names in any encoding."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        if not path.exists():
            return
        _remove_tree_by_force(path)
    except (OSError, RecursionError):
        _remove_tree_by_force(path)


def _remove_tree_by_force(path: Path) -> None:
    # overlayfs leaves a work directory of mode 000, and programs may close their own; coreutils takes any depth
    subprocess.run(["chmod", "-R", "u+rwX", "--", path], check=False, capture_output=True)
    subprocess.run(["rm", "-rf", "--", path], check=False, capture_output=True)
    if path.exists():
        raise OSError(f"could not delete {path}")
