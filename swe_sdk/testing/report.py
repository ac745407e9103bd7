"""What came of a conformance suite: one result a check, and a report that shows itself."""

from __future__ import annotations

from typing import Literal

from swe_sdk.model.record import Record

CheckOutcome = Literal["passed", "failed", "not_applicable"]


class CheckResult(Record):
    """What came of one check; ``message`` says why where it did not pass."""

    topic: str
    name: str
    outcome: CheckOutcome
    message: str = ""
    duration_s: float = 0.0

    @property
    def id(self) -> str:
        """``topic/name``, as in the test ids of pytest."""
        return f"{self.topic}/{self.name}"

    def __str__(self) -> str:
        line = f"{_MARKS[self.outcome]} {self.id} ({self.duration_s:.2f} s)"
        return f"{line}\n{_indented(self.message)}" if self.message else line


class SuiteReport(Record):
    """All results of one suite on one subject; ``str()`` of it is a table for people."""

    subject: str
    results: tuple[CheckResult, ...]

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """The checks that failed."""
        return self._of("failed")

    @property
    def passed(self) -> tuple[CheckResult, ...]:
        """The checks that passed."""
        return self._of("passed")

    @property
    def not_applicable(self) -> tuple[CheckResult, ...]:
        """The checks that could not be made: a capability or a tool is missing."""
        return self._of("not_applicable")

    @property
    def ok(self) -> bool:
        """Whether something passed and nothing failed."""
        return bool(self.passed) and not self.failed

    @property
    def duration_s(self) -> float:
        """Seconds that all checks took together."""
        return sum(result.duration_s for result in self.results)

    @property
    def summary(self) -> str:
        """The counts, in one line."""
        return (
            f"{self.subject}: {len(self.passed)} passed, {len(self.failed)} failed, "
            f"{len(self.not_applicable)} not applicable, in {self.duration_s:.1f} s"
        )

    def __str__(self) -> str:
        return "\n".join([*(str(result) for result in self.results), self.summary])

    def _of(self, outcome: CheckOutcome) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.results if result.outcome == outcome)


_MARKS: dict[CheckOutcome, str] = {"passed": "ok  ", "failed": "FAIL", "not_applicable": "n/a "}


def _indented(text: str) -> str:
    return "\n".join(f"       {line}" for line in text.splitlines())
