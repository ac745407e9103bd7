"""What a session of pytest says of itself: results as they come, and its summary; nothing that tests print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from swe_sdk.recipes.parsers.status import ERROR, FAILED, PASSED, SKIPPED, XFAIL, combine
from swe_sdk.recipes.parsers.text import plain_lines

_WORDS = {"PASSED": PASSED, "FAILED": FAILED, "ERROR": ERROR, "SKIPPED": SKIPPED, "XFAIL": XFAIL, "XPASS": PASSED}
_HEADING = re.compile(r"={2,} (?P<title>\S.*?) ={2,}")
_START, _SUMMARY = "test session starts", "short test summary info"
_COUNTS = re.compile(r"(?:\d+ \w+, )*(?:\d+ \w+|no tests ran)(?: in .*)?")
_WORD = "|".join(_WORDS)
_RESULT = re.compile(rf"(?P<name>\S+::.*?) (?P<word>{_WORD})(?: \([^()]*\))?(?: +\[ *\d+%\])?")
_OF_WORKER = re.compile(rf"\[gw\d+\](?: \[ *\d+%\])? (?P<word>{_WORD}) (?P<name>\S+::.*)")
_ENTRY = re.compile(rf"(?P<word>{_WORD}) (?P<rest>\S.*)")
_MARKS = re.compile(r"(?P<name>\S+\.\w+) (?P<marks>[.FEsxX]+)(?: +\[ *\d+%\])?")
_BREAK = re.compile(r" - |[\[\]]")
_COUNT = re.compile(r"\[\d+\] ")


def parse_pytest_strict(log: str) -> dict[str, str]:
    """``{node id: status}`` of the one session in a log.

    Read are the lines between its first heading and the next one (``id PASSED [ 10%]``, workers of xdist), and the last
    summary, if nothing but the counts comes after it: sessions within tests end elsewhere. Ids are whole, whatever
    spaces their parameters have; of ``id - message`` the id is read. XPASS is PASSED. A test that is reported twice,
    and once as broken, is FAILED. Where the tests of a file are not named its path stands for all of them, and a file
    that could not be collected is ERROR.
    """
    lines = plain_lines(log)
    headings = [(at, title) for at, line in enumerate(lines) if (title := _title(line)) is not None]
    running = list(_between(lines, headings, _START))
    found: dict[str, str] = {}
    for name, word in (*_results(running), *_summary(lines, headings)):
        found[name] = combine(found.get(name), _WORDS[word])
    return {**_files(running, found), **found}


def _title(line: str) -> str | None:
    heading = _HEADING.fullmatch(line) if line.startswith("==") else None
    return None if heading is None else heading["title"]


def _between(lines: list[str], headings: list[tuple[int, str]], title: str) -> Iterable[str]:
    """The lines below the first heading of that title, up to the next heading."""
    for index, (at, name) in enumerate(headings):
        if name == title:
            return lines[at + 1 : headings[index + 1][0] if index + 1 < len(headings) else len(lines)]
    return ()


def _results(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        result = _RESULT.fullmatch(line.rstrip()) or _OF_WORKER.fullmatch(line.rstrip())
        if result is not None:
            yield result["name"], result["word"]


def _summary(lines: list[str], headings: list[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    last = max((index for index, (_at, title) in enumerate(headings) if title == _SUMMARY), default=None)
    if last is None:
        return
    after = headings[last + 1 :]
    if len(after) > 1 or not all(_COUNTS.fullmatch(title) for _at, title in after):
        return
    for line in lines[headings[last][0] + 1 : after[0][0] if after else len(lines)]:
        entry = _ENTRY.fullmatch(line.rstrip())
        name = "" if entry is None or _COUNT.match(entry["rest"]) else _node_id(entry["rest"])
        if entry is not None and ("::" in name or (name and " " not in name)):
            yield name, entry["word"]


def _node_id(rest: str) -> str:
    """What comes before the message: the first `` - `` that is in no brackets."""
    depth = 0
    for found in _BREAK.finditer(rest):
        depth += {"[": 1, "]": -1}.get(found[0], 0)
        if depth <= 0 and found[0] == " - ":
            return rest[: found.start()].rstrip()
    return rest


def _files(lines: Iterable[str], named: Iterable[str]) -> dict[str, str]:
    """The status of whole files, where only marks tell of their tests."""
    paths = {name.partition("::")[0] for name in named}
    marks = (match for line in lines if (match := _MARKS.fullmatch(line.rstrip())) is not None)
    return {match["name"]: _of_marks(match["marks"]) for match in marks if match["name"] not in paths}


def _of_marks(marks: str) -> str:
    if "F" in marks or "E" in marks:
        return FAILED
    return PASSED if "." in marks or "X" in marks else XFAIL if "x" in marks else SKIPPED
