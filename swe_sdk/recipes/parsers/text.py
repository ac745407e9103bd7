"""Small things that several log parsers share."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ESCAPE = re.compile(r"\x1b(?:[@-Z\\-_]|\[[0-?]*[ -/]*[@-~])")


def without_escapes(log: str) -> str:
    """The log without terminal control sequences."""
    return _ESCAPE.sub("", log) if "\x1b" in log else log


def indent_of(line: str) -> int:
    """The number of white-space characters that the line begins with."""
    return len(line) - len(line.lstrip())


def one_line(text: str) -> str:
    """The text with each run of white space made one space, and none around it."""
    return " ".join(text.split())


def rests(log: str, head: re.Pattern[str], tail: str) -> Iterator[str]:
    """What stands between a match of ``head`` and a ``tail`` at the end of that line, a line feed after it.

    As ``re.findall(head + "(.*)" + tail + "\\n")`` gives it, but in time linear in the log.
    """
    at, end = 0, -1
    while match := head.search(log, at):
        start = match.end()
        if start > end:
            end = log.find("\n", start)
            if end < 0:
                return
        if start + len(tail) <= end and log.startswith(tail, end - len(tail)):
            yield log[start : end - len(tail)]
            at = end + 1
        else:
            at = match.start() + 1
