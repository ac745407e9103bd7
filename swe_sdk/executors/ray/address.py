"""Where a Ray cluster is, and whether somebody answers there: Ray itself tries for minutes, and cannot be stopped."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

from swe_sdk.errors import PrerequisiteError

REMEDY = "`ray start --head` makes one on this machine; $RAY_ADDRESS names one elsewhere, as host:port"
_CONNECT_S = 10.0


def require_answer(address: str) -> None:
    """Raises ``PrerequisiteError`` where there is no cluster, or nobody listens at its address; blocks."""
    known = _known(address)
    host, colon, port = known.rpartition(":")
    if not colon or not port.isdecimal() or "://" in host:
        return  # a form of Ray's own, such as "local", or "ray://..." of its client
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except OSError as error:
        raise PrerequisiteError(f"no Ray cluster answers at {known}: {error}", remedy=REMEDY) from error


def _known(address: str) -> str:
    """The address as ``host:port`` where it is one; Ray's own file of the cluster of this machine for ``auto``."""
    if address != "auto":
        return address
    named = os.environ.get("RAY_ADDRESS")
    if named:
        return named
    file = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / "ray_current_cluster"
    try:
        return file.read_text().strip()
    except OSError:
        raise PrerequisiteError("no Ray cluster is known on this machine", remedy=REMEDY) from None
