"""Runners of Lua and Neovim plug-ins: telescope, lust and mini.test."""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED, combine

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_MARKED = re.compile(r"(✓|✗)\s+(.+)")
_WORDED = re.compile(r"(success|failed|fail|skipped|pending)\s*(?:\|\||:)\s*(.+)", re.IGNORECASE)
_TELESCOPE = {"✓": PASSED, "✗": FAILED, "success": PASSED, "skipped": SKIPPED, "pending": SKIPPED}
_LUST = {"ok": PASSED, "PASS": PASSED}
_MINI_FAIL = re.compile(r"^FAIL in (.+?)(?:: |:?$)", re.MULTILINE)


def parse_telescope(text: str) -> dict[str, str]:
    """``{name: status}`` of the marks ✓ and ✗, or of plenary's ``Success || name`` and ``Fail || name``."""
    found: dict[str, str] = {}
    for line in _lines(text):
        match = _MARKED.fullmatch(line) or _WORDED.fullmatch(line)
        if match is not None and not match[2].isdigit():
            found[match[2]] = combine(found.get(match[2]), _TELESCOPE.get(match[1].lower(), FAILED))
        elif line.startswith("- ") and line.lower().endswith("(skipped)"):
            name = line[2:-9].strip()
            found[name] = combine(found.get(name), SKIPPED)
    return _named(found)


def parse_lust(text: str) -> dict[str, str]:
    """``{name: status}`` of lines such as ``name ... ok`` or ``PASS name``. Counts without names give nothing."""
    found: dict[str, str] = {}
    for line in _lines(text):
        name, dots, word = line.rpartition(" ... ")
        if not dots or word not in ("ok", "FAILED", "ERROR"):
            word, _, name = line.partition(" ")
            if word not in ("PASS", "FAIL"):
                continue
        name = name.strip()
        found[name] = combine(found.get(name), _LUST.get(word, FAILED))
    return _named(found)


def parse_mini_test(text: str) -> dict[str, str]:
    """``{file | group | name: FAILED}``: mini.nvim's runner names failures alone.

    So nothing that it prints can show that a test passed, and no task that relies on it is ever resolved.
    """
    return _named({match[1].strip(): FAILED for match in _MINI_FAIL.finditer(_ANSI.sub("", text))})


def _named(found: dict[str, str]) -> dict[str, str]:
    """Without what has no name, as where a line ends too early."""
    return {name: status for name, status in found.items() if name}


def _lines(text: str) -> list[str]:
    return [line.strip() for line in _ANSI.sub("", text).split("\n")]
