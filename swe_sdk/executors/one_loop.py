"""A pool is open in one event loop, until its block ends: elsewhere and afterwards callers would wait for ever."""

from __future__ import annotations

from anyio.lowlevel import current_token

from swe_sdk.errors import InputError

CLOSED = "the pool is closed"
_REMEDY = "await swe_sdk.aio within the `async with` block of the pool, or hand over the executor itself"


class OfOneLoop:
    """What the pools of this package have in common. Made in the loop in which it is used."""

    def __init__(self) -> None:
        self.is_open = True
        self._token = current_token()

    def require_here(self) -> None:
        """``InputError`` where it is closed, or open in another event loop, as for blocking calls it always is."""
        if not self.is_open:
            raise InputError(CLOSED, remedy=_REMEDY)
        if current_token() != self._token:
            raise InputError("the pool is open in another event loop", remedy=_REMEDY)
