"""Leases: who owns a sandbox, written down before the sandbox exists.

::

    BOOK/lock                       held for a moment while a record changes
    BOOK/<owner>/alive              locked (flock) as long as that process lives; its mtime is the last sign of life
    BOOK/<owner>/claim              locked by the reaper that cleans up after it
    BOOK/<owner>/<lease id>.json    one lease

What a provider does with it::

    lease = book.intend("docker", settings={"base_url": ...}, task="mini__calc-1")
    container = engine.create(name=lease.id, labels=lease.labels())     # a lost reply is adopted by this name
    lease = book.confirm(lease, container.id)
    ...
    with book.closing(lease):
        engine.remove(container.id)                                     # returns when it is gone for sure

A process killed anywhere between leaves a record, a labelled box, or both, and any process can clean up by either.
Records are not synced to the disk: that would cost more than everything else here, and after a crash of the whole
machine the labels are still there. Never put a secret into a lease: it lies on the disk and in labels.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from swe_sdk.errors import NoSpace, PrerequisiteError, SandboxLost, SweError
from swe_sdk.files import write_atomic
from swe_sdk.model.ids import new_id
from swe_sdk.model.record import Record
from swe_sdk.paths import state_dir
from swe_sdk.sandbox import presence
from swe_sdk.sandbox.locks import locked
from swe_sdk.sandbox.owner import Owner, current_owner, is_alive
from swe_sdk.sandbox.presence import RENEW_EVERY_S

LABEL_LEASE = "swe_sdk.lease"
LABEL_OWNER = "swe_sdk.owner"
LeaseState = Literal["intended", "live", "closing", "closing_failed"]
DEFAULT_TTL_S = 600.0
_ERROR_CHARACTERS = 1000
_LEFT_ALONE_S = 86400.0
_log = logging.getLogger(__name__)


class Lease(Record):
    """That a process owns a box, or is about to."""

    id: str
    """Unique. It is also the name or a label of the box, so that a box can be found by its lease and the reverse."""
    provider: str
    settings: dict[str, Any] = Field(default_factory=dict)
    """What another process needs to reach the same engine: ``restore_provider(provider, settings)``."""
    remote: bool = False
    """The engine is the same from every machine, as one reached over a network is. Else only processes on the owner's
    machine may clean up: on another, a box of the same name is another box, or none."""
    owner: Owner
    run: str = ""
    task: str = ""
    created_at: float
    """Unix seconds, as is every time here."""
    renewed_at: float
    """The owner's last sign of life, where it was read from a book."""
    ttl_s: float = Field(default=DEFAULT_TTL_S, ge=3 * RENEW_EVERY_S)
    """For how long after a sign of life the owner counts as alive, where nothing better is known."""
    state: LeaseState = "intended"
    handle: str | None = None
    """The provider's id of the box, as soon as it is known."""
    failures: int = 0
    """How often closing has failed."""
    last_error: str = ""

    def labels(self) -> dict[str, str]:
        """What the box is to be labelled with."""
        return {
            LABEL_LEASE: self.id,
            LABEL_OWNER: self.owner.label,
            "swe_sdk.run": self.run,
            "swe_sdk.task": self.task,
            "swe_sdk.created_at": f"{self.created_at:.3f}",
            "swe_sdk.ttl_s": f"{self.ttl_s:g}",
        }


class LeaseBook:
    """The leases of one directory (default: ``leases`` in the state directory), shared by any number of processes.

    All methods block for about a tenth of a millisecond, on a local disk; they may be called from any thread. The
    directory must be on a file system with locks.
    """

    def __init__(self, directory: str | Path | None = None) -> None:
        self.directory = Path(directory or state_dir() / "leases").absolute()

    # -- the life of a lease ----------------------------------------------------------------------------------------

    def intend(
        self,
        provider: str,
        *,
        settings: Mapping[str, Any] | None = None,
        remote: bool = False,
        run: str = "",
        task: str = "",
        handle: str | None = None,
        ttl_s: float = DEFAULT_TTL_S,
    ) -> Lease:
        """Write a lease of this process, before the box is asked for; ``handle`` where it is known beforehand.

        ``NoSpace`` or ``PrerequisiteError`` where it cannot be written: then make no box.
        """
        now = time.time()
        lease = Lease(
            id=new_id("box"),
            provider=provider,
            settings=plain(settings or {}),
            remote=remote,
            owner=current_owner(),
            run=run,
            task=task,
            created_at=now,
            renewed_at=now,
            ttl_s=ttl_s,
            handle=handle,
        )
        try:
            presence.presence_in(self.directory)
            self._write(lease)
        except OSError as error:
            raise self._unusable(error) from error
        return lease

    def confirm(self, lease: Lease, handle: str) -> Lease:
        """The box is there; the lease as it is now.

        ``SandboxLost`` where a reaper has taken it away meanwhile: remove the box, nobody else will.
        """
        try:
            changed = self._change(lease, state="live", handle=handle)
        except OSError as error:
            raise self._unusable(error) from error
        if changed is None:
            raise SandboxLost(f"the lease {lease.id} was reaped while its box was being made")
        return changed

    @contextmanager
    def closing(self, lease: Lease) -> Iterator[None]:
        """Around the removal of the box, which must return only when it is gone for sure. Then the record goes, too.

        Where the block raises, cancellation included, the record stays, as ``closing_failed`` with the error, for the
        next reaper. May be tried again, and by others; a lease that is not there is no error.
        """
        self._note(lease, state="closing")
        try:
            yield
        except BaseException as error:
            self._note_failure(lease, error)
            raise
        self.keep(lease)

    def keep(self, lease: Lease) -> None:
        """Forget the lease and leave what it is about: a snapshot, say, that outlives its maker once it is complete."""
        with suppress(FileNotFoundError), locked(self._lock):
            self._path(lease).unlink()

    # -- everybody's ------------------------------------------------------------------------------------------------

    def leases(self) -> list[Lease]:
        """Those of all processes, oldest first. What is no lease, or half of one, is skipped with a warning.

        ``PrerequisiteError`` where the directory cannot be read.
        """
        found = [lease for directory in self._owners() for lease in self._leases_in(directory)]
        return sorted(found, key=lambda lease: lease.created_at)

    def mine(self) -> list[Lease]:
        """Those of this process, oldest first."""
        found = self._leases_in(self.directory / current_owner().key)
        return sorted(found, key=lambda lease: lease.created_at)

    def renew_all(self) -> None:
        """Give a sign of life for all leases of this process. A thread does it every ``RENEW_EVERY_S`` seconds."""
        presence.renew(self.directory)

    def is_alive(self, owner: Owner) -> bool | None:
        """Like :func:`swe_sdk.sandbox.owner.is_alive`; where that cannot know, the owner's lock in this book may."""
        known = is_alive(owner)
        if known is not None:
            return known
        is_held = presence.holds_lock(self.directory / owner.key)
        if is_held:
            return True
        is_same_kernel = owner.boot_id == current_owner().boot_id
        return False if is_held is False and is_same_kernel else None

    def has_expired(self, lease: Lease, grace_s: float) -> bool:
        """Whether its owner gave no sign of life for the lease's time and some grace, by the clock of the signs."""
        return presence.time_of(self.directory) > lease.renewed_at + lease.ttl_s + grace_s

    def claimed(self, owner: Owner) -> AbstractContextManager[bool]:
        """Be the only one that cleans up after an owner; False where another process does, or has done it."""
        return presence.claimed(self.directory / owner.key)

    def __contains__(self, lease: Lease) -> bool:
        return self._path(lease).exists()

    def tidy(self) -> None:
        """Remove the directories of dead owners that have no leases any more."""
        for directory in self._owners():
            with suppress(OSError), locked(self._lock):
                if presence.holds_lock(directory) is False and self._is_done_with(directory):
                    presence.remove(directory)

    # -- files ------------------------------------------------------------------------------------------------------

    @property
    def _lock(self) -> Path:
        return self.directory / presence.LOCK

    def _path(self, lease: Lease) -> Path:
        return self.directory / lease.owner.key / f"{lease.id}.json"

    def _owners(self) -> list[Path]:
        try:
            return [path for path in self.directory.iterdir() if path.is_dir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(error) from error

    def _is_done_with(self, directory: Path) -> bool:
        """Whether it has no records.

        For a day it may have some that cannot be read, as a crash of the machine leaves them; and an owner of another
        machine is taken for gone after a day only, as its lock may not be seen here.
        """
        is_this_boots = directory.name.partition("-")[0] == current_owner().key.partition("-")[0]
        is_old = presence.last_sign(directory) < time.time() - _LEFT_ALONE_S
        return not any(map(_read, records := _records_in(directory))) and (is_old or (is_this_boots and not records))

    def _leases_in(self, directory: Path) -> list[Lease]:
        sign = presence.last_sign(directory)
        found = [_read(path) for path in _records_in(directory)]
        return [lease.model_copy(update={"renewed_at": max(lease.renewed_at, sign)}) for lease in found if lease]

    def _write(self, lease: Lease) -> None:
        write_atomic(self._path(lease), lease.model_dump_json().encode(), mode=0o600, sync=False)

    def _change(self, lease: Lease, **changes: Any) -> Lease | None:
        """Change the record where it still is; never bring one back that another process has removed."""
        with suppress(FileNotFoundError), locked(self._lock):
            current = _read(self._path(lease))
            if current is not None:
                changed = current.model_copy(update=changes)
                self._write(changed)
                return changed
        return None

    def _note(self, lease: Lease, **changes: Any) -> None:
        """Change the record if possible: a full disk must not keep a box from being removed."""
        try:
            self._change(lease, **changes)
        except OSError as error:
            _log.warning("the lease %s could not be changed: %s", lease.id, error)

    def _note_failure(self, lease: Lease, error: BaseException) -> None:
        current = _read(self._path(lease)) or lease
        self._note(lease, state="closing_failed", failures=current.failures + 1, last_error=_brief(error))

    def _unusable(self, error: OSError) -> SweError:
        kind = NoSpace if error.errno in (errno.ENOSPC, errno.EDQUOT) else PrerequisiteError
        remedy = "set SWE_SDK_STATE to a directory that you may write, on a local disk with space left"
        return kind(f"the leases in {self.directory} cannot be used: {error}", remedy=remedy)


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they come back from a record; ``TypeError`` where JSON cannot carry them."""
    return json.loads(json.dumps(dict(settings)))  # type: ignore[no-any-return]


def _records_in(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            return [Path(entry.path) for entry in entries if entry.name.endswith(".json")]
    except OSError:
        return []  # its owner has just gone, or is another user


def _read(path: Path) -> Lease | None:
    """One lease; None where there is none, or none any more."""
    try:
        return Lease.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        _log.warning("skipped %s, which is no lease: %s", path, _brief(error))
        return None


def _brief(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text if len(text) <= _ERROR_CHARACTERS else f"{text[:_ERROR_CHARACTERS]}..."
