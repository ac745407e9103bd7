"""The conformance suite for sandbox providers: what :mod:`swe_sdk.sandbox.contract` promises, tried for real.

In a test suite of pytest, one test item a check::

    from swe_sdk.testing.provider_suite import ProviderSuite

    class TestMyProvider(ProviderSuite):
        def make_provider(self) -> SandboxProvider:
            return MyProvider()

Anywhere else::

    report = await run_provider_suite(MyProvider())
    print(report)

A check that needs a capability which the provider does not claim, or a tool which is not in its boxes, is *not
applicable* (skipped, in pytest) and says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.testing.check import Check
from swe_sdk.testing.checks import PROVIDER_CHECKS
from swe_sdk.testing.expect import NotApplicable
from swe_sdk.testing.lab import ProviderFactory, ProviderSettings
from swe_sdk.testing.report import CheckResult, SuiteReport
from swe_sdk.testing.session import Session

__all__ = [
    "PROVIDER_CHECKS",
    "CheckResult",
    "ProviderSettings",
    "ProviderSuite",
    "SuiteReport",
    "provider_checks",
    "run_provider_suite",
]


def provider_checks(select: Iterable[str] = ()) -> tuple[Check, ...]:
    """The checks of these topics (``"exec"``) or ids (``"exec/standard_input_is_empty"``); all of them by default.

    Raises ``ValueError`` for a name that selects nothing.
    """
    names = set(select)
    unknown = names - {check.topic for check in PROVIDER_CHECKS} - {check.id for check in PROVIDER_CHECKS}
    if unknown:
        raise ValueError(f"no check or topic is named {', '.join(sorted(unknown))}")
    return tuple(check for check in PROVIDER_CHECKS if not names or names & {check.topic, check.id})


async def run_provider_suite(
    provider: SandboxProvider,
    *,
    settings: ProviderSettings | None = None,
    select: Iterable[str] = (),
    fresh: ProviderFactory | None = None,
    on_result: Callable[[CheckResult], None] | None = None,
) -> SuiteReport:
    """Make the checks one after the other, and report.

    ``select`` names topics or checks. ``fresh`` makes further providers, for the checks of what a provider leaves
    behind. ``on_result`` is called after each check, for progress. The provider is not closed. Nothing that the
    provider does is raised: it is in the report.
    """
    session = Session(provider, settings, fresh=fresh)
    results: list[CheckResult] = []
    for check in provider_checks(select):
        results.append(await session.result(check))
        if on_result:
            on_result(results[-1])
    return SuiteReport(subject=provider.name, results=tuple(results))


class ProviderSuite:
    """Base class of a pytest class: one item a check, all on one provider and one event loop.

    Override :meth:`make_provider`, and :attr:`settings` where the boxes need an image or the machine is slow.
    """

    settings: ClassVar[ProviderSettings] = ProviderSettings()
    select: ClassVar[tuple[str, ...]] = ()
    """Topics or checks to make; all by default."""
    _runner: ClassVar[asyncio.Runner]
    _session: ClassVar[Session]

    def make_provider(self) -> SandboxProvider:
        """A new provider; it is closed after the last check."""
        raise NotImplementedError("override make_provider() to return the provider under test")

    @classmethod
    def setup_class(cls) -> None:
        """Start the event loop and make the provider."""
        cls._runner = asyncio.Runner()

        async def start() -> Session:
            return Session(cls().make_provider(), cls.settings, fresh=lambda: cls().make_provider())

        cls._session = cls._runner.run(start())

    @classmethod
    def teardown_class(cls) -> None:
        """Close the provider and the loop."""
        with cls._runner:
            cls._runner.run(_close(cls._session.provider))

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Called by pytest: one item a check."""
        if "check" in metafunc.fixturenames:
            checks = provider_checks(self.select)
            metafunc.parametrize("check", checks, ids=[check.id for check in checks])

    def test_provider(self, check: Check) -> None:
        """Make one check."""
        import pytest

        try:
            self._runner.run(self._session.perform(check))
        except NotApplicable as reason:
            pytest.skip(f"not applicable: {reason}")


async def _close(provider: SandboxProvider) -> None:
    await provider.aclose()
