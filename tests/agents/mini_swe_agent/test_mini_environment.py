"""What a command is to mini-swe-agent: the table of its own environments, over our results."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.agents.mini_swe_agent.environment import SENTINEL, output_of, shown, submission_in, submitted_patch
from swe_sdk.errors import SandboxLost
from swe_sdk.model.exec_result import ExecResult

DONE = SENTINEL + b"\n"
DIFF = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-\xe5\r\n+\xc5\r\n"


def result(stdout: bytes = b"", **more: Any) -> ExecResult:
    return ExecResult(**{"status": "exited", "exit_code": 0, "stdout_bytes": stdout, **more})


@pytest.mark.parametrize(
    ("stdout", "exit_code", "submission"),
    [
        (DONE + DIFF, 0, DIFF),
        (b"\n  " + SENTINEL + b"  \r\n" + DIFF, 0, DIFF),
        (SENTINEL, 0, b""),
        (DONE, 0, b""),
        (DONE + DIFF, 1, None),  # a command that failed submits nothing
        (b"x\n" + DONE + DIFF, 0, None),  # only the first line counts
        (SENTINEL + b" not\n", 0, None),
        (b"", 0, None),
    ],
)
def test_the_end_is_told_by_the_first_line(stdout: bytes, exit_code: int, submission: bytes | None) -> None:
    assert submission_in(result(stdout, exit_code=exit_code)) == submission


def test_a_command_that_was_killed_submits_nothing() -> None:
    assert submission_in(result(DONE + DIFF, status="timeout", exit_code=None)) is None


@pytest.mark.parametrize("status", ["timeout", "oom"])
def test_a_killed_command_is_an_exception_to_it(status: str) -> None:
    output = output_of(result(b"so far", status=status, exit_code=None, duration_s=3.0), "box")
    assert output.message["returncode"] == -1
    assert output.message["output"] == "so far"
    assert str(output.message["exception_info"]).startswith("An error occurred while executing the command: it ")


def test_a_box_that_died_is_no_output() -> None:
    with pytest.raises(SandboxLost, match="box-1"):
        output_of(result(status="lost", exit_code=None), "box-1")


def test_a_failing_command_is_an_ordinary_output() -> None:
    assert output_of(result(b"no\n", exit_code=2), "box").message == {
        "output": "no\n",
        "returncode": 2,
        "exception_info": "",
    }


def test_a_submission_is_a_patch_of_the_same_bytes() -> None:
    patch = submitted_patch(DIFF)
    assert patch is not None
    assert patch.data == DIFF


@pytest.mark.parametrize(("submission", "dropped"), [(b"", 0), (b"I am done.\n", 0), (b"\n", 0), (DIFF, 10)])
def test_without_a_whole_patch_the_tree_counts(submission: bytes, dropped: int) -> None:
    assert submitted_patch(submission, dropped_bytes=dropped) is None


@given(st.binary(max_size=200_000), st.integers(0, 10**9))
def test_what_is_shown_is_bounded_and_counts_what_it_leaves_out(output: bytes, dropped: int) -> None:
    text = shown(output, dropped)
    if not dropped and len(output) <= 64 << 10:
        assert text == output.decode("utf-8", "replace")
    else:
        assert len(text) <= (64 << 10) + 100
        assert "bytes left out" in text
