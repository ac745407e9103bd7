"""The conformance suite for the hooks of agents and resources servers: saved, restored and released for real.

You say how your hooks are made and used::

    class MyCase(ParticipantCase):
        def make(self):
            return MyHooks(store="/data/my-sessions")

        async def begin(self, hooks, session_id):
            await hooks.write(session_id, "one")

        async def change(self, hooks, session_id):
            await hooks.write(session_id, uuid4().hex)

        async def look(self, hooks, session_id):
            return await hooks.read(session_id)

In a test suite of pytest, one test item a check::

    class TestMyHooks(ParticipantSuite):
        def make_case(self):
            return MyCase()

Anywhere else::

    print(await run_participant_suite(MyCase()))

A check of what is saved is *not applicable* to hooks that save nothing, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import anyio

from swe_sdk.testing.expect import NotApplicable, describe
from swe_sdk.testing.participant_checks import PARTICIPANT_CHECKS, ParticipantCheck
from swe_sdk.testing.participant_lab import ParticipantCase, ParticipantLab
from swe_sdk.testing.report import CheckOutcome, CheckResult, SuiteReport

__all__ = [
    "PARTICIPANT_CHECKS",
    "ParticipantCase",
    "ParticipantCheck",
    "ParticipantSuite",
    "participant_checks",
    "run_participant_suite",
]
_LIMIT_S = 300.0


def participant_checks(select: Iterable[str] = ()) -> tuple[ParticipantCheck, ...]:
    """The checks of these names; all of them by default. Raises ``ValueError`` for a name that selects nothing."""
    names = set(select)
    unknown = names - {check.name for check in PARTICIPANT_CHECKS}
    if unknown:
        raise ValueError(f"no check is named {', '.join(sorted(unknown))}")
    return tuple(check for check in PARTICIPANT_CHECKS if not names or check.name in names)


async def run_participant_suite(
    case: ParticipantCase,
    *,
    select: Iterable[str] = (),
    on_result: Callable[[CheckResult], None] | None = None,
) -> SuiteReport:
    """Make the checks one after the other, and report. Nothing that the hooks do is raised: it is in the report."""
    results: list[CheckResult] = []
    for check in participant_checks(select):
        begin = anyio.current_time()
        outcome, message = await _outcome(check, ParticipantLab(case))
        took_s = anyio.current_time() - begin
        result = CheckResult(topic="participant", name=check.name, outcome=outcome, message=message, duration_s=took_s)
        results.append(result)
        if on_result:
            on_result(result)
    return SuiteReport(subject=type(case).__name__, results=tuple(results))


async def _outcome(check: ParticipantCheck, lab: ParticipantLab) -> tuple[CheckOutcome, str]:
    try:
        with anyio.fail_after(_LIMIT_S):
            await check.run(lab)
    except NotApplicable as reason:
        return "not_applicable", str(reason)
    except Exception as error:  # noqa: BLE001  # whatever hooks under test raise is a finding of the suite
        return "failed", describe(error)
    return "passed", ""


class ParticipantSuite:
    """Base class of a pytest class: one item a check. Override :meth:`make_case`."""

    select: ClassVar[tuple[str, ...]] = ()
    """Checks to make; all by default."""

    def make_case(self) -> ParticipantCase:
        """The hooks under test, and how to use them."""
        raise NotImplementedError("override make_case() to return the case under test")

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Called by pytest: one item a check."""
        if "check" in metafunc.fixturenames:
            checks = participant_checks(self.select)
            metafunc.parametrize("check", checks, ids=[check.name for check in checks])

    def test_participant(self, check: ParticipantCheck) -> None:
        """Make one check."""
        import pytest

        try:
            asyncio.run(check.run(ParticipantLab(self.make_case())))
        except NotApplicable as reason:
            pytest.skip(f"not applicable: {reason}")
