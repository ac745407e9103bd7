"""How a leased box ends, for providers whose systems may not answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio

from swe_sdk.errors import SandboxError
from swe_sdk.sandbox.leases import Lease, LeaseBook

_CLOSE_CAP_S = 60.0
_log = logging.getLogger(__name__)


async def end_leased(box_id: str, stop: Callable[[], Awaitable[None]], leases: LeaseBook, lease: Lease) -> None:
    """Stop a box, and forget its lease. Where that fails or takes too long the lease stays, for the reaper."""
    try:
        with anyio.fail_after(_CLOSE_CAP_S), leases.closing(lease):
            await stop()
    except (SandboxError, TimeoutError) as error:
        _log.warning("box %s could not be removed, and is left to the reaper: %s", box_id, error)
