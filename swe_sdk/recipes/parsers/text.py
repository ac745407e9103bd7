"""Small things that several log parsers share."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b(?:[@-Z\\-_]|\[[0-?]*[ -/]*[@-~])")


def without_escapes(log: str) -> str:
    """The log without terminal control sequences."""
    return _ESCAPE.sub("", log) if "\x1b" in log else log


def plain_lines(log: str) -> list[str]:
    """The lines of the log without control sequences and carriage returns, for strict parsers."""
    return without_escapes(log).replace("\r\n", "\n").split("\n")


def indent_of(line: str) -> int:
    """The number of white-space characters that the line begins with."""
    return len(line) - len(line.lstrip())


def one_line(text: str) -> str:
    """The text with each run of white space made one space, and none around it."""
    return " ".join(text.split())


def line_ends(word: str, head: str, tail: str) -> re.Pattern[str]:
    """A pattern for ``findall``: of each line with a head and then ``tail``, the tail; else an empty text.

    A head is a word and a pattern, which may hold line feeds, but the word only where no white space follows it.
    Where the tail is not found the rest of the line is passed over, for no other head of that line could help; but the
    last of them may end in the next line. So the time is linear in the log, where ``findall(head + tail)`` takes the
    square for a line of many heads.
    """
    word = re.escape(word)
    return re.compile(rf"{word}{head}(?:{tail}|.*(?={word}\s)|.*)", re.MULTILINE)
