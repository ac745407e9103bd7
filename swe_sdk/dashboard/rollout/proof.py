"""Where a log says what became of a test.

A box may have printed anything: all of this takes time and memory by the length of the log, whatever is in it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MOST_BYTES = 16 << 20
"""So much of a log is looked through: its end, where it is longer."""
_MOST_LINES = 4
_AROUND = 14
_DEEP = 200
_MOST_NAMING = 2000
_MOST_TRIES = 20_000
_LONGEST = 2000
_CHUNK = 1 << 16
_JOINS = ("_", "-")
_HEAD = re.compile(r"_{3,}|FAIL|ERROR|---\s{0,4}FAIL|not ok|●|✗|✕")
_NEXT = re.compile(r"_{3,} .* _{3,}$")
_ERROR = re.compile(r"E {2,}\S")
"""How pytest writes the head of the next failure, and what went wrong."""
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
        self._numbers = [first_line]
        """Of the first line of each chunk."""
        for start in range(0, len(self._text), _CHUNK):
            self._numbers.append(self._numbers[-1] + self._text.count("\n", start, start + _CHUNK))

    def proof(self, test: str, status: str) -> Proof:
        """Where it tells of a test, by its name as a whole word: the whole id, else its last part."""
        for name in dict.fromkeys((test, short_name(test))):
            found = self._naming(name)
            if found:
                return Proof(self._chosen(found, status), self._block(short_name(test), status))
        return Proof()

    def _naming(self, name: str) -> list[int]:
        """Where the last lines begin that name it."""
        found: list[int] = []
        end = len(self._text)
        for _try in range(_MOST_TRIES):
            at = self._text.rfind(name, 0, end)
            if at < 0 or len(found) == _MOST_NAMING:
                break
            end = at + len(name) - 1
            if self._is_whole(at, at + len(name)):
                end = self._text.rfind("\n", 0, at) + 1
                found.append(end)
        return found[::-1]

    def _is_whole(self, start: int, end: int) -> bool:
        """Whether a name is no part of a longer one."""
        before, after = self._text[start - 1 : start], self._text[end : end + 1]
        return not (before.isalnum() or before in _JOINS) and not (after.isalnum() or after in (*_JOINS, "["))

    def _chosen(self, starts: list[int], status: str) -> tuple[tuple[int, str], ...]:
        """Those that say the status as well, if there are any; the last ones count."""
        lines = [self._line(start) for start in starts]
        words = _WORDS.get(status, ())
        saying = [line for line in lines if any(word in line[1].lower() for word in words)]
        return tuple((saying or lines)[-_MOST_LINES:])

    def _block(self, name: str, status: str) -> tuple[tuple[int, str], ...]:
        """The head that frameworks put over a failure, and what follows: of a long one its beginning and its errors."""
        if status not in ("FAILED", "ERROR"):
            return ()
        start = next((start for start in self._naming(name) if _HEAD.match(self._text, start)), None)
        found: list[tuple[int, str]] = []
        while start is not None and len(found) < _DEEP:
            line = self._line(start)
            if found and _NEXT.match(line[1]):
                break
            found.append(line)
            end = self._text.find("\n", start)
            start = end + 1 if end >= 0 else None
        errors = [line for line in found[_AROUND:] if _ERROR.match(line[1])][:_MOST_LINES]
        return tuple(found[: _AROUND - len(errors)] + errors)

    def _line(self, start: int) -> tuple[int, str]:
        """Its number and its text, the beginning of a long one."""
        end = self._text.find("\n", start, start + _LONGEST)
        text = self._text[start : end if end >= 0 else start + _LONGEST]
        chunk = start // _CHUNK
        return self._numbers[chunk] + self._text.count("\n", chunk * _CHUNK, start), text.rstrip("\r")


def short_name(test: str) -> str:
    """The last part of a test's id: ``test_x[1]`` of ``a/b.py::C::test_x[1]``, ``test_x`` of ``test_x (a.b.C)``."""
    last = test.rpartition("::")[2] or test
    return last.partition(" (")[0] or test
