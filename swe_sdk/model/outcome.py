"""What a patch is worth, or why that could not be measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field, model_validator

from swe_sdk.model.policy import FailureKind, Stage
from swe_sdk.model.record import Record
from swe_sdk.shown import Shown, one_line

Status = Literal["resolved", "unresolved", "masked"]
TestStatus = Literal["PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "MISSING"]
MISSING = "MISSING"
"""The status of a required test that the run did not report."""


class Mask(Shown, Record):
    """Why an outcome is not a measurement. Decided on facts found outside the graded program."""

    kind: FailureKind
    stage: Stage
    reason: str
    retryable: bool = False
    evidence: dict[str, Any] = Field(default_factory=dict)


class TestReport(Record):
    """The status of every required test, by its exact id."""

    __test__ = False  # the name starts with "Test": keep pytest from collecting it

    fail_to_pass: dict[str, str] = Field(default_factory=dict)
    pass_to_pass: dict[str, str] = Field(default_factory=dict)


class PatchReport(Record):
    """What became of the patch: ``applied`` is None where it was not tried, ``rung`` the command that took it."""

    exists: bool
    applied: bool | None = None
    rung: str | None = None
    sha256: str
    repairs: tuple[str, ...] = ()


class Outcome(Shown, Record):
    """One graded patch: resolved, unresolved or masked.

    ``reward`` is never null: 1.0 if resolved, else 0.0. Leave masked outcomes out of every mean: their 0.0 is no
    measurement. ``flags`` names what a reader should know (``truncated_ids``, ``tests_timed_out``, ...), ``evidence``
    holds the facts behind the verdict, ``artifacts`` the files that were kept (log, patch).
    """

    instance_id: str
    family: str
    status: Status
    reward: float
    mask: Mask | None = None
    tests: TestReport = TestReport()
    patch: PatchReport
    reason: str = ""
    flags: tuple[str, ...] = ()
    evidence: dict[str, Any] = Field(default_factory=dict)
    timings_s: dict[str, float] = Field(default_factory=dict)
    artifacts: dict[str, str] = Field(default_factory=dict)
    provider: str = ""
    key: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Outcome:
        if (self.status == "masked") != (self.mask is not None):
            raise ValueError("an outcome has a mask if and only if it is masked")
        if self.reward != (1.0 if self.status == "resolved" else 0.0):
            raise ValueError("reward is 1.0 if resolved, else 0.0")
        return self

    @property
    def resolved(self) -> bool:
        """Whether the patch solved the task."""
        return self.status == "resolved"

    @property
    def masked(self) -> bool:
        """Whether this is an infrastructure failure and not a measurement."""
        return self.status == "masked"

    @property
    def counts(self) -> str:
        """Passed of required, for each list: ``F2P 1/1  P2P 9/10``."""
        parts = []
        for label, tests in (("F2P", self.tests.fail_to_pass), ("P2P", self.tests.pass_to_pass)):
            passed = sum(status in ("PASSED", "XFAIL") for status in tests.values())
            parts.append(f"{label} {passed}/{len(tests)}")
        return "  ".join(parts)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:  # the whole of it is model_dump()'s to show
        yield None, one_line(self.instance_id)
        yield None, self.status
        yield "reward", self.reward
        if self.mask is None:
            yield "tests", self.counts
        else:
            yield "mask", f"{self.mask.kind} in {self.mask.stage}"
        if self.reason:
            yield "reason", one_line(self.reason, 300)
