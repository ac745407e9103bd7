"""Results of jest: ``--verbose``, and JSON turned into lines.

:func:`parse_jest` and :func:`parse_jest_json` follow the behaviour (not the code) of ``parse_log_jest`` and
``parse_log_jest_json`` of swebench 5.0.2. The first knows a test by its last name alone, so that tests of one name in
two suites are one, and takes any line that begins with a check mark for a result, printed ones included.
:func:`parse_jest_verbose` is a strict parser of our own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from swe_sdk.recipes.parsers.ids import IdBudget
from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED, combine
from swe_sdk.recipes.parsers.suites import Suites
from swe_sdk.recipes.parsers.text import indent_of, plain_lines

_MARKS = {"✓": PASSED, "✕": FAILED, "○": SKIPPED}
_STARTS = tuple(_MARKS)
_DURATION = re.compile(r"\s\(\d+\s*m?s\)")
_JSON_STARTS = ("[PASSED]", "[FAILED]")
_FILE = re.compile(r"(PASS|FAIL) (\S.*?)(?: \([\d.]+ m?s\))?")
_TOOK = re.compile(r" \([\d.]+ m?s\)$")
_HEADING = "  ● "
_ARROW = " \u203a "  # a single angle quotation mark
_BROKEN = "Test suite failed to run"


def parse_jest(log: str) -> dict[str, str]:
    """``✓ name (5 ms)``, ``✕ name`` and ``○ name`` to ``{name: status}``."""
    found: dict[str, str] = {}
    if log.isascii():
        return found
    for line in log.split("\n"):
        line = line.strip()
        if line.startswith(_STARTS) and line[1:2].isspace():
            found[_without_duration(line).strip()] = _MARKS[line[0]]
    return found


def parse_jest_json(log: str) -> dict[str, str]:
    """``[PASSED] suite > name`` and ``[FAILED] ...`` to ``{suite > name: status}``."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        line = line.strip()
        if line.startswith(_JSON_STARTS) and line[8:9].isspace():
            found[line[9:]] = line[1:7]
    return found


def _without_duration(line: str) -> str:
    """What follows the mark and the space after it, up to a duration at the end of the line."""
    if line.endswith("s)"):
        at = line.rfind("(") - 1
        if at > 2 and _DURATION.fullmatch(line, at):
            return line[2:at]
    return line[2:]


def parse_jest_verbose(log: str) -> dict[str, str]:
    """Each test to its status; the id is the names from the outermost suite inwards, joined by `` > ``.

    * Results are read only below a ``PASS file`` or ``FAIL file`` line, up to the first empty line: what tests print
      stands elsewhere, unless it imitates such a list.
    * A test with a report of its own (``● suite › name``) is FAILED whatever else is said of it, as is, under its path,
      a file that could not be run. Tests of one id in several places: FAILED if one of them failed.
    * Todos are left out: nothing was run for them.
    """
    reader = _Reader(IdBudget(log))
    for line in plain_lines(log):
        reader.read(line)
    return reader.found


@dataclass(slots=True)
class _Reader:
    budget: IdBudget
    found: dict[str, str] = field(default_factory=dict)
    file: str = ""
    listing: bool = False
    suites: Suites = field(init=False)

    def __post_init__(self) -> None:
        self.suites = Suites(self.budget, " > ")

    def read(self, line: str) -> None:
        match = _FILE.fullmatch(line) if line.startswith(("PASS ", "FAIL ")) else None
        if match:
            self.file, self.listing = match[2], True
            self.suites.clear()
        elif line.startswith(_HEADING):
            self._report(line.removeprefix(_HEADING))
        elif not line.startswith("  "):
            self.listing = False
        elif self.listing:
            self._listed(line)

    def _report(self, heading: str) -> None:
        self.listing = False
        if heading == _BROKEN and self.file:
            self.found[self.file] = FAILED
        elif (name := heading.replace(_ARROW, " > ")) in self.found:
            self.found[name] = FAILED

    def _listed(self, line: str) -> None:
        text = line.strip()
        if text.startswith("✎ todo "):
            return
        if text[:2] not in ("✓ ", "✕ ", "○ "):
            self.suites.enter(line)
            return
        self.suites.leave(indent_of(line))
        name = _TOOK.sub("", text[2:])
        if text[0] == "○":
            name = name.removeprefix("skipped ")
        found = self.suites.name(name)
        if found is not None:
            self.found[found] = combine(self.found.get(found), _MARKS[text[0]])
