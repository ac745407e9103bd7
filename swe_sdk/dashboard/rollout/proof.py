"""Where a log says what became of a test."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

MOST_BYTES = 16 << 20
"""So much of a log is looked through: its end, where it is longer."""
_MOST_LINES = 4
_AROUND = 14
_WORDS = {
    "PASSED": ("passed", "ok", "pass", "success", "✓"),
    "FAILED": ("failed", "fail", "failure", "not ok", "✗", "✕"),
    "ERROR": ("error",),
    "SKIPPED": ("skip",),
    "XFAIL": ("xfail", "expected fail"),
}


class Proof(NamedTuple):
    """Lines that name a test with what became of it, and the block that tells of its failure. Numbers count from 0."""

    lines: tuple[tuple[int, str], ...] = ()
    block: tuple[tuple[int, str], ...] = ()


class LogText:
    """A log, or its end, to be looked through for many tests. ``first_line`` is the number of its first line."""

    def __init__(self, data: bytes, first_line: int = 0) -> None:
        self._text = data.decode("utf-8", "replace")
        self._first = first_line
        self._starts = [0, *(match.end() for match in re.finditer("\n", self._text))]

    def proof(self, test: str, status: str) -> Proof:
        """Where it tells of a test, by its name as a whole word: the whole id, else its last part."""
        for name in dict.fromkeys((test, short_name(test))):
            found = [self._line_at(match.start()) for match in re.finditer(_whole(name), self._text)]
            if found:
                return Proof(self._chosen(found, status), self._block(short_name(test), status))
        return Proof()

    def _chosen(self, lines: list[int], status: str) -> tuple[tuple[int, str], ...]:
        """Those that say the status as well, if there are any; the last ones count."""
        unique = list(dict.fromkeys(lines))
        words = _WORDS.get(status, ())
        saying = [line for line in unique if any(word in self._text_of(line).lower() for word in words)]
        return tuple((self._first + line, self._text_of(line)) for line in (saying or unique)[-_MOST_LINES:])

    def _block(self, name: str, status: str) -> tuple[tuple[int, str], ...]:
        """The head that frameworks put over a failure, and what follows."""
        if status not in ("FAILED", "ERROR"):
            return ()
        heads = rf"^(?:_{{3,}}.*{_whole(name)}.*_{{3,}}|(?:FAIL|ERROR|---\s*FAIL|not ok|●|✗|✕).*{_whole(name)}.*)$"
        match = re.search(heads, self._text, re.MULTILINE)
        if match is None:
            return ()
        first = self._line_at(match.start())
        last = min(first + _AROUND, len(self._starts))
        return tuple((self._first + line, self._text_of(line)) for line in range(first, last))

    def _line_at(self, offset: int) -> int:
        return bisect_right(self._starts, offset) - 1

    def _text_of(self, line: int) -> str:
        end = self._starts[line + 1] if line + 1 < len(self._starts) else len(self._text)
        return self._text[self._starts[line] : end].rstrip("\r\n")


def short_name(test: str) -> str:
    """The last part of a test's id: ``test_x[1]`` of ``a/b.py::C::test_x[1]``, ``test_x`` of ``test_x (a.b.C)``."""
    last = test.rpartition("::")[2] or test
    return last.partition(" (")[0] or test


def _whole(name: str) -> str:
    """The name where it is no part of a longer one."""
    return rf"(?<![\w-]){re.escape(name)}(?![\w\[-])"
