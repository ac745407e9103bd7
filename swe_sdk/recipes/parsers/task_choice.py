"""Official parsers that read one form or another, by the id or the version of the task.

Which task has which form is as in swebench 5.0.2, where a task that it does not know ends with an error and makes the
log ungradable; here it has the form that is most frequent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from swe_sdk.recipes.parsers.jest import parse_jest, parse_jest_json
from swe_sdk.recipes.parsers.mocha import parse_lighthouse_json, parse_lighthouse_mocha
from swe_sdk.recipes.parsers.next import parse_next_cypress, parse_next_karma
from swe_sdk.recipes.parsers.ruby import parse_cucumber, parse_minitest
from swe_sdk.recipes.parsers.whole_files import parse_carbon

Parser = Callable[[str], dict[str, str]]
Choice = Callable[[str | None, str | None], Parser]
"""From the instance id and the version of a task to the parser that reads its logs."""


def _immutable_js(instance: str | None, version: str | None) -> Parser:
    number = (instance or "").rpartition("-")[2]
    return parse_jest_json if number == "2005" else parse_jest


def _jekyll(instance: str | None, version: str | None) -> Parser:
    parts = (instance or "").split("-")
    return parse_cucumber if parts[1:2] in (["8761"], ["8771"]) else parse_minitest


def _lighthouse(instance: str | None, version: str | None) -> Parser:
    """A version that is no number counts as a new one."""
    if version in ("9.5", "10.0", "10.2"):
        return parse_lighthouse_mocha
    try:
        old = version is not None and not float(version) >= 3
    except ValueError:
        old = False
    return parse_lighthouse_json if old else parse_carbon


def _next(instance: str | None, version: str | None) -> Parser:
    return parse_next_cypress if version == "1.27" else parse_next_karma


CHOICES: Final[dict[str, Choice]] = {
    "immutable_js": _immutable_js,
    "jekyll": _jekyll,
    "lighthouse": _lighthouse,
    "next": _next,
}
