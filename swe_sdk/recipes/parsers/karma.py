"""Results of karma's spec reporter, as preact uses it.

Behaviour (not code) follows ``parse_log_karma`` of swebench 5.0.2, with one difference: where more suites end than
began the official parser stops with an IndexError, which makes the log ungradable; this one goes on without a suite.
"""

from __future__ import annotations

from swe_sdk.recipes.parsers.ids import IdBudget
from swe_sdk.recipes.parsers.status import FAILED, PASSED

_MARKS = {"✔": PASSED, "✖": FAILED}


def parse_karma(log: str) -> dict[str, str]:
    """From the start of the browser to ``SUMMARY:``: ``✔ name`` and ``✖ name`` to ``{suites > name: status}``.

    A less indented suite ends one suite, however many levels it goes up, and opens none; ids keep this.
    """
    found: dict[str, str] = {}
    budget, depth, started = IdBudget(log), -1, False
    suites = [""]  # for each open suite the beginning of its tests' ids
    for line in log.split("\n"):
        if line.startswith("SUMMARY:") or budget.spent:
            break
        if "Starting browser" in line:
            started = True
            continue
        if not started:
            continue
        text = line.lstrip()
        status, indent = _MARKS.get(text[:1]), len(line) - len(text) - 1
        if status and text[1:2].isspace():
            name = budget.join(suites[-1], "", text[2:])
            if name is not None:
                found[name] = status
        elif indent > 0:
            if indent > depth and (inner := budget.join(suites[-1], text, " > ")) is not None:
                suites.append(inner)
            elif indent < depth and len(suites) > 1:
                suites.pop()
            depth = indent
    return found
