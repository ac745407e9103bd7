"""Metadata that have changed since a sandbox was made: the wire cannot change them, so they are noted on this machine.

They say which process owns an adopted sandbox. Processes that use another state directory do not see the notes, and
the reaper of another machine leaves alone what it cannot judge.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from swe_sdk.files import write_atomic


class Relabelling:
    """Notes in a directory, one file a sandbox; it is made with the first."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def note(self, sandbox: str, metadata: Mapping[str, str]) -> None:
        """From now on its metadata are these, and what they do not name stays."""
        self._directory.mkdir(parents=True, exist_ok=True)
        write_atomic(self._path(sandbox), json.dumps({**self._noted(sandbox), **metadata}).encode())

    def applied(self, sandbox: str, metadata: Mapping[str, str]) -> dict[str, str]:
        """The metadata that the system tells of it, with what has changed."""
        return {**metadata, **self._noted(sandbox)}

    def forget(self, sandbox: str) -> None:
        """It is gone."""
        self._path(sandbox).unlink(missing_ok=True)

    def _noted(self, sandbox: str) -> dict[str, str]:
        try:
            noted: dict[str, str] = json.loads(self._path(sandbox).read_bytes())
        except FileNotFoundError:
            return {}
        return noted

    def _path(self, sandbox: str) -> Path:
        return self._directory / f"{quote(sandbox, safe='')}.json"
