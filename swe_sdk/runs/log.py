"""A file of a rollout, looked at in windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from swe_sdk.errors import UnknownLog
from swe_sdk.shown import Shown, neutral, one_line
from swe_sdk.store.index import RunIndex
from swe_sdk.store.rows import ArtifactRow

_SHOWN_LINES = 20


class Log(Shown):
    """A log, a transcript, a patch: never read as a whole. ``print(log)`` shows its end, made safe for a terminal."""

    def __init__(self, index: RunIndex, row: ArtifactRow) -> None:
        self._index = index
        self.row = row

    @property
    def name(self) -> str:
        """As in ``verify-1/test.log``."""
        return self.row.name

    @property
    def size_bytes(self) -> int:
        """How large it is now, unpacked."""
        with self._index.open_artifact(self.row) as file:
            return file.size

    def tail(self, lines: int = 50) -> str:
        """Its last lines, as they were written; undecodable bytes are replaced. It may hold anything."""
        with self._index.open_artifact(self.row) as file:
            return "\n".join(line.text for line in file.tail(lines))

    def lines(self, first: int, count: int) -> list[str]:
        """``count`` lines from number ``first`` (from 0) on; fewer at the end."""
        with self._index.open_artifact(self.row) as file:
            return [line.text for line in file.lines(first, count)]

    def read(self, offset: int = 0, length: int = 1 << 16) -> bytes:
        """Its bytes from ``offset``; fewer at the end, 64 MiB at most."""
        with self._index.open_artifact(self.row) as file:
            return file.read_window(offset, length)

    def find(self, text: str | bytes, start: int = 0, *, ignore_case: bool = False) -> int | None:
        """Offset of the first ``text`` from ``start`` on, for :meth:`read`; None where there is none."""
        with self._index.open_artifact(self.row) as file:
            return file.find(text, start, ignore_case=ignore_case)

    def __repr__(self) -> str:
        return f"<Log {one_line(self.name)}, attempt {self.row.attempt}: {self.size_bytes} bytes>"

    def __str__(self) -> str:
        return neutral(self.tail(_SHOWN_LINES))


class Logs(Mapping[str, Log]):
    """The files of one attempt by name. Of each attempt before, ``rollout.logs_of(attempt)`` has its own."""

    def __init__(self, index: RunIndex, rows: list[ArtifactRow]) -> None:
        self._logs = {row.name: Log(index, row) for row in rows}

    def __getitem__(self, name: str) -> Log:
        if name not in self._logs:
            raise UnknownLog(name, self._logs)
        return self._logs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._logs)

    def __len__(self) -> int:
        return len(self._logs)

    def __repr__(self) -> str:
        return f"<Logs: {one_line(', '.join(self._logs), 1000) or 'none'}>"
