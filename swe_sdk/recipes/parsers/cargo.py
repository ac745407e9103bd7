"""Results of ``cargo test``.

:func:`parse_cargo` follows the behaviour (not the code) of ``parse_log_cargo`` of swebench 5.0.2, which does not see
ignored tests nor names of several words (``should panic``, examples in documentation).
:func:`parse_cargo_test` is a strict parser of our own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from swe_sdk.recipes.parsers.status import ERROR, FAILED, PASSED, SKIPPED, combine

_WORDS = {"ok": PASSED, "FAILED": FAILED}
_BEGIN = re.compile(r"running \d+ tests?")
_TEST = re.compile(r"test (\S.*?) \.\.\. ?(.*)")
_VERDICT = re.compile(r"(ok|FAILED|ignored)(?:, .*| <[\d.]+s>)?")
_VERDICTS = {**_WORDS, "ignored": SKIPPED}
_PANICS = " - should panic"


def parse_cargo(log: str) -> dict[str, str]:
    """``test name ... ok`` and ``test name ... FAILED`` to ``{name: status}``."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        if "test" in line and "..." in line:
            words = line.split()
            if len(words) == 4 and words[0] == "test" and words[2] == "..." and words[3] in _WORDS:
                found[words[1]] = _WORDS[words[3]]
    return found


def parse_cargo_test(log: str) -> dict[str, str]:
    """Each test to its status; the id is all that stands between ``test`` and ``...``.

    * Only what stands between ``running n tests`` and ``test result:`` counts. A verdict may stand on a later line,
      behind what the test printed (``--nocapture``).
    * A test in the list of failures is FAILED whatever else is said of it. Tests of one name in several programs:
      FAILED if one of them failed.
    * A test without a verdict (its program crashed, the run was cut off) is ERROR.
    """
    reader = _Reader()
    for line in log.replace("\r\n", "\n").split("\n"):
        reader.read(line)
    reader.end()
    return reader.found


@dataclass(slots=True)
class _Reader:
    found: dict[str, str] = field(default_factory=dict)
    running: bool = False
    pending: str = ""
    headings: int = 0
    """How often ``failures:`` stood on a line: their output comes after the first, their names after the second."""

    def read(self, line: str) -> None:
        if _BEGIN.fullmatch(line):
            self.end()
            self.running = True
        elif not self.running:
            return
        elif line.startswith("test result: "):
            self.end()
        elif line == "failures:":
            self.headings += 1
        elif self.headings:
            self._failure(line)
        elif line.startswith("test ") and (match := _TEST.fullmatch(line)):
            self._cut()
            self.pending = match[1]
            self._verdict(match[2])
        elif self.pending:
            self._verdict(line)

    def end(self) -> None:
        """The end of a test program, or of what there is of it."""
        self._cut()
        self.running, self.headings = False, 0

    def _verdict(self, text: str) -> None:
        match = _VERDICT.fullmatch(text)
        if match:
            self._record(self.pending, _VERDICTS[match[1]])
            self.pending = ""

    def _failure(self, line: str) -> None:
        name = line.strip()
        for listed in (name, name + _PANICS):
            if self.headings > 1 and line.startswith("    ") and listed in self.found:
                self.found[listed] = FAILED

    def _cut(self) -> None:
        if self.pending:
            self._record(self.pending, ERROR)
        self.pending = ""

    def _record(self, name: str, status: str) -> None:
        self.found[name] = combine(self.found.get(name), status)
