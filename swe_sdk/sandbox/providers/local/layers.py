"""Layers, snapshots and box directories on disk, and who still needs them.

::

    STATE/skeletons/<key>/                  lowest layers, see ``skeleton``
    STATE/layers/<id>/diff/                 frozen writable layers, immutable
    STATE/snapshots/<id>.json               a chain of layers, top first
    STATE/images/<id>.json                  the same for a container image; its time says when it was last used
    STATE/boxes/<owner>/<id>/chain.json     the layers that a box needs, if any
    STATE/boxes/<owner>/<id>/top/diff/      its writable layer, in the shape of a frozen one
    STATE/boxes/<owner>/<id>/work/          overlayfs's own
    STATE/owners/<owner>.lock               locked as long as the owner process lives
    STATE/trash/                            renamed here first, then deleted

A layer is kept while a snapshot, an image or a box names it (mark and sweep under the lock). It is named before it is
renamed into place, and always complete when it is; what is half made lies in the directory of a box. So a process that
is killed between any two steps leaves nothing but a box directory and layers that nobody names, which the next process
sweeps.

A crash of the whole machine is another matter. Boxes are gone then, and of a snapshot made within the last half minute
or so the files may be empty or missing: the record of a snapshot is synced, a layer is not, as that would take as long
as copying it. Records whose layers are gone are dropped by the next sweep.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape, glob
from pathlib import Path

from swe_sdk.errors import SnapshotNotFound
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.providers.local.identity import Identity
from swe_sdk.sandbox.providers.local.records import ImageFacts, Records, SnapshotRecord

UPPER = "top/diff"
"""The writable layer, below a box's directory."""
WORK = "work"
_DIRECTORIES = ("skeletons", "layers", "snapshots", "images", "locks", "boxes", "owners", "trash", "stage")


class LayerStore:
    """One state directory, shared by any number of processes. Its methods block briefly; none waits for a box."""

    def __init__(self, root: Path, identity: Identity) -> None:
        self.root = root
        self.skeletons = root / "skeletons"
        self.identity = identity
        self.owner = new_id("owner")
        for directory in (root, *(root / name for name in _DIRECTORIES)):
            # The box's user must be able to pass through, not to list. Above STATE its own permissions do not matter.
            _make_directory(directory)
        identity.close_to_others(root)  # a setuid program in a layer would make anybody its owner
        self._boxes = root / "boxes" / self.owner
        self.records = Records(root)
        with self.lock():  # a sweep must not find the lock file before it is locked
            self._owner_lock = os.open(self._lock_path(self.owner), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._owner_lock, fcntl.LOCK_EX)
            _make_directory(self._boxes)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """The lock under which chains are published and garbage is collected; never held across an await."""
        fd = os.open(self.root / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)  # a process forked meanwhile holds a copy, which closing would not unlock
            os.close(fd)

    # -- boxes ------------------------------------------------------------------------------------------------------

    @property
    def scratch(self) -> Path:
        """Where boxes and other half-made things are: it goes with this process, however that ends."""
        return self._boxes

    def name_of(self, box_id: str) -> str:
        """The path of a box's directory below the state directory."""
        return f"boxes/{self.owner}/{box_id}"

    def new_box(self, box_id: str, chain: tuple[str, ...]) -> Path:
        """A directory with an empty writable layer for ``chain``, whose layers are kept as long as it is there."""
        path = self.root / self.name_of(box_id)
        try:
            _new_directory(path)
            if chain:
                with self.lock():
                    self._require(chain)
                    _write_chain(path, chain)
            self._add_work(path)
            self._add_upper(path, chain)
        except BaseException:
            self.discard(path)
            raise
        return path

    def need(self, box: Path, layers: Iterable[str]) -> None:
        """Record all layers that a box needs from now on."""
        with self.lock():
            _write_chain(box, layers)

    def renew(self, box: Path, chain: tuple[str, ...]) -> None:
        """Make it ready to be mounted on ``chain``.

        It gets a work directory that was never used, as a volatile overlay refuses any other, and a writable layer if
        it has none.
        """
        if (box / WORK).exists():
            remove_tree(box / WORK)
        self._add_work(box)
        if not (box / UPPER).exists():
            self._add_upper(box, chain)

    def _add_work(self, box: Path) -> None:
        work = f"{box}/{WORK}"
        _new_directory(work, 0o755)
        self.identity.own(work)

    def _add_upper(self, box: Path, chain: tuple[str, ...]) -> None:
        upper = f"{box}/{UPPER}"
        _new_directory(os.path.dirname(upper))
        _new_directory(upper, 0o755)
        self.identity.own(upper)
        if chain:
            _copy_root(self.root / "layers" / chain[0] / "diff", Path(upper))

    def discard(self, path: Path, layers: Iterable[str] = (), named_by: str | None = None) -> None:
        """Delete a directory made by :meth:`new_box`, whatever a program left in it.

        Garbage is collected if it needed ``layers``, unless the record ``named_by`` still names all of them.
        """
        trash = self._to_trash(path) if path.exists() else path
        if layers and not self.records.names_all(named_by, layers):
            self.collect()
        remove_tree(trash)

    def discard_at_once(self, path: Path, layers: Iterable[str] = (), named_by: str | None = None) -> bool:
        """The same where that is a matter of microseconds, as nothing was written; False where it is not."""
        if layers and not self.records.names_all(named_by, layers):
            return False
        try:
            _remove_overlay_work(f"{path}/{WORK}")
            os.rmdir(f"{path}/{UPPER}")
            os.rmdir(os.path.dirname(f"{path}/{UPPER}"))
            if layers:
                os.unlink(f"{path}/chain.json")
            os.rmdir(path)
        except OSError:
            return False
        return True

    # -- snapshots --------------------------------------------------------------------------------------------------

    def seal(self, box: Path, chain: tuple[str, ...]) -> tuple[str, ...]:
        """Freeze a box's writable layer, to which nothing writes any more, on top of ``chain``; the new chain.

        It is renamed, so that takes the same time for any size. The box needs the new chain from then on.
        """
        layer = new_id("layer")
        with self.lock():
            _write_chain(box, (layer, *chain))
            (box / UPPER).parent.rename(self.root / "layers" / layer)
        return (layer, *chain)

    def place(self, box: Path, layer: str) -> None:
        """Put the writable layer of a box into the store under a name that says what it holds, if it is not there.

        Some box must need the name already.
        """
        with self.lock():
            if not (self.root / "layers" / layer).exists():
                (box / UPPER).parent.rename(self.root / "layers" / layer)

    def has_layer(self, layer: str) -> bool:
        """Whether a layer is there."""
        return not self._missing((layer,))

    def publish(self, record_id: str, chain: tuple[str, ...], image: ImageFacts | None = None) -> SnapshotRecord:
        """Make a snapshot of a chain that a box needs; ``SnapshotNotFound`` if that box was discarded meanwhile."""
        record = SnapshotRecord(record_id, chain, time.time(), image)
        with self.lock():
            self._require(chain)
            self.records.write(record)
        return record

    def snapshot(self, snapshot_id: str) -> SnapshotRecord:
        """A snapshot by id; ``SnapshotNotFound`` if there is none."""
        record = self.records.read(snapshot_id)
        if record is None:
            raise SnapshotNotFound(f"no snapshot {snapshot_id!r} in {self.root}")
        return record

    def snapshots(self) -> list[SnapshotRecord]:
        """All of them, oldest first."""
        return self.records.snapshots()

    def delete_snapshot(self, snapshot_id: str) -> None:
        """Forget a snapshot or an image, and delete the layers that nothing needs any more."""
        self.records.forget(snapshot_id)
        self.collect()

    # -- images -----------------------------------------------------------------------------------------------------

    def use_image(self, image_id: str) -> SnapshotRecord | None:
        """An image whose layers are all there, from now on the one that was used last; None where there is none."""
        record = self.records.read(image_id)
        if record is None or self._missing(record.chain):
            return None
        try:
            os.utime(self.records.path(image_id))
        except FileNotFoundError:
            return None  # it was just deleted
        return record

    def collect(self) -> None:
        """Delete the layers that no snapshot and no box needs."""
        with self.lock():
            needed = self._needed()
            layers = self.root / "layers"
            garbage = [self._to_trash(layers / name) for name in os.listdir(layers) if name not in needed]
        for path in garbage:
            remove_tree(path)

    def _needed(self) -> set[str]:
        needed = self.records.layers()
        # not Path.glob, which raises where an owner goes in the middle of it
        for chain in glob(f"{escape(str(self.root))}/boxes/*/*/chain.json"):
            try:
                needed.update(json.loads(Path(chain).read_bytes()))
            except (OSError, ValueError, TypeError):
                continue  # its box is just being removed, or went down with the machine
        return needed

    def _require(self, chain: tuple[str, ...]) -> None:
        missing = self._missing(chain)
        if missing:
            raise SnapshotNotFound(f"layers {', '.join(missing)} are gone", remedy="build the environment again")

    def _missing(self, chain: tuple[str, ...]) -> list[str]:
        return [layer for layer in chain if not (self.root / "layers" / layer).is_dir()]

    def _to_trash(self, path: Path) -> Path:
        return path.rename(self.root / "trash" / new_id("t"))

    # -- other owners -----------------------------------------------------------------------------------------------

    def sweep(self) -> int:
        """Remove what dead processes and crashes have left; returns how many owners had died. Live ones hold a lock."""
        owners = {path.stem for path in (self.root / "owners").glob("*.lock")}
        owners |= {path.name for path in (self.root / "boxes").iterdir()}
        swept = sum(self._bury_if_dead(owner) for owner in owners - {self.owner})
        self._drop_broken_records()
        self.collect()
        for trash in (self.root / "trash").iterdir():
            _try_to_remove(trash)
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
                if (self.root / "boxes" / owner).exists():
                    self._to_trash(self.root / "boxes" / owner)
                self._lock_path(owner).unlink(missing_ok=True)  # it may just have closed by itself
                return True
            finally:
                os.close(fd)

    def _drop_broken_records(self) -> None:
        """Drop half-written records, and those whose layers a crash of the machine has taken."""
        with self.lock():
            for path, record in self.records.files():
                if record is None or self._missing(record.chain):
                    path.unlink(missing_ok=True)

    def _lock_path(self, owner: str) -> Path:
        return self.root / "owners" / f"{owner}.lock"

    def close(self) -> None:
        """Give up ownership; boxes must be closed before."""
        if self._owner_lock >= 0:
            with suppress(FileNotFoundError):  # the state directory was deleted under us
                _try_to_remove(self._to_trash(self._boxes))
            self._lock_path(self.owner).unlink(missing_ok=True)
            os.close(self._owner_lock)
            self._owner_lock = -1

    def forget(self) -> None:
        """In a forked child: the owner is the parent, not this process."""
        os.close(self._owner_lock)
        self._owner_lock = -1


def _write_chain(box: Path, layers: Iterable[str]) -> None:
    draft = box / "chain.new"
    draft.write_text(json.dumps(list(layers)))
    draft.replace(box / "chain.json")  # no reader may find half a list


def _copy_root(below: Path, upper: Path) -> None:
    """The root of an overlay is that of its writable layer alone."""
    info = below.stat()
    if info.st_uid != upper.stat().st_uid:
        os.chown(upper, info.st_uid, info.st_gid)
    upper.chmod(stat.S_IMODE(info.st_mode))
    os.utime(upper, ns=(info.st_atime_ns, info.st_mtime_ns))


def _make_directory(path: Path, mode: int = 0o711) -> None:
    """Make a directory if it is not there, with this mode whatever the caller's umask is."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)


def _new_directory(path: str | Path, mode: int = 0o711) -> None:
    """Make one that is not there; on the way to every box, and so without the detours of :mod:`pathlib`."""
    os.mkdir(path, mode)
    os.chmod(path, mode)


def _try_to_remove(path: Path) -> None:
    """Delete a tree, or leave it to the next sweep: a box that is just dying may still write to it."""
    try:
        remove_tree(path)
    except OSError:
        pass


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


def _remove_overlay_work(work: str) -> None:
    """What overlayfs leaves of itself, in directories that an ordinary user may not even enter."""
    inner = f"{work}/work"
    os.chmod(inner, 0o700)
    if os.path.exists(f"{inner}/incompat"):  # not of an overlay that bubblewrap has mounted
        for directory in (f"{inner}/incompat", f"{inner}/incompat/volatile"):
            os.chmod(directory, 0o700)
        os.unlink(f"{inner}/incompat/volatile/dirty")
        for directory in (f"{inner}/incompat/volatile", f"{inner}/incompat"):
            os.rmdir(directory)
    os.rmdir(inner)
    os.rmdir(work)


def _remove_tree_by_force(path: Path) -> None:
    # overlayfs leaves a work directory of mode 000, and programs may close their own; coreutils takes any depth
    subprocess.run(["chmod", "-R", "u+rwX", "--", path], check=False, capture_output=True)
    subprocess.run(["rm", "-rf", "--", path], check=False, capture_output=True)
    if path.exists():
        raise OSError(f"could not delete {path}")
