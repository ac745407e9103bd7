"""The rule of the families that want every required test PASSED. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from swe_sdk.model.outcome import MISSING, TestReport
from swe_sdk.model.task import GradingSpec
from swe_sdk.recipes.contract import Resolution
from swe_sdk.recipes.parsers.status import FAILING

_SHOWN = 3

LookUp = Callable[[str], str | None]
"""From a required id to the status that stands for it, or None."""


def require_all(
    spec: GradingSpec,
    statuses: Mapping[str, str],
    exit_code: int | None,
    look_up: LookUp | None = None,
    flags: tuple[str, ...] = (),
) -> Resolution:
    """Resolved if each FAIL_TO_PASS and PASS_TO_PASS test is PASSED, and there is at least one of the former.

    ``look_up`` finds the status of a required id; by default the id must be reported exactly so. The flag
    ``exit_code_mismatch`` says that the command failed although no test did.
    """
    found = look_up or statuses.get
    report = TestReport(
        fail_to_pass={name: found(name) or MISSING for name in spec.fail_to_pass},
        pass_to_pass={name: found(name) or MISSING for name in spec.pass_to_pass},
    )
    if not spec.fail_to_pass:
        reason = "the task lists no fail_to_pass test, so nothing can show that it is solved"
    elif not statuses:
        reason = "no test result was found"
    else:
        reason = shortcomings(report)
    if exit_code not in (None, 0) and statuses and FAILING.isdisjoint(statuses.values()):
        flags = (*flags, "exit_code_mismatch")
    return Resolution(resolved=not reason, tests=report, reason=reason, flags=flags)


def shortcomings(report: TestReport) -> str:
    """A sentence about the required tests that did not pass; empty where all did."""
    required = [*report.fail_to_pass.items(), *report.pass_to_pass.items()]
    short = [f"{name} {status}" for name, status in required if status != "PASSED"]
    if not short:
        return ""
    more = f" and {len(short) - _SHOWN} more" if len(short) > _SHOWN else ""
    return f"{len(short)} of {len(required)} required tests did not pass: {', '.join(short[:_SHOWN])}{more}"
