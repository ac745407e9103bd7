"""A run on real local sandboxes in real time: ``python -m tests.checkpoint.real_run STATE DIRECTORY``.

It may be killed at any time and started again: it goes on from its newest checkpoint, and ends when all rollouts have
their results.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import anyio

from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.checkpoint.runs import Plan, Process, Universe

PLAN = Plan(rollouts=4, steps=6, slots=3, last_life=(*[0.15] * 30, 0.0), pace=0.05, tolerance_s=1.0)


class OnDisk(MutableMapping[str, Any]):
    """A dictionary whose values are written down before they are reported."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory

    def __setitem__(self, name: str, value: Any) -> None:
        temporary = self._directory / f".{name}"
        temporary.write_text(json.dumps(value))
        temporary.rename(self._directory / name)

    def __getitem__(self, name: str) -> Any:
        try:
            return json.loads((self._directory / name).read_text())
        except FileNotFoundError:
            raise KeyError(name) from None

    def __delitem__(self, name: str) -> None:
        (self._directory / name).unlink()

    def __iter__(self) -> Iterator[str]:
        return (path.name for path in self._directory.iterdir() if not path.name.startswith("."))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def universe(state: str, directory: str) -> Universe:
    """What is on disk of a run."""
    root = Path(directory)
    found = Universe(root, PLAN, provider=LocalProvider(state))
    found.results, found.cuts, found.attempts = (OnDisk(root / name) for name in ("results", "cuts", "attempts"))  # type: ignore[assignment]
    return found


async def main(state: str, directory: str) -> None:
    """One life."""
    found = universe(state, directory)
    try:
        await Process(found).live(None)
    finally:
        await found.provider.aclose()


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
