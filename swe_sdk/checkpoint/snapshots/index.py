"""Which snapshots were made for which checkpoints: a journal that is written before a snapshot exists.

::

    <state_dir>/snapshots.jsonl      {"event": "intended" | "taken" | "referenced" | "deleted", ...}, one a line

Several processes may share one (the workers of a server). Plain functions that block: call them in a thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swe_sdk.files import write_atomic
from swe_sdk.sandbox.locks import locked
from swe_sdk.store.atomic import append_line

_COMPACT_LINES = 2000


@dataclass
class Entry:
    """A snapshot, perhaps one that was never finished."""

    snapshot_id: str
    name: str
    """``<checkpoint id>.<session id>``: for which it was made first."""
    provider: str
    checkpoints: set[str] = field(default_factory=set)
    """All that need it."""
    is_taken: bool = False


class SnapshotIndex:
    """The index of one state directory."""

    def __init__(self, state_dir: Path) -> None:
        if not state_dir.is_absolute():
            raise ValueError(f"state_dir must be absolute: {state_dir}")
        state_dir.mkdir(parents=True, exist_ok=True)
        self.path = state_dir / "snapshots.jsonl"
        self._entries: dict[str, Entry] = {}
        self._read_from: tuple[int, int] = (0, 0)  # inode, and how far it was read
        self._lines = 0

    def entries(self) -> dict[str, Entry]:
        """All entries, by snapshot id."""
        with self._locked():
            return dict(self._entries)

    def intend(self, checkpoint_id: str, provider: str, sessions: dict[str, str]) -> None:
        """About to make these snapshots (id by session) for a checkpoint. On disk when this returns."""
        names = {snapshot: f"{checkpoint_id}.{session}" for session, snapshot in sessions.items()}
        self._append({"event": "intended", "checkpoint": checkpoint_id, "provider": provider, "names": names})

    def taken(self, ids: Iterable[str]) -> None:
        """They exist."""
        self._append({"event": "taken", "ids": list(ids)})

    def refer(self, checkpoint_id: str, provider: str, sessions: dict[str, str]) -> None:
        """A checkpoint needs these snapshots, which others have made; unknown ones are taken in."""
        names = {snapshot: f"{checkpoint_id}.{session}" for session, snapshot in sessions.items()}
        self._append({"event": "referenced", "checkpoint": checkpoint_id, "provider": provider, "names": names})

    def forget(self, ids: Iterable[str]) -> int:
        """They were deleted; returns how many of them no other process had forgotten before."""
        with self._locked():
            known = [one for one in ids if one in self._entries]
            self._write({"event": "deleted", "ids": known})
        if self._lines > _COMPACT_LINES:
            self._compact()
        return len(known)

    def unneeded(self, kept: frozenset[str], provider: str) -> list[str]:
        """Snapshots of a provider that none of the kept checkpoints needs."""
        with self._locked():
            return unneeded(self._entries.values(), kept, provider)

    # -- the journal ------------------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Within, nobody else writes, and all is known that others have written."""
        with locked(self.path.with_suffix(".lock")):
            self._catch_up()
            yield

    def _append(self, event: dict[str, Any]) -> None:
        with self._locked():
            self._write(event)

    def _write(self, event: dict[str, Any]) -> None:
        """An event about anything. Under the lock."""
        if event.get("names") or event.get("ids"):
            append_line(self.path, json.dumps(event).encode())
            self._catch_up()

    def _catch_up(self) -> None:
        """Read what others have appended. A line that a crash cut off names a snapshot that was not begun."""
        if not self.path.exists():
            return
        inode = self.path.stat().st_ino
        if inode != self._read_from[0]:
            self._entries, self._read_from, self._lines = {}, (inode, 0), 0
        with self.path.open("rb") as file:
            file.seek(self._read_from[1])
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read_from = (inode, self._read_from[1] + len(whole))
        for line in whole.splitlines():
            self._lines += 1
            with suppress(ValueError, KeyError, TypeError, AttributeError):  # half a line, or somebody else's
                _apply(self._entries, json.loads(line))

    def _compact(self) -> None:
        with self._locked():
            events = [event for entry in self._entries.values() for event in _events(entry)]
            write_atomic(self.path, b"".join(json.dumps(event).encode() + b"\n" for event in events))
            self._catch_up()


def unneeded(entries: Iterable[Entry], kept: frozenset[str], provider: str) -> list[str]:
    """Ids of the entries that none of the kept checkpoints needs. Pure."""
    return [one.snapshot_id for one in entries if one.provider == provider and not one.checkpoints & kept]


def _apply(entries: dict[str, Entry], event: dict[str, Any]) -> None:
    for snapshot_id, name in event.get("names", {}).items():
        entry = entries.setdefault(snapshot_id, Entry(snapshot_id, name, event["provider"]))
        entry.checkpoints.add(event["checkpoint"])
        entry.is_taken = entry.is_taken or event["event"] == "referenced"
    for snapshot_id in event.get("ids", ()):
        if event["event"] == "deleted":
            entries.pop(snapshot_id, None)
        elif snapshot_id in entries:
            entries[snapshot_id].is_taken = True


def _events(entry: Entry) -> Sequence[dict[str, Any]]:
    kind = "referenced" if entry.is_taken else "intended"
    shared = {"event": kind, "provider": entry.provider, "names": {entry.snapshot_id: entry.name}}
    return [{**shared, "checkpoint": checkpoint} for checkpoint in sorted(entry.checkpoints)]
