"""Failures of p5.js: mocha's numbered reports, between what browsers print.

Behaviour (not code) follows ``parse_log_p5js`` of swebench 5.0.2, whose removal of markup takes time that grows with
the square of the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from swe_sdk.recipes.parsers.markup import without_markup
from swe_sdk.recipes.parsers.status import FAILED
from swe_sdk.recipes.parsers.text import indent_of, without_escapes

_NUMBER = re.compile(r"^[^\S\n]*\d+\)", re.MULTILINE)
_LONGEST = 1000


def parse_p5js(log: str) -> dict[str, str]:
    """From a number to the next colon, where each line is further in than the one before: ``{names:...: FAILED}``."""
    text = without_markup("\n".join(_outside_of_json(without_escapes(log))))
    found: dict[str, str] = {}
    for title in _titles(text):
        lines = title.split("\n")
        indents = [0, *map(indent_of, lines)]
        if all(outer < inner for outer, inner in pairwise(indents)):
            found[":".join(map(str.strip, lines))] = FAILED
    return found


def _titles(text: str) -> Iterator[str]:
    at = 0
    while match := _NUMBER.search(text, at):
        colon = text.find(":", match.end(), match.end() + _LONGEST + 1)
        if colon >= 0:
            yield text[match.end() : colon]
        at = colon + 1 if colon >= 0 else match.end()


def _outside_of_json(log: str) -> Iterator[str]:
    """The lines that are not in a JSON object or list; such a block ends at a bracket at the left margin."""
    in_object = in_list = False
    for line in log.split("\n"):
        text = line.rstrip()
        if text.endswith("{"):
            in_object = True
        elif text.endswith("["):
            in_list = True
        elif text == "}" and in_object:
            in_object = False
        elif text == "]" and in_list:
            in_list = False
        elif not (in_object or in_list or _is_json(text)):
            yield line


def _is_json(text: str) -> bool:
    return (text.startswith("{") and text.endswith("}")) or (text.startswith("[") and text.endswith("]"))
