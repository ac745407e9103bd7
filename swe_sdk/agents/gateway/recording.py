"""Between a call and its ledger: small writes are put together, and the disk is waited for in worker threads."""

from __future__ import annotations

import time
from collections.abc import Callable

from anyio import to_thread

from swe_sdk.agents.gateway.ledger import Capture, Ledger, ModelCall
from swe_sdk.agents.gateway.session import GatewaySession

_FLUSH_BYTES = 1 << 18


class LedgerFailed(Exception):
    """The ledger does not take the call; ``__cause__`` says why."""


class Recording:
    """The record of one call. Nothing is written before :meth:`take` or :meth:`finish`: nothing may have to be undone.

    The session's key is struck out of bodies, with as many stars: an agent that shows its model the environment sends
    it along. ``ledger`` None = only count.
    """

    def __init__(self, ledger: Ledger | None, session: GatewaySession, call_id: str, request: bytes) -> None:
        self._ledger = ledger
        self._session = session
        self._call_id = call_id
        self._capture: Capture | None = None
        self._request = request
        self._key = session.key.get_secret_value().encode()
        self._buffer = bytearray()
        self.pieces = 0
        self.size_bytes = 0
        self.unrecorded_bytes = 0
        self.largest_gap_s = 0.0
        self._last_at: float | None = None
        self._has_failed = False

    async def take(self, piece: bytes) -> None:
        """A piece of the response is about to be delivered. Raises ``LedgerFailed``."""
        now = time.monotonic()
        if self._last_at is not None:
            self.largest_gap_s = max(self.largest_gap_s, now - self._last_at)
        self._last_at = now
        self.pieces += 1
        self.size_bytes += len(piece)
        if self._ledger is not None:
            self._buffer += piece
            if len(self._buffer) >= _FLUSH_BYTES:
                await _written(lambda: self._flush(but=len(self._key) - 1))

    async def finish(self, call: ModelCall) -> None:
        """The call has ended; its row is in the ledger when this returns. Raises ``LedgerFailed``."""
        if self._ledger is not None:
            await _written(lambda: self._finish(call))

    def _flush(self, *, but: int = 0) -> Capture:
        """Write what there is, but for the last bytes, which may be the beginning of a key."""
        assert self._ledger is not None
        if self._capture is None:
            session = self._session
            self._capture = self._ledger.begin(session.rollout_id, session.attempt, self._call_id)
            self._keep(self._request, self._capture.request)
        end = len(self._buffer) - but
        data, self._buffer = bytes(self._buffer[:end]), self._buffer[end:]
        if data:
            self._keep(data, self._capture.response)
        return self._capture

    def _keep(self, data: bytes, to: Callable[[bytes], None]) -> None:
        """Write a part of a body, if there is room and none has failed: the row may fit where its bodies do not."""
        self.unrecorded_bytes += len(data)
        if not self._has_failed and self._session.take_room(len(data)):
            self._has_failed = True
            to(data.replace(self._key, b"*" * len(self._key)))
            self._has_failed = False
            self.unrecorded_bytes -= len(data)

    def _finish(self, call: ModelCall) -> None:
        capture = self._flush()
        capture.finish(call.model_copy(update={"unrecorded_bytes": self.unrecorded_bytes}))


async def _written(write: Callable[[], object]) -> None:
    try:
        await to_thread.run_sync(write)
    except Exception as error:  # a ledger is the caller's own code
        raise LedgerFailed from error
