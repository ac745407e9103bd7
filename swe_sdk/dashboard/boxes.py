"""The sandboxes of this machine: leases, what engines have, and what a reaper would do. Looks only."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import anyio
from pydantic import Field

from swe_sdk.dashboard.asked import Asked
from swe_sdk.dashboard.usage import Usage, usage_of
from swe_sdk.model.record import Record
from swe_sdk.sandbox.judgement import judge
from swe_sdk.sandbox.leases import Lease, LeaseBook
from swe_sdk.sandbox.owner import Owner
from swe_sdk.sandbox.reaper import reap
from swe_sdk.sandbox.reaping import Action, OwnedBox, ReapItem, ReapReport, SupportsReaping
from swe_sdk.sandbox.registry import named_provider, provider_names

_LOOK_EVERY_S = 4.0
_LIST_CAP_S = 20.0
_MAKING_S = 600.0
Fate = Literal["live", "kept", "due"]
_FATES: Mapping[Action, Fate] = {"would_remove": "due", "removed": "due", "failed": "due", "kept": "kept"}


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
    """What a reaper would do: leave it to its live owner, keep it for now, or remove it."""
    reason: str = ""
    stuck: str = ""
    """What is wrong with it, in words; empty = nothing is."""
    usage: Usage = Usage()


class Boxes(Record):
    """All that was found."""

    rows: tuple[BoxRow, ...] = ()
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
    providers = [named_provider(name) for name in provider_names()]
    able = [each for each in providers if isinstance(each, SupportsReaping)]
    try:
        report = await reap(book, able, dry_run=True)
        owned = {each.name: await _owned(each, report) for each in able}
    finally:
        for provider in providers:
            await provider.aclose()
    return collect(book, owned, report, now=time.time())


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
        would_remove=len(report.of("would_remove")),
        unreachable=dict(report.unreachable),
        at=now,
        leases=str(book.directory),
    )


def _order(row: BoxRow) -> tuple[object, ...]:
    return (not row.stuck, row.fate != "due", row.fate != "kept", row.created_at or 0.0, row.provider, row.handle)


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
    reason = {"live": "its owner lives", "due": "its owner is dead", "kept": "nobody knows whose it is"}[fate]
    return BoxRow(
        provider=provider,
        handle=box.handle,
        lease=box.lease or "",
        state=box.description or "box",
        owner=box.owner,
        lives=lives,
        fate=fate,
        reason=reason,
        stuck="its owner is dead" if fate == "due" else "",
    )


def owners(rows: Sequence[BoxRow]) -> list[tuple[str, int, bool | None]]:
    """Processes with boxes: (who, how many, whether it lives); the one with most first."""
    found: dict[str, tuple[int, bool | None]] = {}
    for row in rows:
        name = owner_name(row)
        found[name] = (found.get(name, (0, row.lives))[0] + 1, row.lives)
    return sorted(((name, number, lives) for name, (number, lives) in found.items()), key=lambda one: (-one[1], one[0]))


def owner_name(row: BoxRow) -> str:
    """Who owns a box, in few words."""
    if row.owner is not None:
        return f"process {row.owner.pid} on {row.owner.host.partition('/')[0]}"
    return row.handle.partition("/")[0] if "/" in row.handle else "unknown"
