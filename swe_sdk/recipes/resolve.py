"""From the statuses of a test run to a verdict. Pure.

Behaviour (not code) follows ``get_eval_tests_report`` of swebench 5.0.2, or of 4.1.0 where ``compat`` says so:

* a FAIL_TO_PASS test must be PASSED or XFAIL; a PASS_TO_PASS test may also be SKIPPED;
* 676 expected ids of SWE-bench Verified are cut inside their parameters: an id with more ``[`` than ``]`` that no
  result bears stands for all results that begin with it, if these agree on whether they passed (5.x only);
* ``fail_only`` data sets (runners that name failures alone) fail on an explicit FAILED only;
* 4.1.0 counts a SKIPPED test neither as success nor as failure, and knows no cut ids.

:func:`resolve` is stricter than both in three ways: a task without a FAIL_TO_PASS test is never resolved; a status
outside the official five is no success; and nothing is resolved by a run that reported nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from swe_sdk.model.outcome import MISSING, TestReport
from swe_sdk.model.task import GradingSpec
from swe_sdk.recipes.contract import Resolution

Compat = Literal["5.x", "4.1.0"]
"""The generation of the official harness whose rules hold."""

SUITE_RAN = "(the suite ran)"
"""Stands in for results where a ``fail_only`` run reported no failure and its runner counted the tests that it ran."""

Verdict = Literal["success", "failure", "neither"]
TestsStatus = dict[str, dict[str, list[str]]]
"""``{"FAIL_TO_PASS": {"success": [ids], "failure": [ids]}, "PASS_TO_PASS": ...}`` as in an official report."""

_PASSING = frozenset(("PASSED", "XFAIL"))
_FAILING = frozenset(("FAILED", "ERROR"))
_SHOWN = 3


def resolve(
    spec: GradingSpec, statuses: Mapping[str, str], exit_code: int | None, compat: Compat = "5.x"
) -> Resolution:
    """Whether those statuses resolve the task, with the status of each required test.

    Flags: ``truncated_ids`` (some id was matched by its beginning), ``fail_only`` (a test that is not named counts as
    passed), ``exit_code_mismatch`` (the command failed and no test did: the output does not describe the run).
    """
    run = _Run(spec, {name: status for name, status in statuses.items() if name != SUITE_RAN}, compat)
    contradicted = compat == "5.x" and run.contradicts(exit_code)
    if not spec.fail_to_pass:
        reason = "the task lists no fail_to_pass test, so nothing can show that it is solved"
    elif not statuses:
        reason = "no test result was found in the output"
    elif contradicted:
        reason = f"the test command exited with code {exit_code}, but no test is reported as failed"
    else:
        reason = _sentence(run.shortcomings, len(spec.fail_to_pass) + len(spec.pass_to_pass))
    flags = {
        "truncated_ids": run.has_truncated_ids,
        "fail_only": run.fail_only,
        "exit_code_mismatch": contradicted,
    }
    return Resolution(
        resolved=not reason,
        tests=run.report,
        reason=reason,
        flags=tuple(name for name, raised in flags.items() if raised),
    )


def official_status(spec: GradingSpec, statuses: Mapping[str, str], compat: Compat) -> TestsStatus:
    """The required tests sorted into success and failure as the official report does; some may be in neither."""
    run = _Run(spec, statuses, compat)
    return {
        "FAIL_TO_PASS": _by_verdict((name, run.verdict(name)) for name in spec.fail_to_pass),
        "PASS_TO_PASS": _by_verdict((name, run.verdict(name, regression=True)) for name in spec.pass_to_pass),
    }


def officially_resolved(status: TestsStatus) -> bool:
    """The official verdict: no required test failed. True for empty lists."""
    return not any(tests["failure"] for tests in status.values())


@dataclass(frozen=True)
class _Run:
    """The results of one run, as seen by the rules of one data set and one generation of the harness."""

    spec: GradingSpec
    statuses: Mapping[str, str]
    compat: Compat

    @property
    def fail_only(self) -> bool:
        return self.spec.eval_type == "fail_only"

    @cached_property
    def results(self) -> dict[str, str | None]:
        """For each required id, the id under which its result stands."""
        return {name: self._find(name) for name in self.spec.fail_to_pass + self.spec.pass_to_pass}

    def _find(self, expected: str) -> str | None:
        if expected in self.statuses:
            return expected
        if self.fail_only or self.compat == "4.1.0" or expected.count("[") <= expected.count("]"):
            return None
        candidates = [name for name in self.statuses if name.startswith(expected)]
        agree = len({self.statuses[name] in _PASSING for name in candidates}) == 1
        return candidates[0] if agree else None

    def status(self, required: str) -> str:
        """PASSED for a test that a ``fail_only`` run does not name; else MISSING for one without a result."""
        name = self.results[required]
        if name is None:
            return "PASSED" if self.fail_only else MISSING
        return self.statuses[name]

    def verdict(self, required: str, *, regression: bool = False) -> Verdict:
        """What the test's status says; ``regression`` where it is of PASS_TO_PASS."""
        status = self.status(required)
        if self.fail_only:
            return "failure" if status == "FAILED" else "success"
        if status in _PASSING:
            return "success"
        if status == "SKIPPED":
            return "neither" if self.compat == "4.1.0" else "success" if regression else "failure"
        return "failure" if status in _FAILING or status == MISSING else "neither"

    @property
    def shortcomings(self) -> list[str]:
        """``id STATUS`` of each required test that stands against the verdict."""
        accepted = ("success", "neither") if self.compat == "4.1.0" else ("success",)
        return [
            f"{name} {self.status(name)}"
            for names, regression in ((self.spec.fail_to_pass, False), (self.spec.pass_to_pass, True))
            for name in names
            if self.verdict(name, regression=regression) not in accepted
        ]

    @property
    def report(self) -> TestReport:
        return TestReport(
            fail_to_pass={name: self.status(name) for name in self.spec.fail_to_pass},
            pass_to_pass={name: self.status(name) for name in self.spec.pass_to_pass},
        )

    @property
    def has_truncated_ids(self) -> bool:
        return any(found not in (None, required) for required, found in self.results.items())

    def contradicts(self, exit_code: int | None) -> bool:
        """Whether the command failed while no test did."""
        return exit_code not in (None, 0) and bool(self.statuses) and _FAILING.isdisjoint(self.statuses.values())


def _by_verdict(verdicts: Iterable[tuple[str, Verdict]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"success": [], "failure": []}
    for name, verdict in verdicts:
        if verdict != "neither":
            found[verdict].append(name)
    return found


def _sentence(shortcomings: list[str], required: int) -> str:
    if not shortcomings:
        return ""
    more = f" and {len(shortcomings) - _SHOWN} more" if len(shortcomings) > _SHOWN else ""
    return f"{len(shortcomings)} of {required} required tests did not pass: {', '.join(shortcomings[:_SHOWN])}{more}"
