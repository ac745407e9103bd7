"""Names of snapshots on the wire.

A name that is there already would get a new build there, in place of the old one, and E2B does not tell when a snapshot
was made: so each name has the moment in it, ``NAME-at-MILLISECONDS``, and is never used twice.
"""

from __future__ import annotations

import re
import time
from urllib.parse import quote, unquote

from swe_sdk.sandbox.providers.e2b.shapes import Snapshot
from swe_sdk.sandbox.providers.remote.engine import FoundSnapshot

_OURS = re.compile(r"(?:.*/)?(?P<name>[^/:]+)-at-(?P<ms>[0-9]{13,15})(?::[^/:]*)?")
"""E2B adds the team's name before it, and a tag after it: ``team/NAME-at-MILLISECONDS:default``."""


def new_wire_name(name: str) -> str:
    """What a snapshot that we call ``name`` is called there."""
    return f"{name}-at-{time.time_ns() // 1_000_000:013d}"


def snapshot_id(listed: Snapshot) -> str:
    """The system's id as one word, which may be a part of a path: E2B's own hold slashes and colons."""
    return quote(listed["snapshotID"], safe="")


def system_id(snapshot: str) -> str:
    """The same as the system has it, for the body of a request."""
    return unquote(snapshot)


def found_snapshot(listed: Snapshot) -> FoundSnapshot | None:
    """One of the system's listing; None where it is not ours."""
    for told in listed.get("names") or ():
        match = _OURS.fullmatch(told)
        if match is not None:
            created_at = int(match["ms"]) / 1000
            return FoundSnapshot(snapshot_id(listed), match["name"], created_at, is_ready=True)
    return None


def is_called(listed: Snapshot, wire_name: str) -> bool:
    """Whether it has that name on the wire."""
    plain = (told.rpartition("/")[2].partition(":")[0] for told in listed.get("names") or ())
    return wire_name in plain
