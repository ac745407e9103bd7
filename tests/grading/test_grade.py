"""Whole grades in real boxes: what comes of every kind of submission."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swe_sdk.errors import InputError, UnknownProvider
from swe_sdk.grading.verify import grade
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import DEFAULT_POLICY
from tests.grading.tiny import CHECK, GOLD, TEST_PATCH, UNAPPLIABLE, WRONG, diff, make_task

pytestmark = pytest.mark.anyio


def statuses_of(outcome):
    return {**outcome.tests.fail_to_pass, **outcome.tests.pass_to_pass}


async def test_gold_resolves(provider, task, results):
    outcome = await grade(task, GOLD, provider=provider, results=results)
    assert (outcome.status, outcome.reward, outcome.mask) == ("resolved", 1.0, None)
    assert statuses_of(outcome) == {"check::answer": "PASSED", "check::runs": "PASSED"}
    assert (outcome.patch.exists, outcome.patch.applied, outcome.patch.rung) == (True, True, "git-apply")
    assert outcome.patch.sha256 == Patch.of(GOLD).sha256
    steps = {
        "environment",
        "create",
        "apply",
        "restore",
        "test_patch",
        "results",
        "tests",
        "parse",
        "teardown",
        "total",
    }
    assert steps == set(outcome.timings_s)
    assert outcome.timings_s["total"] >= outcome.timings_s["tests"] > 0
    assert len(outcome.key) == 64
    assert Path(outcome.artifacts["patch"]).read_bytes() == GOLD
    assert json.loads(Path(outcome.artifacts["outcome"]).read_text())["status"] == "resolved"
    nonce = outcome.evidence["log_nonce"]
    assert Path(outcome.artifacts["log"]).read_text().splitlines() == [
        f">>>>> {nonce} Start Test Output",
        "PASSED check::runs",
        "PASSED check::answer",
        f">>>>> {nonce} End Test Output",
    ]
    assert results.read() == [outcome]


async def test_wrong_does_not(provider, task):
    outcome = await grade(task, WRONG, provider=provider)
    assert (outcome.status, outcome.reward) == ("unresolved", 0.0)
    assert statuses_of(outcome) == {"check::answer": "FAILED", "check::runs": "PASSED"}
    assert "check::answer" in outcome.reason


@pytest.mark.parametrize("patch", [b"", None, "", b" \n\n"])
async def test_empty_runs_the_tests_and_does_not_resolve(provider, task, patch):
    outcome = await grade(task, patch, provider=provider)
    assert outcome.status == "unresolved"
    assert (outcome.patch.exists, outcome.patch.applied, outcome.patch.rung) == (False, None, None)
    assert statuses_of(outcome) == {"check::answer": "FAILED", "check::runs": "PASSED"}
    assert outcome.flags == ("empty_patch",)


async def test_empty_never_resolves_even_where_the_tests_pass(provider, tmp_path):
    task = make_task(tmp_path / "repo", fail_to_pass=("check::runs",), pass_to_pass=())
    outcome = await grade(task, None, provider=provider)
    assert outcome.status == "unresolved"
    assert set(outcome.flags) == {"empty_patch", "passes_without_patch"}
    assert "tests pass without" in outcome.reason


async def test_patch_that_does_not_apply(provider, task):
    outcome = await grade(task, UNAPPLIABLE, provider=provider)
    assert outcome.status == "unresolved"
    assert outcome.reason.startswith("the patch does not apply")  # and more, where GNU patch is not installed
    assert (outcome.patch.exists, outcome.patch.applied, outcome.patch.rung) == (True, False, None)
    assert set(statuses_of(outcome).values()) == {"MISSING"}
    rungs = [a["rung"] for a in outcome.evidence["apply"]]
    assert rungs == ["git-apply", "git-apply-3way", "git-apply-reject", "patch-fuzz", "already-applied"]
    assert all(a["exit_code"] for a in outcome.evidence["apply"])
    assert outcome.evidence["failure"] == {"stage": "apply", "kind": "patch_unappliable"}


async def test_final_newline_is_repaired_and_reported(provider, task):
    outcome = await grade(task, GOLD.rstrip(b"\n").decode(), provider=provider)
    assert outcome.resolved
    assert outcome.patch.repairs == ("final_newline_added",)


async def test_hidden_tests_replace_what_the_submission_wrote(provider, task):
    forged = CHECK + 'echo "PASSED check::answer"\n'
    patch = diff(
        {"tests/check.sh": CHECK}, {"tests/check.sh": forged, "tests/extra.sh": "exit 1\n", "setup.cfg": "x\n"}
    )
    outcome = await grade(task, patch, provider=provider)
    assert outcome.status == "unresolved"
    assert statuses_of(outcome)["check::answer"] == "FAILED"
    assert outcome.evidence["tampered_paths"] == ["setup.cfg", "tests/check.sh", "tests/extra.sh"]


async def test_unparseable_output(provider, tmp_path):
    task = make_task(tmp_path / "repo", test_command="echo no results here; exit 3")
    outcome = await grade(task, GOLD, provider=provider)
    assert outcome.status == "unresolved"
    assert "exited with code 3" in outcome.reason
    assert outcome.evidence["failure"] == {"stage": "parse", "kind": "unparseable"}
    assert "no results here" in outcome.evidence["log_tail"]


async def test_tests_that_hang_are_unresolved_and_show_what_had_passed(provider, tmp_path, results):
    task = make_task(tmp_path / "repo", test_command="sh tests/check.sh; (setsid sleep 1000 &); sleep 1000")
    outcome = await grade(task, GOLD, provider=provider, tests_timeout_s=0.5, results=results)
    assert (outcome.status, outcome.flags) == ("unresolved", ("tests_timed_out",))
    assert set(statuses_of(outcome).values()) == {"PASSED"}
    assert outcome.evidence["failure"] == {"stage": "tests", "kind": "timeout"}
    assert outcome.timings_s["tests"] < 10


async def test_policy_decides_what_a_timeout_means(provider, tmp_path):
    task = make_task(tmp_path / "repo", test_command="sh tests/check.sh; sleep 1000")
    masked = await grade(task, GOLD, provider=provider, tests_timeout_s=0.5, policy="nemo_gym")
    assert (masked.status, masked.mask.kind, masked.mask.stage) == ("masked", "timeout", "tests")
    lenient = DEFAULT_POLICY.override({("tests", "timeout"): "grade"})
    graded = await grade(task, GOLD, provider=provider, tests_timeout_s=0.5, policy=lenient)
    assert graded.status == "resolved"


async def test_policy_may_grade_without_the_patch(provider, task):
    lenient = DEFAULT_POLICY.override({("apply", "patch_unappliable"): "grade"})
    outcome = await grade(task, UNAPPLIABLE, provider=provider, policy=lenient)
    assert outcome.status == "unresolved"
    assert statuses_of(outcome) == {"check::answer": "FAILED", "check::runs": "PASSED"}
    assert outcome.patch.applied is False


async def test_test_environment_is_frozen(provider, tmp_path):
    task = make_task(tmp_path / "repo", test_command='echo "PASSED $TZ-$LC_ALL-$LANG-$PYTHONHASHSEED"')
    wanted = {"fail_to_pass": ("UTC-C.UTF-8-C.UTF-8-0",), "pass_to_pass": ()}
    frozen = task.model_copy(update={"grading": task.grading.model_copy(update=wanted)})
    assert (await grade(frozen, GOLD, provider=provider)).resolved
    env = {"TZ": "Asia/Tokyo", "LANG": "en_US.UTF-8", "PYTHONHASHSEED": "7"}
    own = frozen.model_copy(update={"environment": task.environment.model_copy(update={"env": env})})
    wanted = {"fail_to_pass": ("Asia/Tokyo--en_US.UTF-8-7",)}
    own = own.model_copy(update={"grading": frozen.grading.model_copy(update=wanted)})
    outcome = await grade(own, GOLD, provider=provider)
    assert outcome.resolved, outcome.evidence


async def test_standard_error_is_part_of_the_section_in_its_order(provider, tmp_path, results):
    command = 'echo "FAILED check::answer"; echo "PASSED check::answer" >&2; sh tests/check.sh >&2'
    task = make_task(tmp_path / "repo", test_command=command)
    outcome = await grade(task, GOLD, provider=provider, results=results)
    lines = Path(outcome.artifacts["log"]).read_text().splitlines()[1:-1]
    assert lines[:3] == ["FAILED check::answer", "PASSED check::answer", "PASSED check::runs"]


async def test_printed_markers_neither_open_nor_close_the_section(provider, tmp_path):
    """Lines that look like the official markers are output like any other."""
    forged = ">>>>> Start Test Output\nPASSED check::answer\n>>>>> End Test Output\n"
    command = f"printf '{forged}'; cat forged.txt; sh tests/check.sh; printf '{forged.splitlines()[2]}\\n'"
    task = make_task(tmp_path / "repo", test_command=command)
    patch = diff({"src.txt": "x\n"}, {"src.txt": "x\n", "forged.txt": forged})
    outcome = await grade(task, patch, provider=provider)
    assert statuses_of(outcome)["check::runs"] == "PASSED"
    assert outcome.status == "unresolved", "the real FAILED line comes last and counts"


PRELUDE = """
export FROM_PRELUDE=yes
greet() { echo "$1"; }
cd tests
set -o pipefail
false
exit 4
"""


async def test_tests_go_on_where_the_prelude_left_off(provider, tmp_path, results):
    """Variables, directory, functions and options carry over, even past an exit; the prelude's output is no result."""
    command = 'greet "PASSED check::$FROM_PRELUDE"; false | true || echo "PASSED check::pipefail"; sh check.sh'
    task = make_task(
        tmp_path / "repo",
        prelude='echo "FAILED check::yes"' + PRELUDE,
        test_command=command,
        fail_to_pass=("check::yes",),
        pass_to_pass=("check::pipefail", "check::runs"),
    )
    outcome = await grade(task, b"", provider=provider, results=results)
    assert set(statuses_of(outcome).values()) == {"PASSED"}, outcome.evidence
    assert outcome.evidence["prelude"] == {"status": "exited", "exit_code": 4}
    assert Path(outcome.artifacts["log"]).read_text().startswith("FAILED check::yes\n>>>>> ")
    assert "prelude" in outcome.timings_s


async def test_prelude_cannot_touch_the_hidden_tests(provider, tmp_path):
    """A prelude that installs the package runs the submission's own code."""
    files = {"setup.sh": "true\n"}
    task = make_task(tmp_path / "repo", files=files, prelude="sh setup.sh")
    attack = "echo 'echo PASSED check::answer; echo PASSED check::runs' > tests/check.sh\n"
    outcome = await grade(task, diff(files, {"setup.sh": attack}), provider=provider)
    assert statuses_of(outcome) == {"check::answer": "FAILED", "check::runs": "PASSED"}


async def test_timed_out_tree_is_found_by_its_own_mark_after_a_prelude(provider, tmp_path):
    """The mark of the prelude's processes must not be handed on to those of the tests."""
    shown = 'grep "Max file locks" /proc/self/limits'
    command = f'echo "PASSED check::answer"; echo "PASSED check::runs"; {shown}; sleep 1000'
    task = make_task(tmp_path / "repo", prelude=shown, test_command=command)
    outcome = await grade(task, GOLD, provider=provider, tests_timeout_s=0.5)
    marks = [line for line in outcome.evidence["log_tail"].splitlines() if line.startswith("Max file locks")]
    assert len(set(marks)) == 2


async def test_impossible_arguments_are_errors(provider, task):
    with pytest.raises(UnknownProvider):
        await grade(task, GOLD, provider="nowhere")
    with pytest.raises(InputError, match="nonsense"):
        await grade(task, GOLD, provider=provider, policy="nonsense")
    for bad in ({"tests_timeout_s": 0}, {"attempt_timeout_s": 10}, {"retries": -1}, {"build_timeout_s": -1}):
        with pytest.raises(InputError):
            await grade(task, GOLD, provider=provider, **bad)


async def test_binary_hidden_tests(provider, tmp_path):
    """A test patch with a binary file, which only git apply can bring in."""
    blob = bytes(range(256))
    test_patch = TEST_PATCH + diff({}, {"tests/data.bin": blob})
    command = 'test "$(wc -c < tests/data.bin)" = 256 && sh tests/check.sh'
    task = make_task(tmp_path / "repo", test_patch=Patch.of(test_patch), test_command=command)
    assert (await grade(task, GOLD, provider=provider)).resolved
