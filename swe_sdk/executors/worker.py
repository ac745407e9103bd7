"""A process that exists to carry out jobs: what it does first, and last."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from swe_sdk.errors import SweError
from swe_sdk.executors.local import LocalPool
from swe_sdk.executors.place import open_place
from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.sandbox.reaper import reap
from swe_sdk.sandbox.reaping import ReapReport
from swe_sdk.sandbox.registry import named_provider, provider_names, restore_provider

_CLOSE_CAP_S = 60.0
_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_worker(node: str, slots: int, *, shared: bool = True) -> AsyncIterator[LocalPool]:
    """A pool in a process of its own: reaped before, and with its sandbox providers closed after.

    ``shared`` = this node sees the file system of who gives the jobs.
    """
    await reap_here()
    try:
        async with open_place(node, shared=shared) as place:
            yield LocalPool(place, slots)
    finally:
        with anyio.move_on_after(_CLOSE_CAP_S, shield=True):
            for name in provider_names():
                await named_provider(name).aclose()


async def reap_here() -> ReapReport:
    """Remove what dead processes have left on this machine: local boxes, and whatever leases name."""
    local = restore_provider("local", {})
    try:
        report = await reap(LeaseBook(), [local])  # type: ignore[list-item]  # the embedded provider can be reaped
    except SweError as error:
        _log.warning("could not reap: %s", error)
        return ReapReport(dry_run=False)
    finally:
        await local.aclose()
    for item in report.of("failed"):
        _log.warning("%s: could not remove %s: %s", item.provider, item.handle or item.lease, item.reason)
    return report
