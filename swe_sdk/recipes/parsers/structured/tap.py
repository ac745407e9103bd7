"""The Test Anything Protocol, as tape, node-tap, bats and prove print it."""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED, XFAIL, combine

_LINE = re.compile(r"^(not )?ok\b[ \t]*(\d+)?[ \t]*(?:-[ \t]*)?(.*)$")
_DIRECTIVE = re.compile(r"(?<!\\)#\s*(skip|todo)\b.*$", re.IGNORECASE)
_TIME = re.compile(r"(?<!\s)\s+#\s*(?:time=|in )[\d.]+ *(?:ms|s|sec)?\s*$", re.IGNORECASE)
_YAML_START, _YAML_END = "  ---", "  ..."


def parse_tap(text: str) -> dict[str, str]:
    """``{description: status}`` of the test points at the top level; the subtests of one are indented.

    ``# SKIP`` is SKIPPED; ``not ok ... # TODO`` is XFAIL and ``ok ... # TODO`` PASSED. A time at the end of a
    description is none of it. A point without a description is named by its number. Diagnostics in YAML are not read.
    """
    found: dict[str, str] = {}
    in_yaml = False
    for line in text.replace("\r\n", "\n").split("\n"):
        if in_yaml or line == _YAML_START:
            in_yaml = line != _YAML_END
        elif point := _LINE.match(line):
            name, status = _read(point)
            if name:
                found[name] = combine(found.get(name), status)
    return found


def _read(point: re.Match[str]) -> tuple[str, str]:
    rest = _TIME.sub("", point[3])
    directive = _DIRECTIVE.search(rest)
    name = (rest[: directive.start()] if directive else rest).strip() or f"{point[2] or ''}"
    return name, _status(point[1] is None, directive[1].lower() if directive else "")


def _status(ok: bool, directive: str) -> str:
    if directive == "skip":
        return SKIPPED
    if ok:
        return PASSED
    return XFAIL if directive == "todo" else FAILED
