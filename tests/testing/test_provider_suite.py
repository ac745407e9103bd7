"""The suite itself: it selects, reports, times out, and never passes what it did not check."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from swe_sdk.errors import CreateFailed
from swe_sdk.testing.check import check as register
from swe_sdk.testing.fake import Command, FakeProvider, Fault, MemoryBox, Reply
from swe_sdk.testing.lab import Lab
from swe_sdk.testing.provider_suite import (
    PROVIDER_CHECKS,
    CheckResult,
    ProviderSettings,
    provider_checks,
    run_provider_suite,
)
from swe_sdk.testing.session import Session

pytestmark = pytest.mark.anyio
CLOSES = "lifecycle/a_closed_box_is_stopped"
PAUSES = "pause/the_status_tells_a_pause"
SEPARATES = "exec/standard_error_is_kept_apart"


def echo(command: Command, box: MemoryBox) -> Reply:
    """Answers every probe for a tool with yes."""
    return b""


def test_there_are_enough_checks_and_each_says_why() -> None:
    assert len(PROVIDER_CHECKS) >= 60
    assert len({check.id for check in PROVIDER_CHECKS}) == len(PROVIDER_CHECKS)
    topics = {check.topic for check in PROVIDER_CHECKS}
    assert topics >= {"exec", "output", "environment", "files", "timeouts", "background", "snapshots", "pause"}
    assert topics >= {"lifecycle", "isolation", "network"}
    assert all(len(check.about) > 20 for check in PROVIDER_CHECKS)


def test_checks_are_selected_by_topic_and_by_id() -> None:
    assert {check.topic for check in provider_checks(["pause"])} == {"pause"}
    assert [check.id for check in provider_checks([CLOSES])] == [CLOSES]
    assert len(provider_checks()) == len(PROVIDER_CHECKS)
    with pytest.raises(ValueError, match="no check or topic is named nothing"):
        provider_checks(["nothing", "exec"])


def test_a_check_without_a_reason_is_refused() -> None:
    async def unexplained(lab: Lab) -> None: ...

    with pytest.raises(TypeError, match="must say what has to hold"):
        register()(unexplained)


async def test_a_report_tells_all_three_outcomes() -> None:
    provider, seen = FakeProvider(), list[CheckResult]()
    report = await run_provider_suite(provider, select=[CLOSES, PAUSES, SEPARATES], on_result=seen.append)
    assert tuple(seen) == report.results
    assert [result.id for result in report.passed] == [CLOSES]
    assert [result.id for result in report.failed] == [SEPARATES]
    assert [(result.id, result.message) for result in report.not_applicable] == [(PAUSES, "the provider lacks pause")]
    assert not report.ok
    text = str(report)
    assert re.search(rf"^ok   {CLOSES} \(\d\.\d\d s\)$", text, re.MULTILINE)
    assert re.search(rf"^FAIL {SEPARATES} .*\n       standard output: wanted b'out", text, re.MULTILINE)
    assert re.search(rf"^n/a  {PAUSES} .*\n       the provider lacks pause$", text, re.MULTILINE)
    assert "fake: 1 passed, 1 failed, 1 not applicable" in text


async def test_nothing_that_a_provider_raises_escapes() -> None:
    faults = [Fault("create", nth=1, error=CreateFailed("no room")), Fault("create", nth=2, error=ZeroDivisionError)]
    report = await run_provider_suite(FakeProvider(faults=faults), select=[CLOSES, SEPARATES])
    assert [result.message for result in report.results] == ["CreateFailed: no room", "ZeroDivisionError: "]


async def test_a_report_in_which_nothing_passed_is_not_ok() -> None:
    assert not (await run_provider_suite(FakeProvider(), select=["pause"])).ok


async def test_a_check_ends_at_its_limit() -> None:
    provider = FakeProvider(faults=[Fault("create", error="hang")])
    (check,) = provider_checks([CLOSES])
    result = await Session(provider).result(replace(check, limit_s=0.1))
    assert (result.outcome, result.message) == ("failed", "the check did not end within 0.1 s")


async def test_a_close_that_hangs_fails_the_check() -> None:
    provider = FakeProvider(faults=[Fault("close", nth=None, error="hang")])
    (check,) = provider_checks(["lifecycle/a_new_box_is_running"])
    result = await Session(provider, ProviderSettings(prompt_s=0.1)).result(check)
    assert (result.outcome, result.message) == ("failed", "closing the boxes of this check does not end (within 0.1 s)")


async def test_a_missing_tool_is_not_applicable() -> None:
    def handler(command: Command, box: MemoryBox) -> Reply:
        from swe_sdk.model.exec_result import ExecResult

        return ExecResult(status="exited", exit_code=1)

    report = await run_provider_suite(FakeProvider(handler=handler), select=["network/the_internet_is_refused_at_once"])
    assert [result.message for result in report.not_applicable] == ["no python3 or bash in the box"]


async def test_a_check_of_what_a_provider_leaves_needs_a_factory() -> None:
    select = ["lifecycle/closing_the_provider_closes_its_boxes"]
    (without,) = (await run_provider_suite(FakeProvider(), select=select)).results
    assert (without.outcome, without.message) == ("not_applicable", "needs a factory of providers, not an instance")
    made: list[FakeProvider] = []

    def fresh() -> FakeProvider:
        made.append(FakeProvider())
        return made[-1]

    assert (await run_provider_suite(FakeProvider(), select=select, fresh=fresh)).ok
    assert made
    assert made[0].live == ()


async def test_checks_tidy_up_after_themselves() -> None:
    provider = FakeProvider()
    await run_provider_suite(provider, select=["lifecycle", SEPARATES])
    assert provider.calls["create"] > 20
    assert provider.live == ()


def test_a_third_party_uses_it_in_three_lines(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "from swe_sdk.testing import FakeProvider as MyProvider\n"
        "from swe_sdk.testing.provider_suite import ProviderSuite\n"
        "class TestMine(ProviderSuite):\n"
        f"    select = ({CLOSES!r}, {PAUSES!r}, {SEPARATES!r}, 'lifecycle/closing_the_provider_closes_its_boxes')\n"
        "    def make_provider(self):\n"
        "        return MyProvider()\n"
    )
    command = [sys.executable, "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider", "-W", "error", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert re.search(rf"::TestMine::test_provider\[{re.escape(CLOSES)}\] PASSED", done.stdout), done.stdout
    assert re.search(rf"::TestMine::test_provider\[{re.escape(SEPARATES)}\] FAILED", done.stdout)
    assert "not applicable: the provider lacks pause" in done.stdout
    assert "1 failed, 2 passed, 1 skipped" in done.stdout


def test_it_runs_without_pytest() -> None:
    program = (
        "import sys, anyio; sys.modules['pytest'] = None\n"
        "from swe_sdk.testing import FakeProvider, run_provider_suite\n"
        f"print(anyio.run(lambda: run_provider_suite(FakeProvider(), select=[{CLOSES!r}])))\n"
    )
    done = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True, timeout=60)
    assert "fake: 1 passed, 0 failed, 0 not applicable" in done.stdout, done.stderr
