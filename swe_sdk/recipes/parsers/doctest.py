"""Results of doctest (the C++ framework) with ``-s -r=xml``.

:func:`parse_doctest` follows the behaviour (not the code) of ``parse_log_doctest`` of swebench 5.0.2, which knows
subcases alone: a test case without any is lost. On a report that is not whole the official parser stops with an
error, which makes the log ungradable; this one finds nothing. :func:`parse_doctest_xml` is a strict parser of our own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from xml.parsers.expat import ExpatError, ParserCreate

from swe_sdk.recipes.parsers.ids import IdBudget
from swe_sdk.recipes.parsers.status import ERROR, FAILED, PASSED, SKIPPED, combine

_BEGIN, _END = "<doctest", "</doctest>"

Attributes = dict[str, str]


def parse_doctest(log: str) -> dict[str, str]:
    """Each subcase to its status, as ``{test case > subcase: status}``; it failed if any expression in it did."""
    begin = log.find(_BEGIN)
    end = log.find(_END, begin) if begin >= 0 else -1
    reader = _Reader(IdBudget(log))
    whole = end >= 0 and _read(log[begin : end + len(_END)], reader.start, reader.end)
    return reader.statuses() if whole else {}


def parse_doctest_xml(log: str) -> dict[str, str]:
    """Each subcase without inner ones to its status; the id is the names from the test case inwards.

    * What the framework counts as a failure is one: expressions and messages that are no mere warnings, exceptions.
      Subcases of one id (a test case is run once for each): FAILED if one of them failed.
    * A test case without subcases stands for itself; so does one that failed though no subcase of it did.
    * A test case whose end is missing (the program crashed, the log was cut) is ERROR; a skipped one SKIPPED.
    """
    begin = log.find(_BEGIN)
    if begin < 0:
        return {}
    reader = _StrictReader(IdBudget(log))
    _read(log[begin:], reader.start, reader.end)
    reader.close_case()
    return reader.found


def _read(text: str, start: Callable[[str, Attributes], None], end: Callable[[str], None]) -> bool:
    """Feed a document to two handlers; whether it is one, whole."""
    parser = ParserCreate(namespace_separator="}")
    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(text, True)
    except (ExpatError, ValueError):  # a ValueError where the text holds a lone surrogate
        return False
    return True


@dataclass(slots=True)
class _SubCase:
    passed: bool = True


@dataclass(slots=True)
class _Reader:
    """Test cases in the order of the document, each with all subcases below it; hostile reports nest test cases."""

    budget: IdBudget
    cases: list[list[tuple[str, _SubCase]]] = field(default_factory=list)
    open_cases: list[tuple[str, list[tuple[str, _SubCase]]]] = field(default_factory=list)
    open_subcases: list[_SubCase] = field(default_factory=list)

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "Expression":
            if self.open_subcases and attributes.get("success") != "true":
                self.open_subcases[-1].passed = False
        elif tag == "SubCase":
            self.open_subcases.append(_SubCase())
            self._enlist(str(attributes.get("name")))
        elif tag == "TestCase":
            self.cases.append([])
            self.open_cases.append((str(attributes.get("name")), self.cases[-1]))

    def end(self, tag: str) -> None:
        if tag == "TestCase":
            self.open_cases.pop()
        elif tag == "SubCase":
            inner = self.open_subcases.pop()
            if self.open_subcases:
                self.open_subcases[-1].passed &= inner.passed

    def statuses(self) -> dict[str, str]:
        return {name: PASSED if subcase.passed else FAILED for subcases in self.cases for name, subcase in subcases}

    def _enlist(self, name: str) -> None:
        for case, subcases in self.open_cases:
            full = None if self.budget.spent else self.budget.join(case, " > ", name)
            if full is None:
                break
            subcases.append((full, self.open_subcases[-1]))


@dataclass(slots=True)
class _Place:
    """A test case or a subcase that is being read."""

    name: str
    failed: bool = False
    has_inner: bool = False


@dataclass(slots=True)
class _StrictReader:
    budget: IdBudget
    found: dict[str, str] = field(default_factory=dict)
    path: list[_Place] = field(default_factory=list)
    inner_failed: bool = False

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "TestCase" and not self.path:
            self.inner_failed = False
            self._enter(attributes)
            if attributes.get("skipped") == "true":
                self._record(SKIPPED)
                self.path.clear()
        elif tag == "SubCase" and self.path:
            self.path[-1].has_inner = True
            self._enter(attributes)
        elif self.path and _is_failure(tag, attributes):
            self.path[-1].failed = True
        elif tag == "OverallResultsAsserts" and len(self.path) == 1:
            self._finish_case(attributes.get("test_case_success"))

    def end(self, tag: str) -> None:
        if tag == "SubCase" and len(self.path) > 1:
            place = self.path[-1]
            if place.failed or not place.has_inner:
                self.inner_failed |= place.failed
                self._record(FAILED if place.failed else PASSED)
            self.path.pop()
        elif tag == "TestCase":
            self.close_case()

    def close_case(self) -> None:
        """The end of a test case; one that is still open has not come to its results."""
        if self.path:
            del self.path[1:]
            self._record(ERROR)
            self.path.clear()

    def _finish_case(self, success: str | None) -> None:
        case = self.path[0]
        failed = case.failed or success == "false"
        if not case.has_inner or (failed and not self.inner_failed):
            self._record(FAILED if failed else PASSED)
        self.path.clear()

    def _enter(self, attributes: Attributes) -> None:
        self.path.append(_Place(str(attributes.get("name"))))

    def _record(self, status: str) -> None:
        if self.budget.spent:
            return
        outer = " > ".join(place.name for place in self.path[:-1])
        name = self.budget.join(outer, " > " if outer else "", self.path[-1].name)
        if name is not None:
            self.found[name] = combine(self.found.get(name), status)


def _is_failure(tag: str, attributes: Attributes) -> bool:
    if tag == "Exception":
        return True
    kind = attributes.get("type", "")
    if tag == "Message":
        return kind != "WARNING"
    return tag == "Expression" and attributes.get("success") != "true" and not kind.startswith("WARN")
