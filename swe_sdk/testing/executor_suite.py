"""The conformance suite for executors: what :mod:`swe_sdk.executors.contract` promises, tried for real.

You say how your executor is made, and how its workers die::

    class MyCase(ExecutorCase):
        def make(self):
            return MyExecutor(workers=2)

        async def kill_node(self, node):
            subprocess.run(["my-engine", "kill", node.node])

In a test suite of pytest, one test item a check::

    class TestMyExecutor(ExecutorSuite):
        def make_case(self):
            return MyCase()

Anywhere else::

    print(await run_executor_suite(MyCase()))

Sandboxes in these checks are those of the embedded provider.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import anyio

from swe_sdk.testing.executor_checks import EXECUTOR_CHECKS, ExecutorCheck
from swe_sdk.testing.executor_lab import ExecutorCase, ExecutorLab
from swe_sdk.testing.expect import NotApplicable, describe
from swe_sdk.testing.report import CheckOutcome, CheckResult, SuiteReport

__all__ = [
    "EXECUTOR_CHECKS",
    "ExecutorCase",
    "ExecutorCheck",
    "ExecutorSuite",
    "executor_checks",
    "run_executor_suite",
]
_LIMIT_S = 300.0


def executor_checks(select: Iterable[str] = ()) -> tuple[ExecutorCheck, ...]:
    """The checks of these names; all of them by default. Raises ``ValueError`` for a name that selects nothing."""
    names = set(select)
    unknown = names - {check.name for check in EXECUTOR_CHECKS}
    if unknown:
        raise ValueError(f"no check is named {', '.join(sorted(unknown))}")
    return tuple(check for check in EXECUTOR_CHECKS if not names or check.name in names)


async def run_executor_suite(
    case: ExecutorCase,
    *,
    select: Iterable[str] = (),
    on_result: Callable[[CheckResult], None] | None = None,
) -> SuiteReport:
    """Make the checks one after the other, and report. Nothing that the executor does is raised."""
    results: list[CheckResult] = []
    for check in executor_checks(select):
        begin = anyio.current_time()
        outcome, message = await _outcome(check, case)
        took_s = anyio.current_time() - begin
        result = CheckResult(topic="executor", name=check.name, outcome=outcome, message=message, duration_s=took_s)
        results.append(result)
        if on_result:
            on_result(result)
    return SuiteReport(subject=type(case).__name__, results=tuple(results))


async def _outcome(check: ExecutorCheck, case: ExecutorCase) -> tuple[CheckOutcome, str]:
    try:
        await _perform(check, case)
    except NotApplicable as reason:
        return "not_applicable", str(reason)
    except Exception as error:  # noqa: BLE001  # whatever an executor under test raises is a finding of the suite
        return _told(error)
    return "passed", ""


def _told(error: Exception) -> tuple[CheckOutcome, str]:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return ("not_applicable", str(error)) if isinstance(error, NotApplicable) else ("failed", describe(error))


async def _perform(check: ExecutorCheck, case: ExecutorCase) -> None:
    with tempfile.TemporaryDirectory(prefix="swe-sdk-check-") as scratch:
        with anyio.fail_after(_LIMIT_S):
            await check.run(ExecutorLab(case, Path(scratch)))


class ExecutorSuite:
    """Base class of a pytest class: one item a check. Override :meth:`make_case`."""

    select: ClassVar[tuple[str, ...]] = ()
    """Checks to make; all by default."""

    def make_case(self) -> ExecutorCase:
        """The executor under test, and how to hurt it."""
        raise NotImplementedError("override make_case() to return the case under test")

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Called by pytest: one item a check."""
        if "check" in metafunc.fixturenames:
            checks = executor_checks(self.select)
            metafunc.parametrize("check", checks, ids=[check.name for check in checks])

    def test_executor(self, check: ExecutorCheck) -> None:
        """Make one check."""
        import pytest

        outcome, message = asyncio.run(_outcome(check, self.make_case()))
        if outcome == "not_applicable":
            pytest.skip(f"not applicable: {message}")
        if outcome == "failed":
            pytest.fail(message)
