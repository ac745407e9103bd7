"""Lines out of pieces of output."""

from __future__ import annotations

from swe_sdk.sandbox.providers.remote.engine import OnLine


class Lines:
    """Hands on each line as soon as it is whole, without its end."""

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """What has arrived, cut anywhere."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            self._on_line(line.decode("ascii", "replace"))
