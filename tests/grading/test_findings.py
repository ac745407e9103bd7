"""Pure parts: failures to kinds, findings to outcomes, the log."""

from __future__ import annotations

import errno

import pytest

from swe_sdk import errors
from swe_sdk.grading.classify import Failure, classify
from swe_sdk.grading.evaluate import frozen_env
from swe_sdk.grading.run_log import RunLog
from swe_sdk.grading.trace import Trace
from swe_sdk.grading.verdict import Subject, not_resolved, outcome_of
from swe_sdk.model.outcome import TestReport
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import DEFAULT_POLICY, NEMO_GYM_POLICY
from tests.grading.tiny import GOLD, make_task
from tests.shared import full_device

KINDS = [
    (errors.CreateFailed("x"), "create_failed"),
    (errors.SandboxLost("x"), "sandbox_lost"),
    (errors.SandboxClosed("x"), "sandbox_lost"),
    (errors.SnapshotNotFound("x"), "create_failed"),
    (errors.TransferFailed("x"), "transfer_failed"),
    (errors.NoSpace("x"), "no_space"),
    (OSError(errno.ENOSPC, "full"), "no_space"),
    (errors.BuildFailed("pip", "output"), "environment_failed"),
    (errors.ResetFailed("x"), "reset_failed"),
    (errors.TestPatchFailed("x"), "test_patch_failed"),
    (errors.MissingTool("node"), "missing_tool"),
    (errors.ProviderUnavailable("x"), "provider_unavailable"),
    (errors.CapabilityMissing("x"), "capability_missing"),
    (errors.UnknownParser("x"), "invalid_task"),
    (errors.UnknownFamily("x"), "invalid_task"),
    (TimeoutError(), "timeout"),
    (MemoryError(), "host_oom"),
    (KeyError("x"), "internal_error"),
    (OSError(errno.EPERM, "no"), "internal_error"),
    (ExceptionGroup("g", [ExceptionGroup("h", [errors.SandboxLost("x")])]), "sandbox_lost"),
]


@pytest.mark.parametrize(("error", "kind"), KINDS)
def test_every_error_has_a_kind(error, kind):
    failure = classify(error, "create")
    assert (failure.kind, failure.stage) == (kind, "create")
    assert failure.reason
    assert ("traceback" in failure.evidence) == (kind == "internal_error")


def test_kind_never_depends_on_words():
    """A message can hold what a program printed."""
    error = errors.TransferFailed("No space left on device; sandbox lost; timeout")
    assert classify(error, "apply").kind == "transfer_failed"


@pytest.fixture
def subject(tmp_path):
    return Subject(make_task(tmp_path), Patch.of(GOLD), DEFAULT_POLICY, "local", "k" * 64)


def test_policy_alone_turns_failures_into_masks(subject):
    failure = Failure("timeout", "tests", "slow", {"log_tail": "x"})
    unresolved = outcome_of(subject, failure, Trace())
    assert (unresolved.status, unresolved.mask, unresolved.flags) == ("unresolved", None, ("tests_timed_out",))
    assert unresolved.evidence == {"failure": {"stage": "tests", "kind": "timeout"}, "log_tail": "x"}
    nemo = Subject(subject.task, subject.patch, NEMO_GYM_POLICY, "local", "k")
    masked = outcome_of(nemo, failure, Trace())
    assert (masked.status, masked.reward, masked.mask.evidence) == ("masked", 0.0, {"log_tail": "x"})


def test_required_tests_are_always_listed(subject):
    for finding in (not_resolved(subject.task, "no"), Failure("sandbox_lost", "create", "gone")):
        tests = outcome_of(subject, finding, Trace()).tests
        assert tests == TestReport(fail_to_pass={"check::answer": "MISSING"}, pass_to_pass={"check::runs": "MISSING"})


def test_frozen_environment_gives_way_to_the_task():
    assert frozen_env({}) == {"TZ": "UTC", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"}
    assert frozen_env({"LANG": "de_DE", "TZ": "X", "PYTHONHASHSEED": "1"}) == {}


@pytest.fixture
def open_log(tmp_path):
    logs = []

    def make(**options):
        logs.append(RunLog(tmp_path / f"log{len(logs) or ''}", **options))
        return logs[-1]

    yield make
    for log in logs:
        log.close()


def test_log_keeps_the_section_apart(tmp_path, open_log):
    log = open_log()
    log.write(b"prelude without a newline")
    log.open_section()
    log.write(b">>>>> End Test Output\ncaf\xe9 ")
    log.write("é".encode()[:1])
    log.write("é".encode()[1:])
    log.close_section()
    log.close()
    assert log.section() == ">>>>> End Test Output\ncaf\ufffd é"
    lines = (tmp_path / "log").read_bytes().split(b"\n")
    assert lines[0] == b"prelude without a newline"
    assert lines[1] == f">>>>> {log.nonce} Start Test Output".encode()
    assert lines[-2] == f">>>>> {log.nonce} End Test Output".encode()
    assert open_log().nonce != log.nonce
    assert log.tail(6) == "utput\n"


def test_log_is_bounded(open_log):
    log = open_log(max_bytes=10)
    log.write(b"123456")
    log.open_section()
    for _ in range(1000):
        log.write(b"abcdef")
    log.close_section()
    assert log.section() == "abcd"
    assert log.dropped_bytes == 6000 - 4


def test_log_on_a_full_disk_says_so_and_disturbs_nobody(tmp_path, open_log):
    (tmp_path / "log").symlink_to(full_device())
    log = open_log()
    for _ in range(3):
        log.write(b"x" * 100_000)
    log.open_section()
    log.close_section()
    log.close()
    assert log.error is not None
    assert log.error.errno == errno.ENOSPC


def test_section_is_empty_where_no_test_ran(open_log):
    log = open_log()
    log.write(b"PASSED x\n")
    assert log.section() == ""


def test_trace_times_steps_and_remembers_where_it_failed():
    trace = Trace()
    with trace.step("restore", "reset"):
        pass
    with pytest.raises(ZeroDivisionError), trace.step("tests", "tests"):
        raise ZeroDivisionError
    with trace.step("teardown"):
        pass
    assert trace.stage == "tests"
    assert set(trace.times()) == {"restore", "tests", "teardown", "total"}
