"""A progress bar with counts of resolved, unresolved and masked."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from swe_sdk.model.outcome import Outcome


class Progress(Protocol):
    """What a batch tells its reader."""

    def add(self, outcome: Outcome) -> None:
        """One more is done."""

    def say(self, line: str) -> None:
        """A word on what takes so long."""


@contextmanager
def progress_bar(total: int, label: str, *, enabled: bool = True) -> Iterator[Progress]:
    """A bar on standard error; nothing where that is neither a terminal nor a notebook's."""
    if not enabled or not _is_watched():
        yield _Silent()
        return
    from tqdm import tqdm

    with tqdm(total=total, desc=label, unit="task", file=sys.stderr, dynamic_ncols=True) as bar:
        yield _Bar(bar)


def _is_watched() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules


class _Silent:
    def add(self, outcome: Outcome) -> None:
        pass

    def say(self, line: str) -> None:
        pass


class _Bar:
    def __init__(self, bar: _Tqdm) -> None:
        self._bar = bar
        self._counts: Counter[str] = Counter()

    def add(self, outcome: Outcome) -> None:
        self._counts[outcome.status] += 1
        counts = {status: self._counts[status] for status in ("resolved", "unresolved", "masked")}
        self._bar.set_postfix(counts, refresh=False)
        self._bar.update(1)

    def say(self, line: str) -> None:
        self._bar.set_postfix_str(line[:60])


class _Tqdm(Protocol):
    def set_postfix(self, ordered_dict: dict[str, int], *, refresh: bool) -> None: ...
    def set_postfix_str(self, s: str) -> None: ...
    def update(self, n: float) -> bool | None: ...
