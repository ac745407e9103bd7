"""Lines out of pieces of output."""

from __future__ import annotations

from swe_sdk.sandbox.providers.remote.engine import OnLine

_MOST_BYTES = 1 << 24


class Lines:
    """Hands on each line as soon as it is whole, without its end. Of one that has none, the beginning is dropped."""

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self._rest = bytearray()

    def feed(self, data: bytes) -> None:
        """What has arrived, cut anywhere."""
        *whole, rest = data.split(b"\n")
        for line in whole:
            self._on_line((self._rest + line).decode("ascii", "replace"))
            self._rest.clear()
        self._rest += rest
        del self._rest[:-_MOST_BYTES]
