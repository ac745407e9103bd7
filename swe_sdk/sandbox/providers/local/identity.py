"""Which ids of the host stand behind the users of a box."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from swe_sdk.sandbox.boxside.root import AGENT_ID

_PREFERRED_FIRST = 1_900_000_000
"""Above every range that distributions and systemd hand out, so these ids belong to nobody on the host."""
_COUNT = 65_536


@dataclass(frozen=True)
class Identity:
    """The id map of all boxes of this process.

    Root maps a range of otherwise unused ids, so that nothing in a box is root on the host. Anybody else can map just
    himself, and then the box has the one user alone.
    """

    first: int | None
    """Host id of the box's id 0, or None where only the agent user is mapped."""
    count: int = 0
    only_agent: bool = False
    """Whether of the range a box has the agent user alone."""

    @property
    def has_range(self) -> bool:
        """Whether the box has a root user and other ids of its own."""
        return self.first is not None and not self.only_agent

    @property
    def id_map(self) -> str | None:
        """One line for /proc/PID/uid_map; None where a box maps its caller alone."""
        return f"0 {self.first} {self.count}" if self.has_range else None

    @property
    def agent(self) -> int | None:
        """Host id of the boxes' agent user, or None where that is the caller's own."""
        return None if self.first is None else self.first + AGENT_ID

    def own(self, path: str | Path) -> None:
        """Give a path on the host to the agent user of the boxes."""
        if self.agent is not None:
            os.chown(path, self.agent, self.agent, follow_symlinks=False)

    def close_to_others(self, directory: Path) -> None:
        """Let nobody of this machine but us and the supervisors of boxes, while they mount, pass through."""
        if self.first is None:
            directory.chmod(0o700)
        else:
            os.chown(directory, -1, self.first)
            directory.chmod(0o710)


def current_identity(*, only_agent: bool = False) -> Identity:
    """The map for boxes made by this process."""
    if os.geteuid() != 0:
        return Identity(first=None)
    first, count = choose_range(_mapped_ids())
    return Identity(first if count > AGENT_ID else None, count, only_agent)


def choose_range(extents: list[tuple[int, int]]) -> tuple[int, int]:
    """(first, count) of a range for boxes within the ids that exist here, given as (first, count) pairs.

    The preferred range where it exists; in a container with fewer ids, the upper half of the largest extent.
    """
    for first, count in extents:
        if first <= _PREFERRED_FIRST and first + count >= _PREFERRED_FIRST + _COUNT:
            return _PREFERRED_FIRST, _COUNT
    first, count = max(extents, key=lambda extent: extent[1])
    half = min(_COUNT, count // 2)
    return first + count - half, half


def _mapped_ids() -> list[tuple[int, int]]:
    lines = Path("/proc/self/uid_map").read_text().splitlines()
    return [(int(inside), int(count)) for inside, _outside, count in (line.split() for line in lines)]
