"""Karma runs of which only the failures have names: bpmn-js, Chart.js and openlayers (``fail_only`` data sets).

Behaviour (not code) follows ``parse_log_bpmn_js``, ``parse_log_chart_js`` and ``parse_log_openlayers`` of swebench
5.0.2; they take time that grows with the square of the log, or worse, where these take linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from swe_sdk.recipes.parsers.status import FAILED
from swe_sdk.recipes.parsers.text import one_line, rests, without_escapes

_TAIL = "FAILED"
_BPMN_HEADS = (
    re.compile(r"2KPhantomJS\s[\d.]+\s\(Linux\s[\d.]+\)\s"),
    re.compile(r"2KPhantomJS\s[\d.]+\s\(Linux\sx86_64\)\s"),
)
_BPMN_LAST = re.compile(r"HeadlessChrome\s[\d.]+\s\(Linux\s[\d.]+\)\s")
_CHROME = re.compile(r"Chrome\sHeadless\s")
_LINUX = re.compile(r"(?=\s\(Linux\sx86_64\)\s)")
_LINUX_LENGTH = len(" (Linux x86_64) ")
_CHART = re.compile(r"Chrome\s[\d.]+[^\S\r\n]\(")
_CHART_AGENT_END = re.compile(r"\)[^\S\r\n]")
_OPEN_HEADLESS = re.compile(r"Chrome\sHeadless\s[\d.]+\s\(Linux\s\S+\)\s")
_OPEN_CHROME = re.compile(r"Chrome\s[\d.]+\s\(Linux\s\S+\)\s")
_NUMBERED = re.compile(r"^\s{2}\d+\)", re.MULTILINE)
_CASE = re.compile(r"^case\s(.*):\smismatch", re.MULTILINE)


def parse_bpmn_js(log: str) -> dict[str, str]:
    """``browser (system) name FAILED`` lines to ``{name: FAILED}``; a name keeps its last space."""
    if f"{_TAIL}\n" not in log:
        return {}
    names = [name for head in _BPMN_HEADS for name in rests(log, head, _TAIL)]
    names += _after_chrome_headless(log)
    names += rests(log, _BPMN_LAST, _TAIL)
    return dict.fromkeys(names, FAILED)


def parse_chart_js(log: str) -> dict[str, str]:
    """``Chrome version (system) name FAILED`` lines to ``{name: FAILED}``; a name keeps its last space."""
    return dict.fromkeys(_chart_failures(without_escapes(log)), FAILED)


def parse_openlayers(log: str) -> dict[str, str]:
    """Failures of browsers, of numbered reports and of rendering cases to ``{name: FAILED}``, white space made one."""
    names = [*_spaced_failures(log), *rests(log, _OPEN_CHROME, _TAIL), *_numbered(log), *_CASE.findall(log)]
    return dict.fromkeys(map(one_line, names), FAILED)


def _after_chrome_headless(log: str) -> Iterator[str]:
    """What stands between the last ``(Linux x86_64)`` of a line and its ``FAILED``, after ``Chrome Headless``."""
    systems = list(_failed_systems(log))
    starts = [start for start, _ in systems]
    free, line_end = 0, -1
    for head in _CHROME.finditer(log):
        if head.start() < free:
            continue
        if head.end() > line_end:
            line_end = log.find("\n", head.end())
        index = bisect_right(starts, line_end) - 1
        if index >= 0 and starts[index] >= head.end():
            end = systems[index][1]
            yield log[starts[index] + _LINUX_LENGTH : end]
            free = end + len(_TAIL) + 1


def _failed_systems(log: str) -> Iterator[tuple[int, int]]:
    """Each ``(Linux x86_64)`` with a ``FAILED`` at the end of the line after it: where both start."""
    end = -1
    for match in _LINUX.finditer(log):
        begin = match.start() + _LINUX_LENGTH
        if begin > end:
            end = log.find("\n", begin)
        if end < 0:
            return
        if begin <= end - len(_TAIL) and log.startswith(_TAIL, end - len(_TAIL)):
            yield match.start(), end - len(_TAIL)


def _chart_failures(log: str) -> Iterator[str]:
    at, end = 0, -1
    while match := _CHART.search(log, at):
        if match.end() > end:
            end = log.find("\n", match.end())
            end = len(log) if end < 0 else end
        at = match.start() + 1
        if log.startswith(_TAIL, end - len(_TAIL)):
            agent = _CHART_AGENT_END.search(log, match.end() + 1, end - len(_TAIL))
            if agent:
                yield log[agent.end() : end - len(_TAIL)]
            at = end


def _spaced_failures(log: str) -> Iterator[str]:
    """As :func:`rests`, with white space before the tail, which may be the end of the line before."""
    at, end = 0, -1
    while match := _OPEN_HEADLESS.search(log, at):
        start = match.end()
        if start > end:
            end = log.find("\n", start)
        if end < 0:
            return
        at = match.start() + 1
        if log.startswith(f"{_TAIL}\n", end + 1):
            yield log[start:end]
            at = end + len(_TAIL) + 2
        elif start <= end - len(_TAIL) - 1 and log.startswith(_TAIL, end - len(_TAIL)):
            if log[end - len(_TAIL) - 1].isspace():
                yield log[start : end - len(_TAIL) - 1]
                at = end + 1


def _numbered(log: str) -> Iterator[str]:
    """From a number at the left margin to the next ``Error:``."""
    at = 0
    while match := _NUMBERED.search(log, at):
        end = log.find("Error:", match.end())
        if end < 0:
            return
        yield log[match.end() : end]
        at = end + len("Error:")
