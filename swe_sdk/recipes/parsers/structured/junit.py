"""JUnit XML, as pytest, Maven, Gradle, CTest, SwiftPM, busted, luaunit and cargo-nextest write it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from swe_sdk.recipes.parsers.status import ERROR, FAILED, PASSED, SKIPPED, XFAIL, combine

_SUITES = re.compile(r"<(testsuites?)\b")
_MAX_MALFORMED = 50
"""How many broken documents are passed over: each may cost a reading of the whole text."""
_REMARKS = ("failure", "error", "skipped")


def parse_junit_xml(text: str) -> dict[str, str]:
    """``{classname::name: status}``, or ``name`` alone where there is no class.

    ``<failure>`` is FAILED and ``<error>`` ERROR; ``<skipped>`` is SKIPPED, or XFAIL where pytest says so; ctest's
    ``status="notrun"`` and ``"disabled"`` are SKIPPED too. Several documents may follow one another, with text around
    them. A test that is reported twice has the later status, but FAILED where only one of the two is a failure. A
    document that is malformed, or declares entities, gives nothing.
    """
    found: dict[str, str] = {}
    for document in _documents(text):
        for case in document.iter("testcase"):
            name = _name(case)
            if name:
                found[name] = combine(found.get(name), _status(case))
    return found


def _documents(text: str) -> Iterator[ElementTree.Element]:
    """Each ``<testsuites>`` (or ``<testsuite>`` outside of one) that can be read."""
    at, malformed = 0, 0
    while malformed < _MAX_MALFORMED and (start := _SUITES.search(text, at)) is not None:
        closing = f"</{start[1]}>"
        first, last = text.find(closing, start.end()), text.rfind(closing)
        if first < 0:  # it has no end, or none of its own: <testsuite ... />
            at = start.end()
            malformed += 1
            continue
        element = _element(text[start.start() : first + len(closing)])
        at = first + len(closing)
        if element is None:
            malformed += 1
            if last > first:  # suites within suites: the first end tag was that of an inner one
                element = _element(text[start.start() : last + len(closing)])
                at = last + len(closing) if element is not None else at
        if element is not None:
            yield element


def _element(source: str) -> ElementTree.Element | None:
    """An element; entities cannot be declared within one, so that none can blow up."""
    try:
        return ElementTree.fromstring(source)
    except (ElementTree.ParseError, ValueError, RecursionError):  # ValueError: a NUL or a lone surrogate in the text
        return None


def _name(case: ElementTree.Element) -> str:
    owner, name = case.get("classname", ""), case.get("name", "")
    return f"{owner}::{name}" if owner else name


def _status(case: ElementTree.Element) -> str:
    remarks = {child.tag: child for child in case if child.tag in _REMARKS}
    if "failure" in remarks:
        return FAILED
    if "error" in remarks:
        return ERROR
    if "skipped" in remarks:
        return XFAIL if remarks["skipped"].get("type") == "pytest.xfail" else SKIPPED
    return {"notrun": SKIPPED, "disabled": SKIPPED, "fail": FAILED}.get(case.get("status", ""), PASSED)
