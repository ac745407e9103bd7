"""Who fills the disk of a grade has failed by that, and has not earned a mask."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_sdk.cli import _parser
from swe_sdk.errors import InputError
from swe_sdk.grading.settings import DEFAULT_DISK_MIB, GradeSettings
from swe_sdk.grading.verify import grade
from swe_sdk.model.patch import Patch
from swe_sdk.sandbox.contract import Limits
from tests.grading.faulty import FaultyProvider
from tests.grading.tiny import GOLD, WRONG, diff, make_task

pytestmark = pytest.mark.anyio
CLAIM = "echo 'PASSED check::runs'; echo 'PASSED check::answer'\n"
FILL = "for i in $(seq 200); do head -c 1000000 /dev/zero > /tmp/fill$i || exit 1; done\n"
STAY = f"(setsid sh -c '{FILL.strip()}; sleep 30' > /dev/null 2>&1 &)\n"
RUN = {"run.sh": "sh tests/check.sh\n"}


def submission(code: bytes, script: str) -> Patch:
    return Patch.of(code + diff(RUN, {"run.sh": script}))


@pytest.mark.parametrize("code", [GOLD, WRONG], ids=["gold", "wrong"])
async def test_tests_that_write_too_much_are_unresolved(provider, tmp_path: Path, code: bytes) -> None:
    """Whatever they have printed before."""
    task = make_task(tmp_path / "repo", files=RUN, test_command="sh run.sh")
    outcome = await grade(task, submission(code, CLAIM + FILL + "sleep 20\n"), provider=provider, disk_mib=32)
    assert outcome.status == "unresolved", outcome.evidence
    assert outcome.evidence["failure"]["kind"] == "disk_limit"
    assert "more than 32 MiB" in outcome.reason
    assert "disk_mib" in outcome.reason


async def test_a_process_in_the_background_is_its_own_doing_too(provider, tmp_path: Path) -> None:
    task = make_task(tmp_path / "repo", files=RUN, test_command="sh run.sh")
    outcome = await grade(task, submission(WRONG, STAY + "sleep 20\n" + CLAIM), provider=provider, disk_mib=32)
    assert (outcome.status, outcome.evidence["failure"]["kind"]) == ("unresolved", "disk_limit")


@pytest.mark.parametrize("filler", [FILL, STAY + "sleep 3\n"], ids=["itself", "in the background"])
async def test_in_the_preparation_it_is_no_misfortune_either(provider, tmp_path: Path, filler: str) -> None:
    """A prelude that runs code of the submission, as installing the package does."""
    task = make_task(tmp_path / "repo", files=RUN, prelude="sh run.sh")
    outcome = await grade(task, submission(WRONG, filler), provider=provider, disk_mib=32, retries=0)
    assert outcome.status == "unresolved", (outcome.reason, outcome.evidence)
    honest = await grade(task, submission(GOLD, "true\n"), provider=provider, disk_mib=32)
    assert honest.resolved


async def test_what_stays_below_it_is_let_be(provider, tmp_path: Path) -> None:
    task = make_task(tmp_path / "repo", files=RUN, test_command="sh run.sh")
    honest = submission(GOLD, "head -c 20000000 /dev/zero > big; sh tests/check.sh\n")
    assert (await grade(task, honest, provider=provider, disk_mib=64)).resolved


async def test_every_box_of_a_grade_has_the_limit(provider, tmp_path: Path) -> None:
    made: list[Limits] = []

    class Seen(FaultyProvider):
        async def create(self, spec):
            made.append(spec.limits)
            return await super().create(spec)

    seen = Seen(provider.state)
    task = make_task(tmp_path / "repo", files=RUN, test_command="sh run.sh")
    await grade(task, submission(GOLD, "# a comment\nsh tests/check.sh\n"), provider=seen)
    assert made[-2:] == [Limits(disk_mib=DEFAULT_DISK_MIB)] * 2, "of the second run too"
    await grade(task, GOLD, provider=seen, disk_mib=None)
    assert made[-1] == Limits()
    await seen.aclose()


@pytest.mark.parametrize("command", [["grade", "mini"], ["validate", "mini"], ["regrade", "a-run"]])
def test_the_command_line_has_the_same_default(command: list[str]) -> None:
    assert _parser().parse_args(command).disk_mib == DEFAULT_DISK_MIB
    assert _parser().parse_args([*command, "--disk-mib", "0"]).disk_mib == 0


def test_the_setting_is_checked() -> None:
    assert GradeSettings().disk_mib == DEFAULT_DISK_MIB
    with pytest.raises(InputError, match="disk_mib"):
        GradeSettings.of(tests_timeout_s=1, attempt_timeout_s=None, disk_mib=0)
