"""Runs checks on one provider."""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio

from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.testing.check import Check
from swe_sdk.testing.expect import NotApplicable, describe, require
from swe_sdk.testing.lab import Lab, ProviderFactory, ProviderSettings
from swe_sdk.testing.report import CheckOutcome, CheckResult


class Session:
    """One provider under test; each check gets a workplace of its own."""

    def __init__(
        self,
        provider: SandboxProvider,
        settings: ProviderSettings | None = None,
        *,
        fresh: ProviderFactory | None = None,
    ) -> None:
        self.provider = provider
        self.settings = settings or ProviderSettings()
        self._fresh = fresh
        self._tools: dict[str, bool] = {}

    async def perform(self, check: Check) -> None:
        """Make one check; raises ``NotApplicable``, ``CheckFailed``, or whatever the provider raised."""
        with tempfile.TemporaryDirectory(prefix="swe-sdk-check-") as scratch:
            lab = Lab(self.provider, self.settings, Path(scratch), self._fresh)
            try:
                await self._require_applicable(check, lab)
                with anyio.move_on_after(check.limit_s) as scope:
                    await check.run(lab)
                require(not scope.cancelled_caught, f"the check did not end within {check.limit_s:g} s")
            finally:
                await lab.clear()

    async def result(self, check: Check) -> CheckResult:
        """Make one check and say what came of it; raises nothing but cancellation."""
        begin = anyio.current_time()
        outcome, message = await self._outcome(check)
        took_s = anyio.current_time() - begin
        return CheckResult(topic=check.topic, name=check.name, outcome=outcome, message=message, duration_s=took_s)

    async def _outcome(self, check: Check) -> tuple[CheckOutcome, str]:
        try:
            await self.perform(check)
        except NotApplicable as reason:
            return "not_applicable", str(reason)
        except Exception as error:  # noqa: BLE001  whatever a provider under test raises is a finding of the suite
            return "failed", describe(error)
        return "passed", ""

    async def _require_applicable(self, check: Check, lab: Lab) -> None:
        missing = sorted(check.needs - self.provider.capabilities)
        if missing:
            raise NotApplicable(f"the provider lacks {', '.join(missing)}")
        for tool in check.tools:
            if not await self._has(tool, lab):
                raise NotApplicable(f"no {tool.replace('|', ' or ')} in the box")

    async def _has(self, tool: str, lab: Lab) -> bool:
        """Whether one of the alternatives in ``tool`` is in the boxes of this suite."""
        if tool not in self._tools:
            line = " || ".join(f"command -v {name}" for name in tool.split("|"))
            self._tools[tool] = (await lab.run(await lab.box(), line)).ok
        return self._tools[tool]
