"""The sandboxes of this machine: leases, what engines have, and what a reaper would do. Looks only."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import anyio
from pydantic import Field

from swe_sdk.dashboard.asked import Asked
from swe_sdk.dashboard.usage import Usage, pid_of, shared_usage, usage_of
from swe_sdk.model.record import Record
from swe_sdk.paths import state_dir
from swe_sdk.sandbox.judgement import judge
from swe_sdk.sandbox.leases import Lease, LeaseBook
from swe_sdk.sandbox.owner import Owner
from swe_sdk.sandbox.reaper import reap
from swe_sdk.sandbox.reaping import Action, OwnedBox, ReapItem, ReapReport, SupportsReaping
from swe_sdk.sandbox.registry import named_provider, provider_names

_LOOK_EVERY_S = 4.0
_LIST_CAP_S = 20.0
_MAKING_S = 600.0
_ENGINES_HERE = ("local", "docker", "apptainer")
Fate = Literal["live", "kept", "due", "blocked"]
_FATES: Mapping[Action, Fate] = {"would_remove": "due", "removed": "due", "failed": "blocked", "kept": "kept"}


class BoxRow(Record):
    """One box, or the lease of one that is not there yet, or not any more."""

    provider: str
    handle: str = ""
    lease: str = ""
    state: str = ""
    """Of its lease; of a box that has none, what its provider calls it."""
    owner: Owner | None = None
    lives: bool | None = None
    """Whether its owner does; None where that cannot be known from here."""
    created_at: float | None = None
    renewed_at: float | None = None
    run: str = ""
    task: str = ""
    fate: Fate
    """What a reaper would do: leave it to its live owner, keep it for now, remove it, or fail to."""
    reason: str = ""
    stuck: str = ""
    """What is wrong with it, in words; empty = nothing is."""
    usage: Usage = Usage()


class OwnerRow(Record):
    """A program that has boxes, or had."""

    name: str
    pid: int | None = None
    boxes: int
    lives: bool | None = None
    memory_bytes: int | None = None
    """Of all its boxes that are counted, alone or together."""
    processes: int | None = None
    cpu_s: float | None = None
    """Both of its boxes that are counted together."""


class Boxes(Record):
    """All that was found."""

    rows: tuple[BoxRow, ...] = ()
    owners: tuple[OwnerRow, ...] = ()
    would_remove: int = 0
    """What ``swe-sdk reap`` would remove, as its dry run says."""
    unreachable: dict[str, str] = Field(default_factory=dict)
    """Providers that could not be asked, and why."""
    at: float
    leases: str
    """Where the leases are."""


def look(_key: object = None) -> Boxes:
    """Look at everything now. Raises ``PrerequisiteError`` where the leases cannot be read."""
    return anyio.run(_look)


boxes = Asked(look, _LOOK_EVERY_S)
"""The same, at most once in some seconds."""


async def _look() -> Boxes:
    book = LeaseBook()
    providers = [named_provider(name) for name in _names(book)]
    able = [each for each in providers if isinstance(each, SupportsReaping)]
    try:
        report = await reap(book, able, dry_run=True)
        owned = {each.name: await _owned(each, report) for each in able}
    finally:
        for provider in providers:
            await provider.aclose()
    return collect(book, owned, report, now=time.time())


def _names(book: LeaseBook) -> list[str]:
    """Engines of this machine, and those of others that a lease here names: nobody else's system is asked unasked."""
    return sorted({*_ENGINES_HERE, *(lease.provider for lease in book.leases())} & {*provider_names()})


async def _owned(engine: SupportsReaping, report: ReapReport) -> list[OwnedBox]:
    if engine.name in report.unreachable:
        return []
    try:
        with anyio.fail_after(_LIST_CAP_S):
            return await engine.owned()
    except Exception:  # noqa: BLE001 - it answered a moment ago; whatever it is now, the leases are still shown
        return []


def collect(
    book: LeaseBook, owned: dict[str, list[OwnedBox]], report: ReapReport, *, now: float, groups: Path | None = None
) -> Boxes:
    """Put together what is known: each lease once, each box without one once."""
    leases = book.leases()
    known = {lease.id for lease in leases}
    said = {item.lease: item for item in report.items if item.lease is not None}
    rows = [_of_lease(book, lease, said.get(lease.id), now) for lease in leases]
    rows += [
        _of_box(book, provider, box) for provider, found in owned.items() for box in found if box.lease not in known
    ]
    handles = [row.handle for row in rows if row.handle]
    used = usage_of(handles) if groups is None else usage_of(handles, groups)
    rows = [row.model_copy(update={"usage": used[row.handle]}) if row.handle in used else row for row in rows]
    return Boxes(
        rows=tuple(sorted(rows, key=_order)),
        owners=tuple(owners(rows, groups)),
        would_remove=len(report.of("would_remove")),
        unreachable=dict(report.unreachable),
        at=now,
        leases=str(book.directory),
    )


def _order(row: BoxRow) -> tuple[object, ...]:
    return (not row.stuck, row.fate != "due", row.fate == "live", row.created_at or 0.0, row.provider, row.handle)


def _of_lease(book: LeaseBook, lease: Lease, item: ReapItem | None, now: float) -> BoxRow:
    fate, reason = judge(book, lease) if item is None else (_FATES[item.action], item.reason)
    return BoxRow(
        provider=lease.provider,
        handle=lease.handle or "",
        lease=lease.id,
        state=lease.state,
        owner=lease.owner,
        lives=book.is_alive(lease.owner),
        created_at=lease.created_at,
        renewed_at=lease.renewed_at,
        run=lease.run,
        task=lease.task,
        fate=fate,
        reason=reason,
        stuck=_stuck(lease, book.is_alive(lease.owner), now),
    )


def _stuck(lease: Lease, lives: bool | None, now: float) -> str:
    if lease.state == "closing_failed":
        return f"it could not be closed, {lease.failures} times: {lease.last_error}"
    if lives is False:
        return "its owner is dead"
    if lease.state == "intended" and now - lease.created_at > _MAKING_S:
        return "it was asked for long ago, and is not there yet"
    if now - lease.renewed_at > lease.ttl_s:
        return "its owner has given no sign of life for longer than its lease"
    return ""


def _of_box(book: LeaseBook, provider: str, box: OwnedBox) -> BoxRow:
    """A local box (its owner holds a lock instead of a lease), or one whose lease was lost."""
    lives = book.is_alive(box.owner) if box.owner is not None else None
    if box.is_orphan is not None:
        lives = not box.is_orphan
    fate: Fate = "live" if lives else "due" if lives is False else "kept"
    reasons = {"live": "its owner lives", "due": "its owner is dead"}
    return BoxRow(
        provider=provider,
        handle=box.handle,
        lease=box.lease or "",
        state=box.description if box.is_orphan is None else "left over" if box.is_orphan else "open",
        created_at=_made_at(provider, box.handle),
        owner=box.owner,
        lives=lives,
        fate=fate,
        reason=reasons.get(fate, "nobody knows whose it is"),
        stuck="its owner is dead" if fate == "due" else "",
    )


def owners(rows: Sequence[BoxRow], groups: Path | None = None) -> list[OwnerRow]:
    """Whoever has boxes; the one with most first."""
    of: dict[str, list[BoxRow]] = {}
    for row in rows:
        of.setdefault(owner_name(row), []).append(row)
    found = [_owner(name, own, groups) for name, own in of.items()]
    return sorted(found, key=lambda one: (-one.boxes, one.name))


def _owner(name: str, rows: Sequence[BoxRow], groups: Path | None) -> OwnerRow:
    where = {} if groups is None else {"root": groups}
    shared = shared_usage(name, **where) or Usage()
    memory = [row.usage.memory_bytes for row in rows if row.usage.memory_bytes is not None]
    if shared.memory_bytes is not None:
        memory.append(shared.memory_bytes)
    pid = rows[0].owner.pid if rows[0].owner is not None else pid_of(name, **where)
    return OwnerRow(
        name=name,
        pid=pid,
        boxes=len(rows),
        lives=rows[0].lives,
        memory_bytes=sum(memory) if memory else None,
        processes=shared.processes,
        cpu_s=shared.cpu_s,
    )


def owner_name(row: BoxRow) -> str:
    """Who owns a box, in few words."""
    if row.owner is not None:
        return f"process {row.owner.pid}"
    return row.handle.partition("/")[0] if "/" in row.handle else "unknown"


def _made_at(provider: str, handle: str) -> float | None:
    """When a local box was made: its directory is never written to afterwards, only below."""
    if not provider.startswith("local") or "/" not in handle:
        return None
    try:
        return (state_dir() / "boxes" / handle).stat().st_mtime
    except (OSError, ValueError):
        return None
