"""What sympy's own test runner says, file by file."""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import ERROR, FAILED, PASSED, SKIPPED, XFAIL, combine
from swe_sdk.recipes.parsers.text import plain_lines

_VERDICTS = {"ok": PASSED, "F": FAILED, "E": ERROR, "s": SKIPPED, "w": SKIPPED, "f": XFAIL, "X": XFAIL, "T": FAILED}
_OF_FILE = r"(?: +\[(?:OK|FAIL)\])?"
_FILE = re.compile(rf"(?P<path>\S+\.py)\[(?:\d+|\?)\](?: (?P<marks>[.FEsfXwTK]+)(?= |$))?{_OF_FILE}(?P<rest>.*)")
_TEST = re.compile(r"(?P<name>test_\w+)(?: (?P<rest>.*))?")
_VERDICT = re.compile(rf"(?:.*\s)?(?P<word>{'|'.join(_VERDICTS)}){_OF_FILE}")
_HEADING = re.compile(r"_{3,} (?P<path>\S+\.py):(?P<name>\w+) _{3,}")


class _Run:
    """The tests of one run, as its lines come."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._path = ""
        self._open: str | None = None

    def begin(self, path: str, marks: str) -> None:
        """A file: what tells of its tests by marks alone stands for all of them."""
        self.end()
        self._path = path
        self._open = path
        if marks:
            broken = {"F", "E", "T", "K"} & set(marks)
            self._close(FAILED if broken else PASSED if "." in marks else SKIPPED)

    def test(self, name: str) -> None:
        """A test is announced; the file has tests with names then. Behind the files, there are reports alone."""
        if not self._path:
            return
        if self._open != self._path:
            self.end()
        self._open = f"{self._path}:{name}"

    def verdict(self, word: str) -> None:
        """What became of the test that was announced last."""
        if self._open is not None and self._open != self._path:
            self._close(_VERDICTS[word])

    def broke(self, path: str, name: str) -> None:
        """A report at the end tells of a failure."""
        self.report()
        test = f"{path}:{name}"
        self.found[test] = self.found[test] if self.found.get(test) == ERROR else FAILED

    def report(self) -> None:
        """The files are through."""
        self.end()
        self._path = ""

    def end(self) -> None:
        """What was announced and has no verdict broke."""
        if self._open is not None:
            self._close(ERROR)

    def _close(self, status: str) -> None:
        assert self._open is not None
        self.found[self._open] = combine(self.found.get(self._open), status)
        self._open = None


def parse_sympy_strict(log: str) -> dict[str, str]:
    """``{path.py:test: status}``, as the runner names them in its reports.

    Unlike the official parser: tests of one name in two files are two, the last test of a file counts (its line bears
    the file's ``[OK]`` as well), a verdict may follow behind warnings, and a file or test without one is ERROR. ``f``
    and ``X`` are XFAIL: a test that was expected to fail, whatever it did. Files whose tests are not named stand for
    all of them.
    """
    run = _Run()
    for line in plain_lines(log):
        line = line.rstrip()
        if (file := _FILE.fullmatch(line)) is not None:
            run.begin(file["path"], file["marks"] or "")
        elif (heading := _HEADING.fullmatch(line)) is not None:
            run.broke(heading["path"], heading["name"])
        elif line.startswith("____"):
            run.report()
        elif (test := _TEST.fullmatch(line)) is not None:
            run.test(test["name"])
            _read(run, test["rest"] or "")
        else:
            _read(run, line)
    run.end()
    return run.found


def _read(run: _Run, text: str) -> None:
    verdict = _VERDICT.fullmatch(text)
    if verdict is not None:
        run.verdict(verdict["word"])
