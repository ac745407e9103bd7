"""Infrastructure trouble becomes a mask, at whatever stage; what the submission causes never does."""

from __future__ import annotations

import anyio
import pytest

from swe_sdk.errors import CreateFailed, NoSpace, SandboxLost, TransferFailed
from swe_sdk.grading.job import fresh_box
from swe_sdk.grading.settings import GradeSettings
from swe_sdk.grading.verify import grade
from swe_sdk.model.environment import ImageEnvironment
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import DEFAULT_POLICY
from tests.grading.faulty import hangs, raises
from tests.grading.tiny import GOLD, TEST_PATCH, UNAPPLIABLE, change, diff, make_task

pytestmark = pytest.mark.anyio

PRELUDE = {"setup.sh": "true\n"}
FAULTS = [
    ("create", CreateFailed("no"), "create", "create_failed", True),
    ("create", NoSpace("full"), "create", "no_space", True),
    ("create", RuntimeError("a bug"), "create", "internal_error", False),
    ("write", TransferFailed("no"), "create", "transfer_failed", True),
    ("exec", SandboxLost("gone"), "apply", "sandbox_lost", True),
    ("exec", ExceptionGroup("several", [SandboxLost("gone")]), "apply", "sandbox_lost", True),
]


@pytest.mark.parametrize(("where", "error", "stage", "kind", "retryable"), FAULTS)
async def test_errors_of_the_provider_mask(faulty, task, where, error, stage, kind, retryable):
    provider = faulty({where: raises(error)})
    outcome = await grade(task, GOLD, provider=provider, retries=2)
    assert (outcome.status, outcome.reward) == ("masked", 0.0)
    assert (outcome.mask.stage, outcome.mask.kind, outcome.mask.retryable) == (stage, kind, retryable)
    assert provider.creates == (3 if retryable else 1)
    assert len(outcome.evidence.get("earlier_attempts", [])) == provider.creates - 1
    if kind == "internal_error":
        assert "a bug" in outcome.mask.evidence["traceback"]


async def test_a_retry_in_a_fresh_box_may_succeed(faulty, task, results):
    provider = faulty({"create": raises(CreateFailed("no"), times=1)})
    outcome = await grade(task, GOLD, provider=provider, results=results)
    assert outcome.resolved
    assert [a["kind"] for a in outcome.evidence["earlier_attempts"]] == ["create_failed"]
    assert results.read() == [outcome]


async def test_masks_are_not_shared_with_later_calls(faulty, task):
    provider = faulty({"create": raises(CreateFailed("no"), times=1)})
    first = await grade(task, GOLD, provider=provider, retries=0, reuse=True)
    second = await grade(task, GOLD, provider=provider, retries=0, reuse=True)
    assert (first.status, second.status) == ("masked", "resolved")


async def test_lost_box_masks_whatever_the_program_printed(faulty, task):
    def lose_tests(command):
        return ExecResult(status="lost") if str(command[-1]).endswith("tests.sh") else None

    outcome = await grade(task, GOLD, provider=faulty(on_exec=lose_tests))
    assert (outcome.mask.stage, outcome.mask.kind) == ("tests", "sandbox_lost")
    assert outcome.patch.applied is True


async def test_box_beyond_its_own_memory_limit_is_the_submissions_doing(faulty, task):
    def oom(command):
        return ExecResult(status="oom") if str(command[-1]).endswith("tests.sh") else None

    outcome = await grade(task, GOLD, provider=faulty(on_exec=oom))
    assert outcome.status == "unresolved", outcome.mask
    assert outcome.evidence["failure"] == {"stage": "tests", "kind": "memory_limit"}
    strict = DEFAULT_POLICY.override({("tests", "memory_limit"): "masked"})
    outcome = await grade(task, GOLD, provider=faulty(on_exec=oom), policy=strict)
    assert (outcome.mask.stage, outcome.mask.kind) == ("tests", "memory_limit")


@pytest.mark.parametrize(("where", "stage"), [("create", "create"), ("exec", "apply")])
async def test_everything_ends_by_the_deadline(faulty, task, where, stage):
    provider = faulty({where: hangs()})
    with anyio.fail_after(10):
        outcome = await grade(
            task, GOLD, provider=provider, tests_timeout_s=1, attempt_timeout_s=1.5, retries=1, share=False
        )
    assert (outcome.mask.stage, outcome.mask.kind) == (stage, "timeout")
    assert outcome.evidence["earlier_attempts"][0]["kind"] == "timeout"


async def test_hanging_teardown_has_a_cap_and_changes_no_verdict(faulty, task, monkeypatch):
    monkeypatch.setattr("swe_sdk.grading.job.TEARDOWN_CAP_S", 0.2)
    provider = faulty({"close": hangs()})
    with anyio.fail_after(10):
        outcome = await grade(task, GOLD, provider=provider)
    assert (outcome.status, outcome.flags) == ("resolved", ("teardown_failed",))
    assert "not gone after" in outcome.evidence["teardown"]


async def test_failing_teardown_changes_no_verdict(faulty, task):
    outcome = await grade(task, GOLD, provider=faulty({"close": raises(SandboxLost("gone"))}))
    assert (outcome.status, outcome.flags) == ("resolved", ("teardown_failed",))


async def test_hidden_tests_that_never_apply_mask(provider, task):
    """With or without the submission: the task is broken, and the control run says so."""
    broken = task.grading.model_copy(update={"test_patch": Patch.of(UNAPPLIABLE + TEST_PATCH)})
    broken_task = task.model_copy(update={"grading": broken})
    for patch in (GOLD, b""):
        outcome = await grade(broken_task, patch, provider=provider)
        assert (outcome.mask.stage, outcome.mask.kind, outcome.mask.retryable) == (
            "test_patch",
            "test_patch_failed",
            False,
        )
    outcome = await grade(broken_task, GOLD, provider=provider)
    assert outcome.evidence["control"]["failed"] is True


async def test_submission_that_keeps_hidden_tests_out_is_unresolved(provider, tmp_path):
    """The control run in a fresh box without the patch succeeds, so it was the patch."""
    task = make_task(tmp_path / "repo", files=PRELUDE, prelude="sh setup.sh")
    locking = diff(PRELUDE, {"setup.sh": "chmod 555 tests\n"})
    outcome = await grade(task, locking, provider=provider)
    assert outcome.status == "unresolved", outcome.mask
    assert outcome.reason == "the patch keeps the hidden tests from being installed"
    assert outcome.evidence["control"] == {"failed": False}
    assert outcome.evidence["failure"]["stage"] == "test_patch"


@pytest.mark.parametrize("attribute", ["working-tree-encoding=UTF-16", "working-tree-encoding=NO-SUCH", "eol=crlf"])
async def test_git_attributes_of_the_submission_forge_nothing(provider, task, attribute):
    outcome = await grade(task, diff({}, {".gitattributes": f"tests/* text {attribute}\n"}), provider=provider)
    assert outcome.status == "unresolved", outcome.mask


async def test_submission_that_hangs_the_prelude_is_unresolved(provider, tmp_path):
    task = make_task(tmp_path / "repo", files=PRELUDE, prelude="sh setup.sh")
    hanging = diff(PRELUDE, {"setup.sh": "sleep 1000\n"})
    outcome = await grade(task, hanging, provider=provider, tests_timeout_s=20, attempt_timeout_s=23.5)
    assert outcome.status == "unresolved", outcome.mask
    assert "set-up commands" in outcome.reason
    assert outcome.evidence["failure"]["stage"] == "prelude"


async def test_prelude_that_always_hangs_masks(provider, tmp_path):
    task = make_task(tmp_path / "repo", prelude="sleep 1000")
    outcome = await grade(task, GOLD, provider=provider, tests_timeout_s=20, attempt_timeout_s=23.5, retries=0)
    assert (outcome.mask.stage, outcome.mask.kind) == ("prelude", "timeout")


async def test_broken_base_masks(provider, task, monkeypatch):
    from swe_sdk.grading import verify

    prepare = verify.prepare

    async def with_wrong_base(*args, **kwargs):
        return (await prepare(*args, **kwargs)).model_copy(update={"base_commit": "0" * 40})

    monkeypatch.setattr(verify, "prepare", with_wrong_base)
    outcome = await grade(task, GOLD, provider=provider)
    assert (outcome.mask.stage, outcome.mask.kind) == ("reset", "reset_failed")


UNGRADABLE = {
    "no required test": ({"fail_to_pass": (), "pass_to_pass": ()}, {}),
    "unknown parser": ({"parser": "parse_log_nonsense"}, {}),
    "unknown family": ({}, {"family": "nonsense"}),
}


@pytest.mark.parametrize("name", UNGRADABLE)
async def test_tasks_that_cannot_be_graded_are_masked_before_anything_runs(faulty, tmp_path, name):
    grading, public = UNGRADABLE[name]
    task = make_task(tmp_path / "repo", **grading).model_copy(update=public)
    provider = faulty()
    for patch in (GOLD, b""):
        outcome = await grade(task, patch, provider=provider)
        assert (outcome.mask.stage, outcome.mask.kind) == ("admission", "invalid_task")
    assert provider.creates == 0


async def test_environment_failures_mask(faulty, tmp_path):
    provider = faulty()
    task = make_task(tmp_path / "repo")
    environment = task.environment.model_copy(update={"install": ("echo broken by design; exit 7",)})
    outcome = await grade(task.model_copy(update={"environment": environment}), GOLD, provider=provider)
    assert (outcome.mask.stage, outcome.mask.kind) == ("environment", "environment_failed")
    assert "broken by design" in outcome.mask.evidence["output"]
    missing = task.environment.model_copy(update={"tools": ("no-such-tool-anywhere",)})
    outcome = await grade(task.model_copy(update={"environment": missing}), GOLD, provider=provider)
    assert (outcome.mask.stage, outcome.mask.kind) == ("environment", "missing_tool")
    assert outcome.mask.evidence["remedy"]
    image = task.model_copy(update={"environment": ImageEnvironment(image="busybox:latest")})
    outcome = await grade(image, GOLD, provider=provider)
    assert outcome.masked
    assert outcome.mask.kind in ("capability_missing", "create_failed")


async def test_slow_build_has_its_own_deadline(provider, task):
    environment = task.environment.model_copy(update={"install": ("sleep 1000",)})
    slow = task.model_copy(update={"environment": environment})
    outcome = await grade(slow, GOLD, provider=provider, build_timeout_s=1.0, retries=0)
    assert (outcome.mask.stage, outcome.mask.kind) == ("environment", "timeout")


async def test_provider_that_does_not_work_masks(task, monkeypatch):
    from swe_sdk.errors import ProviderUnavailable
    from swe_sdk.grading import verify

    async def unavailable(_provider):
        raise ProviderUnavailable("no namespaces here", remedy="use docker")

    monkeypatch.setattr(verify, "get_provider", unavailable)
    outcome = await grade(task, GOLD)
    assert (outcome.mask.stage, outcome.mask.kind) == ("admission", "provider_unavailable")
    assert outcome.mask.evidence["remedy"] == "use docker"


async def test_unexpected_exit_codes_of_the_program_are_no_infrastructure(provider, tmp_path):
    """126, 127, 137 and the daemon's own words are data."""
    for ending in ("exit 126", "exit 127", "kill -9 $$", "echo 'Error response from daemon: gone' >&2; exit 125"):
        task = make_task(tmp_path / "repo", test_command=f"sh tests/check.sh; {ending}")
        outcome = await grade(task, change("src.txt", "line 1\n", "line one\n"), provider=provider)
        assert outcome.status == "unresolved", (ending, outcome.mask)


async def test_blocks_that_raise_close_their_box(faulty, task):
    """fresh_box is the only place that makes boxes: whatever happens in it, the box goes."""
    from swe_sdk.grading.trace import Trace

    provider = faulty()

    class FakeJob:
        settings = GradeSettings()

    job = FakeJob()
    job.provider = provider
    from swe_sdk.sandbox.environments import prepare

    job.prepared = await prepare(provider, task.environment)
    with pytest.raises(ZeroDivisionError):
        async with fresh_box(job, Trace()):
            raise ZeroDivisionError
    assert provider.live == 0
