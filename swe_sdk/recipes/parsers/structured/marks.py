"""Lines with a mark before the name of a test: mocha's spec reporter (as Hardhat uses it), bun, and their like."""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED, combine

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_TIME = re.compile(r"(?<!\s)\s+[(\[]\d+(?:\.\d+)?\s?m?s[)\]]$")
_CONTRACT = re.compile(r"^Contract:\s*(.+?):?$")
_SPEC = (
    (re.compile(r"^[✓✔]\s+(.+)$"), PASSED),
    (re.compile(r"^(?:\d+\)|[✗✘])\s+(.+)$"), FAILED),
    (re.compile(r"^-\s+(.+)$"), SKIPPED),
)
_END = re.compile(r"^\d+ (?:passing|failing|pending)\b")
_FILE = re.compile(r"^\S.*\.(?:[cm]?[jt]sx?):$")
_BUN = ((("✓ ", "(pass) "), PASSED), (("✗ ", "(fail) "), FAILED), (("» ", "(skip) ", "(todo) "), SKIPPED))


def parse_mocha_spec(text: str) -> dict[str, str]:
    """``{name: status}`` (``Contract > name`` within a ``Contract:`` block) of mocha's spec reporter.

    Reading ends at the summary: what follows repeats the failures with their messages.
    """
    found: dict[str, str] = {}
    contract = ""
    for line in _ANSI.sub("", text).split("\n"):
        line = line.strip()
        if _END.match(line):
            break
        if block := _CONTRACT.match(line):
            contract = f"{block[1]} > "
            continue
        for pattern, status in _SPEC:
            if match := pattern.match(line):
                name = contract + _TIME.sub("", match[1]).strip()
                found[name] = combine(found.get(name), status)
                break
    return found


def parse_bun(text: str) -> dict[str, str]:
    """``{file::describe > name: status}`` of ``bun test``."""
    found: dict[str, str] = {}
    file = ""
    for line in _ANSI.sub("", text).split("\n"):
        if _FILE.match(line.rstrip()):
            file = line.rstrip().rstrip(":")
            continue
        for marks, status in _BUN:
            if line.strip().startswith(marks):
                title = _TIME.sub("", line.strip().split(" ", 1)[1].strip())
                name = f"{file}::{title}" if file else title
                found[name] = combine(found.get(name), status)
                break
    return found
