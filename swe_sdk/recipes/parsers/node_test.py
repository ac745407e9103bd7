"""Results of Node's own test runner: ``node --test --test-reporter=tap``.

A strict parser of our own, made from the output of node 18, 20, 22 and 24. A result is a point (``ok 1 - name`` or
``not ok ...``) whose ``# Subtest: name`` stands before it at the same depth, so that lines which tests print are not
taken for results unless they imitate both. What stands in a point's YAML block is never read as a result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from swe_sdk.recipes.parsers.status import ERROR, FAILED, PASSED, SKIPPED, XFAIL, combine

_STEP = 4
_LINE = re.compile(
    r"( *)(?:# Subtest: (?P<name>.*)|(?P<not>not )?ok \d+ - (?P<point>.*?)(?: # (?P<directive>SKIP|TODO)\b.*)?)"
)
_ESCAPED = re.compile(r"\\([\\#])")
_FILE = re.compile(r"(?:/|file://|[A-Za-z]:\\).*\.[cm]?[jt]s")

Names = tuple[str, ...]


def parse_node_test(log: str) -> dict[str, str]:
    """Each test to its status; the id is the names from the outermost suite inwards, joined by `` > ``.

    * A suite (``type: 'suite'``, or a test with subtests) is left out, unless it failed though nothing in it did: then
      it is FAILED under its own name. A test file that could not be loaded is reported in this way, by its path.
    * ``# SKIP`` is SKIPPED. ``# TODO`` is XFAIL if it failed and SKIPPED if not: node counts neither as a pass, and a
      todo without a body prints ``ok`` too. A skipped test that fails all the same is FAILED, as it is for node.
    * Tests of one name: the last status wins, but FAILED if only one of them is a failure.
    * Node 18.13 and the versions after it print each file as outermost suite; it is left out of the ids, as later
      versions leave it out. Before 18.13 a file is one test: its tests stand in its YAML block, and only if one fails.
    * Where the run was cut off: a test that was announced last and has no result is ERROR; one whose YAML block is not
      complete is left out, for it may be a suite.
    """
    reader = _Reader()
    for line in log.replace("\r\n", "\n").split("\n"):
        reader.read(line)
    return reader.finish()


@dataclass(slots=True)
class _Open:
    """A test or suite that was announced; what is known of it before its own point."""

    indent: int
    name: str
    has_children: bool = False
    child_failed: bool = False


class _Point(NamedTuple):
    """The result line of ``test``, whose YAML block may follow; the block may say of which type it is."""

    test: _Open
    names: Names
    status: str

    @property
    def margin(self) -> str:
        return " " * (self.test.indent + 2)


@dataclass(slots=True)
class _Reader:
    stack: list[_Open] = field(default_factory=list)
    point: _Point | None = None
    in_block: bool = False
    kind: str = ""
    found: dict[Names, str] = field(default_factory=dict)
    only_files: bool = True
    """Whether all that stands at the outermost level is named like a file and not declared a suite."""

    def read(self, line: str) -> None:
        if self.point is not None and self._in_point(self.point, line):
            return
        if "# Subtest: " in line or "ok " in line:
            match = _LINE.fullmatch(line)
            if match:
                self._structure(match)

    def finish(self) -> dict[str, str]:
        """The results by id, once all lines were read."""
        if self.point is None and self.stack and not self.stack[-1].has_children:
            self._record(self._names(), ERROR)
        found: dict[str, str] = {}
        for names, status in self.found.items():
            name = " > ".join(map(_unescape, names[1:] if self.only_files and len(names) > 1 else names))
            found[name] = combine(found.get(name), status)
        return found

    def _in_point(self, point: _Point, line: str) -> bool:
        """Whether the line belongs to the last point; closes the point where it ends."""
        if not self.in_block:
            self.in_block = line == f"{point.margin}---"
            if not self.in_block:
                self._close_point()
            return self.in_block
        inside = line.startswith(point.margin) or not line.strip()
        if line.startswith(f"{point.margin}type: "):
            self.kind = line[len(point.margin) + len("type: ") :].strip("'\"")
        if not inside or line == f"{point.margin}...":
            self._close_point()
        return inside

    def _structure(self, match: re.Match[str]) -> None:
        indent = len(match[1])
        while self.stack and self.stack[-1].indent > indent:
            self.stack.pop()
        if match["name"] is not None:
            self._announce(indent, match["name"])
        elif self.stack and (self.stack[-1].indent, self.stack[-1].name) == (indent, match["point"]):
            self._result(match)

    def _announce(self, indent: int, name: str) -> None:
        if self.stack and self.stack[-1].indent == indent:
            self.stack.pop()
        if indent == (self.stack[-1].indent + _STEP if self.stack else 0):
            self.stack.append(_Open(indent, name))
            self.only_files &= indent > 0 or _FILE.fullmatch(name) is not None

    def _result(self, match: re.Match[str]) -> None:
        names = self._names()
        test = self.stack.pop()
        self.point = _Point(test, names, _status(match["not"] is None, match["directive"]))
        self.in_block, self.kind = False, ""

    def _close_point(self) -> None:
        point, self.point = self.point, None
        if point is None:
            return
        test = point.test
        suite = test.has_children or self.kind == "suite"
        if not suite or (point.status == FAILED and not test.child_failed):
            self._record(point.names, point.status)
        if self.stack:
            self.stack[-1].has_children = True
            self.stack[-1].child_failed |= test.child_failed or point.status == FAILED
        self.only_files &= test.indent > 0 or not self.kind

    def _names(self) -> Names:
        return tuple(test.name for test in self.stack)

    def _record(self, names: Names, status: str) -> None:
        self.found[names] = combine(self.found.get(names), status)


def _status(passed: bool, directive: str | None) -> str:
    if directive == "TODO":
        return SKIPPED if passed else XFAIL
    if not passed:
        return FAILED
    return SKIPPED if directive == "SKIP" else PASSED


def _unescape(name: str) -> str:
    return _ESCAPED.sub(r"\1", name)
