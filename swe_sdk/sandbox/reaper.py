"""Removing what dead processes have left, and nothing else.

A box goes when its owner is dead for sure: its process is gone, its pid belongs to another process, or its machine was
booted since. Where that cannot be known from here (another machine, another pid namespace) it goes when its lease has
expired and some grace is over; without a lease it stays. What its owner could not close (``closing_failed``) is tried
again. A box of a live process is never touched, however old.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
from anyio import to_thread

from swe_sdk.errors import CapabilityMissing, InputError, SweError
from swe_sdk.sandbox.judgement import GRACE_S, Judgement, judge, judge_owner
from swe_sdk.sandbox.leases import Lease, LeaseBook, plain
from swe_sdk.sandbox.owner import Owner
from swe_sdk.sandbox.periodic import Periodic
from swe_sdk.sandbox.reaping import Action, OwnedBox, ReapItem, ReapReport, SupportsReaping, labelled
from swe_sdk.sandbox.registry import restore_provider

__all__ = [
    "GRACE_S",
    "OwnedBox",
    "PeriodicReaper",
    "ReapItem",
    "ReapReport",
    "SupportsReaping",
    "labelled",
    "reap",
    "reap_every",
]

_LIST_CAP_S = 60.0
_REMOVE_CAP_S = 120.0
_REMOVALS_AT_ONCE = 8
_SETTLE_S = 30.0
"""For how long an engine may go on making a box after the process that asked for it has died."""
_log = logging.getLogger(__name__)


async def reap(
    book: LeaseBook,
    providers: Sequence[SupportsReaping] = (),
    *,
    only: str | None = None,
    dry_run: bool = False,
    grace_s: float = GRACE_S,
    restore: Callable[[str, Mapping[str, Any]], object] = restore_provider,
) -> ReapReport:
    """Remove what dead owners have left with these providers, and with those that their leases name.

    May run in any number of processes at once. Never raises for what an engine does: that is in the report;
    ``PrerequisiteError`` where the leases cannot be read. ``only``
    leaves alone all leases but those of the providers of that name; ``restore`` makes a provider from the name and the
    settings in a lease.
    """
    reaper = _Reaper(book, only=only, dry_run=dry_run, grace_s=grace_s)
    for engine in (*providers, *reaper.restored(providers, restore)):
        await reaper.clean(engine)
    if not dry_run:
        book.tidy()
    return reaper.report()


async def reap_every(interval_s: float, book: LeaseBook, providers: Sequence[SupportsReaping]) -> None:
    """Reap again and again, until cancelled; what could not be removed is logged."""
    while True:
        await _reap_and_log(book, providers)
        await anyio.sleep(interval_s)


class PeriodicReaper(Periodic):
    """Reaps every ``interval_s`` seconds for one provider, in a thread of its own.

    For providers that are open for long: they serve many event loops and belong to none.
    """

    def __init__(self, book: LeaseBook, provider: SupportsReaping, interval_s: float = 60.0) -> None:
        super().__init__("swe_sdk reaper", interval_s, partial(_reap_and_log, book, [provider], provider.name))


async def _reap_and_log(book: LeaseBook, providers: Sequence[SupportsReaping], only: str | None = None) -> None:
    try:
        for item in (await reap(book, providers, only=only)).of("failed"):
            _log.warning("%s: could not remove %s: %s", item.provider, item.handle or item.lease, item.reason)
    except SweError as error:
        _log.warning("could not reap: %s", error)


class _Reaper:
    def __init__(self, book: LeaseBook, *, only: str | None, dry_run: bool, grace_s: float) -> None:
        self._book = book
        self._only = only
        self._dry_run = dry_run
        self._grace_s = grace_s
        self._limiter = anyio.CapacityLimiter(_REMOVALS_AT_ONCE)
        self._items: list[ReapItem] = []
        self._live = 0
        self._unreachable: dict[str, str] = {}

    def report(self) -> ReapReport:
        items = sorted(self._items, key=lambda item: (item.provider, item.handle or "", item.lease or ""))
        return ReapReport(dry_run=self._dry_run, items=tuple(items), live=self._live, unreachable=self._unreachable)

    # -- engines ----------------------------------------------------------------------------------------------------

    def restored(
        self, providers: Sequence[SupportsReaping], restore: Callable[[str, Mapping[str, Any]], object]
    ) -> list[SupportsReaping]:
        """A provider for each engine that leases name and that is not among these."""
        made: list[SupportsReaping] = []
        for lease in self._book.leases():
            if self._only not in (None, lease.provider) or any(_is_of(lease, e) for e in (*providers, *made)):
                continue
            try:
                made.append(_restore(restore, lease))
            except Exception as error:  # noqa: BLE001 - a record of another version may say anything
                self._cannot(lease, f"its provider cannot be had: {error}")
        return made

    async def clean(self, engine: SupportsReaping) -> None:
        """Remove what dead owners have left with one engine."""
        before = await to_thread.run_sync(self._book.leases)
        try:
            with anyio.fail_after(_LIST_CAP_S):
                boxes = await engine.owned()
        except Exception as error:  # noqa: BLE001 - one engine must not keep the others from being cleaned
            why = self._unreachable[engine.name] = _text(error)
            for lease in before:
                if _is_of(lease, engine):
                    self._cannot(lease, f"{engine.name} cannot be asked: {why}")
        else:
            await self._clean_all(engine, boxes, before, await to_thread.run_sync(self._book.leases))

    async def _clean_all(
        self, engine: SupportsReaping, boxes: list[OwnedBox], before: list[Lease], leases: list[Lease]
    ) -> None:
        # a box has a lease before it is there and until it is gone, so one of the lists names it
        with_lease = {lease.id for lease in (*before, *leases)}
        by_owner: dict[Owner, list[Lease]] = {}
        for lease in leases:
            if _is_of(lease, engine):
                by_owner.setdefault(lease.owner, []).append(lease)
        async with anyio.create_task_group() as tasks:
            for owned in by_owner.values():
                tasks.start_soon(self._clean_owner, engine, owned, boxes)
            for box in boxes:
                if box.lease not in with_lease:
                    tasks.start_soon(self._clean_box, engine, box)

    # -- boxes ------------------------------------------------------------------------------------------------------

    async def _clean_owner(self, engine: SupportsReaping, leases: list[Lease], boxes: list[OwnedBox]) -> None:
        due = [(lease, reason) for lease in leases if (reason := self._why_due(lease, boxes))]
        if self._dry_run:
            for lease, reason in due:
                self._note(lease.provider, lease.id, lease.handle, "would_remove", reason)
        elif due:
            with self._book.claimed(leases[0].owner) as is_ours:
                if is_ours:  # else another reaper is at work there, and reports on it
                    async with anyio.create_task_group() as tasks:
                        for lease, reason in due:
                            tasks.start_soon(self._clean_lease, engine, lease, reason, _handles(lease, boxes))

    def _why_due(self, lease: Lease, boxes: list[OwnedBox]) -> str:
        """Why it is to be removed; empty where it is not."""
        fate, reason = judge(self._book, lease, self._grace_s)
        if fate == "due" and not _handles(lease, boxes) and time.time() < lease.created_at + _SETTLE_S:
            fate, reason = "kept", f"{reason}, but the engine may still be making it"
        if fate == "live":
            self._live += 1
        elif fate == "kept":
            self._note(lease.provider, lease.id, lease.handle, "kept", reason)
        return reason if fate == "due" else ""

    async def _clean_lease(self, engine: SupportsReaping, lease: Lease, reason: str, handles: list[str]) -> None:
        if lease not in self._book:
            return  # another reaper came before us
        try:
            with self._book.closing(lease):
                for handle in handles:
                    await self._remove(engine, handle)
        except Exception as error:  # noqa: BLE001 - one box must not keep the others from being removed
            self._note(lease.provider, lease.id, lease.handle, "failed", f"{reason}; {_text(error)}")
        else:
            self._note(lease.provider, lease.id, lease.handle, "removed", reason)

    async def _clean_box(self, engine: SupportsReaping, box: OwnedBox) -> None:
        """One without a lease: its record was lost, or is in another book."""
        fate, reason = _judge_box(self._book, box)
        if fate == "live":
            self._live += 1
            return
        action: Action = "kept" if fate == "kept" else "would_remove"
        if action == "would_remove" and not self._dry_run:
            try:
                await self._remove(engine, box.handle)
                action = "removed"
            except Exception as error:  # noqa: BLE001 - as above
                action, reason = "failed", f"{reason}; {_text(error)}"
        self._note(engine.name, box.lease, box.handle, action, reason)

    async def _remove(self, engine: SupportsReaping, handle: str) -> None:
        async with self._limiter:
            with anyio.fail_after(_REMOVE_CAP_S):
                await engine.remove(handle)

    # -- the report -------------------------------------------------------------------------------------------------

    def _cannot(self, lease: Lease, why: str) -> None:
        """Its engine is out of reach, which matters only where there is something to do."""
        fate, reason = judge(self._book, lease, self._grace_s)
        if fate == "live":
            self._live += 1
        elif fate == "kept":
            self._note(lease.provider, lease.id, lease.handle, "kept", reason)
        else:
            self._note(lease.provider, lease.id, lease.handle, "failed", f"{reason}; {why}")

    def _note(self, provider: str, lease: str | None, handle: str | None, action: Action, reason: str) -> None:
        self._items.append(ReapItem(provider=provider, lease=lease, handle=handle, action=action, reason=reason))


def _is_of(lease: Lease, engine: SupportsReaping) -> bool:
    return lease.provider == engine.name and lease.settings == plain(engine.settings)


def _restore(restore: Callable[[str, Mapping[str, Any]], object], lease: Lease) -> SupportsReaping:
    engine = restore(lease.provider, lease.settings)
    if not isinstance(engine, SupportsReaping):
        raise CapabilityMissing(f"the provider {lease.provider!r} cannot reap")
    if not _is_of(lease, engine):
        raise InputError(f"the settings {lease.settings} come out as {dict(engine.settings)}")
    return engine


def _handles(lease: Lease, boxes: list[OwnedBox]) -> list[str]:
    """What is to be removed for a lease; two boxes where a lost reply made a provider try again."""
    handles = [lease.handle, *(box.handle for box in boxes if box.lease == lease.id)]
    return list(dict.fromkeys(handle for handle in handles if handle is not None))


def _judge_box(book: LeaseBook, box: OwnedBox) -> Judgement:
    if box.is_orphan is None:
        return judge_owner(book, box.owner)
    return Judgement("due", "its owner is dead") if box.is_orphan else Judgement("live", "its owner lives")


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
