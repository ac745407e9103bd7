"""Results of alibaba-fusion/next: karma up to version 1.26, cypress in version 1.27.

Behaviour (not code) follows ``parse_log_next`` of swebench 5.0.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from swe_sdk.recipes.parsers.ids import IdBudget
from swe_sdk.recipes.parsers.status import FAILED, PASSED
from swe_sdk.recipes.parsers.suites import Suites
from swe_sdk.recipes.parsers.text import without_escapes

_COMMAND, _STARTED = " xvfb-run ", "Starting browser Chrome"
_NO_SUITE = ("ERROR", "LOG", "WARN", "Check", "in")
_ASSERTION = re.compile(r"AssertionError:\s+#")
_SPEC, _SPEC_END = "Running:", ")\n\n\n"
_FAILURE = re.compile(r"^\s{4}\d+\)\s(.*)", re.MULTILINE)
_SUCCESS = re.compile(r"^\s{4}✓\s(.*)\(", re.MULTILINE)


def parse_next_karma(log: str) -> dict[str, str]:
    """After the start of each browser: ``✓ name`` and ``✗ name`` to ``{suites - name: status}``."""
    found: dict[str, str] = {}
    suites = Suites(IdBudget(log), " - ")
    for run in _without_assertions(without_escapes(log)).split(_COMMAND)[1:]:
        for line in run.rpartition(_STARTED)[2].split("\n"):
            if line.startswith("TOTAL"):
                break
            if line.lstrip().startswith(_NO_SUITE):
                continue
            mark = "✗" if "✗" in line else "✓"
            if mark not in line:
                suites.enter(line)
            elif (name := suites.name(line.partition(mark)[2].lstrip())) is not None:
                found[name] = FAILED if mark == "✗" else PASSED
    return found


def parse_next_cypress(log: str) -> dict[str, str]:
    """``{spec: test: status}``, of each spec its failures before its passes."""
    found: dict[str, str] = {}
    budget = IdBudget(log)
    for spec, text in _specs(log):
        for pattern, status in ((_FAILURE, FAILED), (_SUCCESS, PASSED)):
            for test in pattern.findall(text):
                name = budget.join(spec, ": ", test.strip())
                if name is not None:
                    found[name] = status
    return found


def _without_assertions(log: str) -> str:
    """The log without its assertion messages, each of which goes up to an empty line."""
    kept, at = [], 0
    while match := _ASSERTION.search(log, at):
        end = log.find("\n\n", match.end())
        if end < 0:
            break
        kept.append(log[at : match.start()])
        at = end + 2
    return "".join((*kept, log[at:]))


def _specs(log: str) -> Iterator[tuple[str, str]]:
    """Each spec's name, and the text from there to the next spec."""
    headings = list(_headings(log))
    ends = [start for start, _, _ in headings[1:]] + [len(log)]
    for (_, text_start, name), end in zip(headings, ends, strict=False):  # no heading: one end
        yield name, log[text_start:end]


def _headings(log: str) -> Iterator[tuple[int, int, str]]:
    """``Running: ... )``, two empty lines and ``  name``: where it starts, where the text after it does, the name."""
    free = 0
    at = log.find(_SPEC_END)
    while at >= 0:
        start = log.find(_SPEC, max(free, log.rfind("\n", 0, at) + 1), at)
        name = at + len(_SPEC_END) + 2
        end = log.find("\n", name)
        if start >= 0 and end >= 0 and log[name - 2 : name].isspace():
            yield start, end + 1, log[name:end]
            free = end + 1
        at = log.find(_SPEC_END, max(free, at + 1))
