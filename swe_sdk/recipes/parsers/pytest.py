"""Summaries of pytest, in the three dialects of the official harness.

Behaviour (not code) follows ``parse_log_pytest``, ``parse_log_pytest_options`` and ``parse_log_pytest_v2`` of
swebench 5.0.2, quirks included: a line counts when it merely *starts* with a status word, the first word becomes the
status whatever follows the status word in it (``ERROR:`` is kept as it is), and the last line about a test wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from swe_sdk.recipes.parsers.status import FAILED, SKIPPED, STATUSES

_COUNT = re.compile(r"\[\d+\]")
_COLOUR = re.compile(r"\[\d+m")
_CONTROL = re.compile(r"[\x01-\x09\x0b-\x1f]+")
_DROP_CONTROL = dict.fromkeys(code for code in range(1, 32) if chr(code) != "\n")
_MESSAGE = " - "


def parse_pytest(log: str) -> dict[str, str]:
    """``STATUS id ...`` lines to ``{id: status}``; the id is the second word, so it ends at its first space."""
    return dict(_summary(log))


def parse_pytest_options(log: str) -> dict[str, str]:
    """As :func:`parse_pytest`, with a path as parameter cut to its last part: ``t[/a/b]`` becomes ``t[/b]``."""
    return {_shorten(name): status for name, status in _summary(log)}


def parse_pytest_v2(log: str) -> dict[str, str]:
    """``STATUS id`` and ``id STATUS`` lines to ``{id: status}``, colours and control characters removed.

    Ids keep inner spaces (runs of them become one); of a FAILED line only the part before `` - `` is read.
    """
    found: dict[str, str] = {}
    for line in _plain(log).split("\n"):
        if line.startswith(STATUSES):
            words = _leading(line)
            if len(words) > 1 and not _is_count(words[0], words[1]):
                found[" ".join(words[1:])] = words[0]
        elif line.endswith(STATUSES):
            words = line.split()
            if len(words) > 1:
                found[" ".join(words[:-1])] = words[-1]
    return found


def _summary(log: str) -> Iterator[tuple[str, str]]:
    """The (id, status) pairs of a summary in order, doublets included."""
    for line in log.split("\n"):
        if line.startswith(STATUSES):
            words = line.split(None, 2)
            if len(words) > 1 and words[1] == "-" and line.startswith(FAILED):
                words = line.replace(_MESSAGE, " ").split(None, 2)
            if len(words) > 1 and not _is_count(words[0], words[1]):
                yield words[1], words[0]


def _leading(line: str) -> list[str]:
    return (line.partition(_MESSAGE)[0] if line.startswith(FAILED) else line).split()


def _is_count(status: str, name: str) -> bool:
    """Whether this is ``SKIPPED [3] path:line: reason``, where the second word counts tests and names none.

    Only for SKIPPED: some official PASS_TO_PASS lists hold the ``[100%]`` of a wrapped ``PASSED [100%]`` line.
    """
    return status == SKIPPED and name.startswith("[") and _COUNT.fullmatch(name) is not None


def _shorten(name: str) -> str:
    start, end = name.find("["), name.rfind("]")
    if start < 0 or end < start:
        return name
    option = name[start + 1 : end]
    if option.startswith("/") and not option.startswith("//") and "*" not in option:
        option = option[option.rindex("/") :]
    return f"{name[:start]}[{option}]"


def _plain(log: str) -> str:
    """The log without ``[31m`` sequences (their escape character may be lost) and without control characters.

    ``str.translate`` is quick on ASCII alone, so other text goes through a pattern; both drop the same characters.
    """
    text = _COLOUR.sub("", log)
    return text.translate(_DROP_CONTROL) if text.isascii() else _CONTROL.sub("", text)
