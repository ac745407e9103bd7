"""Results of ``python -m unittest -v``, from Python 3.8 to 3.14.

A strict parser of our own. Its ids are what unittest prints for a test, docstring or not: ``test_x (mod.Class.test_x)``
from Python 3.11 on, ``test_x (mod.Class)`` before. They agree with the ids of the Django parser for tests without a
docstring.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from swe_sdk.recipes.parsers.status import ERROR, FAILED, FAILING, PASSED, SKIPPED, XFAIL, combine

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_OWNER = re.compile(r" \(([^\s()]*)\)")
_NOT_NAME = re.compile(r"[\s()]+")
_HEADING = re.compile(r"(FAIL|ERROR|UNEXPECTED SUCCESS): ([^\s()]+ \([^\s()]+\))")
_RAN = re.compile(r"Ran \d+ tests? in ")
_DOTS = " ..."
_DOUBLE, _SINGLE = "=" * 70, "-" * 70
_FIXTURES = (
    "setUpClass",
    "tearDownClass",
    "setUpModule",
    "tearDownModule",
    "runTest",
    "unittest.case.FunctionTestCase",
)
_VERDICTS = (
    ("ok", PASSED),
    ("FAIL", FAILED),
    ("ERROR", ERROR),
    ("expected failure", XFAIL),
    ("unexpected success", FAILED),
)
_ENDS = (*(word for word, _ in _VERDICTS), "'", '"')
_HEADINGS = {"FAIL": FAILED, "ERROR": ERROR, "UNEXPECTED SUCCESS": FAILED}


def parse_unittest(log: str) -> dict[str, str]:
    """Each test to its status.

    * The verdict of a test is the last one printed before the next test, alone on a line or at the end of one: what the
      test printed itself may stand between its name and its verdict, or be glued to either.
    * Subtests count for their test. An unexpected success is FAILED, as it fails the run.
    * Reports about one test (reruns, teardown, subtests, the ``FAIL: ...`` sections at the end): the last status wins,
      but FAILED where only one of the two is a failure.
    * A test without any verdict (the run was cut off) is ERROR. ``setUpClass (mod.Class)`` and the like are reported
      where unittest reports them, as are modules that could not be imported.
    * Several runs in one log are read one after the other. Output of a nested run is not told from that of the outer.
    """
    found: dict[str, str] = {}
    run = _Run()
    for line in _ANSI.sub("", log).replace("\r\n", "\n").split("\n"):
        if run.read(line):
            run.finish(found)
            run = _Run()
    run.finish(found, cut=True)
    return found


class _Verdict(NamedTuple):
    status: str
    alone: bool
    clean: bool
    """Printed right after the dots or alone on its line, so not the end of some other text."""


class _Case(NamedTuple):
    """A place in a line that looks like a test: ``name (owner)``."""

    name: str
    owner: str
    first: bool
    """Whether nothing but space stands before it."""
    modern: bool
    """Whether the owner ends with the name, as from Python 3.11 on."""
    start: int
    end: int

    @property
    def test(self) -> str:
        return f"{self.name} ({self.owner})"

    @property
    def likely(self) -> bool:
        """Whether it is one by its name."""
        return self.modern or self.name.startswith("test") or self.name in _FIXTURES


@dataclass(slots=True)
class _Block:
    """What was printed from the announcement of one test to that of the next."""

    test: str
    modern: bool
    likely: bool
    verdicts: list[_Verdict] = field(default_factory=list)

    def status(self) -> str | None:
        """The last verdict, but for those of a class or module, which Python < 3.11 prints without any name."""
        verdicts = self.verdicts[:]
        while not self.modern and len(verdicts) > 1 and _is_of_class(verdicts):
            verdicts.pop()
        return verdicts[-1].status if verdicts else None


@dataclass(slots=True)
class _Run:
    """One run of unittest, read line by line."""

    blocks: list[_Block] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    previous: tuple[str, str] = ("", "")
    waiting: _Block | None = None
    """A test announced by the line before, which is to be believed if this one is its docstring."""
    listing: bool = False
    """Whether the list of failures, which ends a run, has begun."""

    def read(self, line: str) -> bool:
        """Takes one line; True when it is the last of the run."""
        before, last = self.previous
        self.previous = (last, line)
        if last == _SINGLE and _RAN.match(line):
            return True
        if last == _DOUBLE and (self.listing or not before) and (heading := _HEADING.match(line)):
            self._failure(heading)
        elif not self.listing:
            self._test_line(line)
        return False

    def finish(self, found: dict[str, str], *, cut: bool = False) -> None:
        """Adds this run's results to those of the runs before; ``cut`` says that its end was not seen."""
        if cut and self.blocks:
            self.blocks[-1].verdicts = [verdict for verdict in self.blocks[-1].verdicts if verdict.clean]
        results: dict[str, str | None] = {}
        for block in self.blocks:
            status, known = block.status(), results.get(block.test)
            results[block.test] = combine(known, status) if status else known
        for test in dict.fromkeys((*results, *self.failures)):
            status = _with_failure(results.get(test), self.failures.get(test))
            found[test] = combine(found.get(test), status)

    def _failure(self, heading: re.Match[str]) -> None:
        self.listing = True
        self.failures[heading[2]] = combine(self.failures.get(heading[2]), _HEADINGS[heading[1]])

    def _test_line(self, line: str) -> None:
        docstring = self.waiting is not None and _is_docstring(self.waiting, line)
        if self.waiting is not None and docstring:
            self.blocks.append(self.waiting)
        self.waiting = None
        if ")" in line and (_DOTS in line or line.endswith(")")):
            self._announcements(line, docstring)
        if self.blocks and self.waiting is None and line.endswith(_ENDS):
            self.blocks[-1].verdicts += _verdicts(line)

    def _announcements(self, line: str, docstring: bool) -> None:
        for case in _cases(line):
            if not self._announced(line, case, docstring):
                continue
            block = _Block(case.test, case.modern, case.likely)
            if line.startswith(_DOTS, case.end) or line.endswith(_ENDS, case.end):
                self.blocks.append(block)
            else:
                self.waiting = block

    def _announced(self, line: str, case: _Case, docstring: bool) -> bool:
        """Whether a test is announced at this place of the line."""
        if line.startswith((" [", " ("), case.end):
            of_last = bool(self.blocks) and self.blocks[-1].test == case.test
            return of_last and case.first and case.start == 2
        dots = line.startswith(_DOTS, case.end)
        if case.first and not docstring:
            return case.end == len(line) or (dots and case.likely)
        glued = case.name.startswith("test") and line.endswith(f"{_DOTS} ", 0, case.start)
        return (glued and (dots or case.end == len(line))) or (case.modern and dots)


def _is_docstring(announced: _Block, line: str) -> bool:
    """Whether the line after an announcement is the docstring that unittest prints there, and no other output."""
    return _DOTS in line and (announced.likely or line.startswith("Doctest: "))


def _cases(line: str) -> Iterator[_Case]:
    """What looks like a test in a line; output that is glued to the front of a name is cut off where that is sure."""
    at = 0
    for match in _OWNER.finditer(line):
        lead, owner = line[at : match.start()], match[1]
        name = _NOT_NAME.split(lead)[-1]
        if name:
            first = at == 0 and not lead[: len(lead) - len(name)].strip()
            method = name if f".{owner}".endswith(f".{name}") else owner.rpartition(".")[2]
            modern = method == name or (method.startswith("test") and name.endswith(method))
            yield _Case(method if modern else name, owner, first, modern, match.start() - len(name), match.end())
        at = match.end()


def _verdicts(line: str) -> list[_Verdict]:
    """The verdict that the line ends with, if any."""
    for word, status in _VERDICTS:
        if line.endswith(word):
            return [_verdict(line, len(line) - len(word), status)]
    start = line.find(f"skipped {line[-1]}", 0, -1)
    return [_verdict(line, start, SKIPPED)] if start >= 0 else []


def _verdict(line: str, start: int, status: str) -> _Verdict:
    return _Verdict(status, start == 0, start == 0 or line.endswith(f"{_DOTS} ", 0, start))


def _is_of_class(verdicts: list[_Verdict]) -> bool:
    """Whether the last verdict stands alone after another one that was the test's, and is of a kind classes have."""
    last = verdicts[-1]
    return last.alone and last.status in (ERROR, SKIPPED) and any(earlier.clean for earlier in verdicts[:-1])


def _with_failure(status: str | None, failure: str | None) -> str:
    if failure is None:
        return status or ERROR
    return status if status in FAILING else combine(status, failure)
