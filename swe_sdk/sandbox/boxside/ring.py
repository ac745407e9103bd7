"""Brings one call to a box's ``station``, and prints a line whenever the station rings.

It starts for every call of the SDK, so it loads next to nothing: see ``station`` for what the lines mean.
"""

from __future__ import annotations

import _socket
import os

CALL = "SWE_SDK_CALL"
"""The variable that holds the call, as JSON in ASCII; what is too large for a variable comes as a file."""
DEAD = b"dead\n"
"""Printed where no station is there."""


def main(place: str, request: str = "") -> None:
    """``place`` is the station's directory; ``request`` a file that holds the call, which is removed."""
    call = _take(request) if request else os.environb[CALL.encode()]
    station = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        station.connect(f"{place}/socket")
        _send(station, len(call).to_bytes(4, "big") + call)
        while lines := station.recv(4096):
            os.write(1, lines)
    except OSError:
        os.write(1, DEAD)


def _take(request: str) -> bytes:
    with open(request, "rb") as file:
        os.unlink(request)
        return file.read()


def _send(station: _socket.socket, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[station.send(left) :]
