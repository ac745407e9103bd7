"""Strict parsers for mocha: the ``spec`` reporter, and the report of the failures that most reporters end with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from swe_sdk.recipes.parsers.ids import IdBudget
from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED, combine
from swe_sdk.recipes.parsers.suites import Suites
from swe_sdk.recipes.parsers.text import indent_of, plain_lines

_COUNT = re.compile(r"  \d+ (passing|pending|failing)(?: \(\S+\))?")
_RESULT = re.compile(r"([✓✔]|\d+\)|-) (.*)")
_TOOK = re.compile(r" \(\d+ms\)$")
_TITLE = re.compile(r"  \d+\) (.*)")


def parse_mocha_spec(log: str) -> dict[str, str]:
    """Each test to its status; the id is the names from the outermost suite inwards, joined by ``.``.

    ``- name`` is SKIPPED. What stands after ``n passing`` is not read; a result is indented, as are suites. Tests of
    one id: FAILED if one of them failed.
    """
    found: dict[str, str] = {}
    suites = Suites(IdBudget(log), ".")
    for line in plain_lines(log):
        if _COUNT.fullmatch(line):
            break
        indent, text = indent_of(line), line.strip()
        if indent < 2 or not text:
            continue
        suites.leave(indent)
        match = _RESULT.fullmatch(text)
        if match is None:
            suites.enter(line)
            continue
        name = suites.name(_TOOK.sub("", match[2]))
        if name is not None:
            status = SKIPPED if match[1] == "-" else FAILED if match[1].endswith(")") else PASSED
            found[name] = combine(found.get(name), status)
    return found


def parse_mocha_failures(log: str) -> dict[str, str]:
    """The failures that mocha reports after ``n failing``: ``{suites and name joined by a space: FAILED}``."""
    return dict.fromkeys(_titles(plain_lines(log)), FAILED)


def _titles(lines: list[str]) -> Iterator[str]:
    """A title is a line for each suite and one for the test, each further in than the one before; a colon ends it."""
    failing, names, indent = False, [], 0
    for line in lines:
        count = _COUNT.fullmatch(line)
        failing = failing or (count is not None and count[1] == "failing")
        start = _TITLE.fullmatch(line) if failing else None
        if start:
            names, indent = [start[1]], 2
        elif names and indent_of(line) > indent and line.strip():
            names.append(line.strip())
            indent = indent_of(line)
        else:
            names = []
        if names and names[-1].endswith(":"):
            yield " ".join(names)[:-1]
            names = []
