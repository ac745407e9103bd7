"""Karma runs of which only the failures have names: bpmn-js, Chart.js and openlayers (``fail_only`` data sets).

Behaviour (not code) follows ``parse_log_bpmn_js``, ``parse_log_chart_js`` and ``parse_log_openlayers`` of swebench
5.0.2; they take time that grows with the square of the log, or worse, where these take linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from swe_sdk.recipes.parsers.status import FAILED
from swe_sdk.recipes.parsers.text import line_ends, one_line, without_escapes

_TAIL = "FAILED"
_FAILED = rf"(.*{_TAIL})\n"
_BPMN_HEADS = (
    ("2KPhantomJS", r"\s[\d.]+\s\(Linux\s[\d.]+\)\s"),
    ("2KPhantomJS", r"\s[\d.]+\s\(Linux\sx86_64\)\s"),
    ("HeadlessChrome", r"\s[\d.]+\s\(Linux\s[\d.]+\)\s"),
)
_PHANTOM, _PHANTOM_64, _HEADLESS = (line_ends(word, head, _FAILED) for word, head in _BPMN_HEADS)
_CHROME = re.compile(r"Chrome\sHeadless\s")
_LINUX = re.compile(r"\(Linux\sx86_64\)\s")
_CHART = line_ends("Chrome", r"\s[\d.]+[^\S\r\n]\(", rf"(?=.*{_TAIL}$).+?\)[^\S\r\n](.*{_TAIL})$")
_OPEN_HEADLESS = line_ends("Chrome", r"\sHeadless\s[\d.]+\s\(Linux\s\S+\)\s", rf"(.*\s{_TAIL})\n")
_OPEN_CHROME = line_ends("Chrome", r"\s[\d.]+\s\(Linux\s\S+\)\s", _FAILED)
_NUMBER_FIRST, _NUMBER = re.compile(r"\s{2}\d+\)"), re.compile(r"\n\s{2}\d+\)")
_CASE = re.compile(r"^case\s(.*):\smismatch", re.MULTILINE)


def parse_bpmn_js(log: str) -> dict[str, str]:
    """``browser (system) name FAILED`` lines to ``{name: FAILED}``; a name keeps its last space."""
    if f"{_TAIL}\n" not in log:
        return {}
    phantom = (*_PHANTOM.findall(log), *_PHANTOM_64.findall(log)) if "2KPhantomJS" in log else ()
    names = [*_names(phantom), *_after_chrome_headless(log), *_names(_HEADLESS.findall(log))]
    return dict.fromkeys(names, FAILED)


def parse_chart_js(log: str) -> dict[str, str]:
    """``Chrome version (system) name FAILED`` lines to ``{name: FAILED}``; a name keeps its last space."""
    return dict.fromkeys(_names(_CHART.findall(without_escapes(log))), FAILED)


def parse_openlayers(log: str) -> dict[str, str]:
    """Failures of browsers, of numbered reports and of rendering cases to ``{name: FAILED}``, white space made one."""
    names = [*_names(_OPEN_HEADLESS.findall(log)), *_names(_OPEN_CHROME.findall(log)), *_numbered(log)]
    names += _CASE.findall(log) if "mismatch" in log else ()
    return dict.fromkeys(map(one_line, names), FAILED)


def _names(ends: Iterable[str]) -> list[str]:
    return [end[: -len(_TAIL)] for end in ends if end]


def _after_chrome_headless(log: str) -> Iterator[str]:
    """What stands between the last ``(Linux x86_64)`` of a line and its ``FAILED``, after ``Chrome Headless``."""
    if "x86_64)" not in log:
        return
    systems = list(_failed_systems(log))
    starts = [start for start, _, _ in systems]
    free, line_end = 0, -1
    for head in _CHROME.finditer(log):
        if head.start() < free:
            continue
        if head.end() > line_end:
            line_end = log.find("\n", head.end())
        index = bisect_right(starts, line_end) - 1
        if index >= 0 and starts[index] >= head.end():
            _, begin, end = systems[index]
            yield log[begin:end]
            free = end + len(_TAIL) + 1


def _failed_systems(log: str) -> Iterator[tuple[int, int, int]]:
    """Each `` (Linux x86_64) `` with a ``FAILED`` at its line's end: where it starts and ends, where that starts."""
    end = -1
    for match in _LINUX.finditer(log):
        if match.end() > end:
            end = log.find("\n", match.end())
        if end < 0:
            return
        failed = match.end() <= end - len(_TAIL) and log.startswith(_TAIL, end - len(_TAIL))
        if failed and log[match.start() - 1 : match.start()].isspace():
            yield match.start() - 1, match.end(), end - len(_TAIL)


def _numbered(log: str) -> Iterator[str]:
    """From a number at the left margin to the next ``Error:``."""
    match = _NUMBER_FIRST.match(log) or _NUMBER.search(log)
    while match:
        end = log.find("Error:", match.end())
        if end < 0:
            return
        yield log[match.end() : end]
        match = _NUMBER.search(log, end)
