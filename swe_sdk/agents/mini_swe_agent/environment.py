"""What a command in the box is to mini-swe-agent: its output, or its submission."""

from __future__ import annotations

from typing import NamedTuple

from swe_sdk.errors import SandboxLost
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.patch import Patch

SENTINEL = b"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""What the prompt tells the model to print, on the first line of a command that succeeds, when it is done."""
VARIABLES = {
    "PAGER": "cat",
    "MANPAGER": "cat",
    "LESS": "-R",
    "PIP_PROGRESS_BAR": "off",
    "TQDM_DISABLE": "1",
}
"""Of every command, as in mini-swe-agent's own settings for SWE-bench."""
_SHOWN_BYTES = 64 << 10
"""Of an output: its prompt shows the model 10,000 characters of it at most."""


class Output(NamedTuple):
    """What goes to the agent, and the bytes of its submission where this is one."""

    message: dict[str, object]
    submission: bytes | None = None


def output_of(result: ExecResult, box_id: str) -> Output:
    """The output of a command; ``SandboxLost`` where the box died with it."""
    if result.status == "lost":
        raise SandboxLost(f"box {box_id} died under a command of the agent")
    submission = submission_in(result)
    if submission is not None:
        return Output({"submission": submission.decode("utf-8", "replace")}, submission)
    failed = result.status != "exited"
    return Output(
        {
            "output": shown(result.stdout_bytes, result.stdout_dropped_bytes),
            "returncode": -1 if failed or result.exit_code is None else result.exit_code,
            "exception_info": f"An error occurred while executing the command: it {result.summary}" if failed else "",
        }
    )


def submission_in(result: ExecResult) -> bytes | None:
    """What follows the sentinel, if the command succeeded and its first line is that; else None."""
    if not result.ok:
        return None
    first, _, rest = result.stdout_bytes.lstrip().partition(b"\n")
    return rest if first.strip() == SENTINEL else None


def shown(output: bytes, dropped_bytes: int) -> str:
    """As much of it as is worth keeping, its middle cut out and counted."""
    half = _SHOWN_BYTES // 2
    if dropped_bytes == 0 and len(output) <= _SHOWN_BYTES:
        return output.decode("utf-8", "replace")
    head, tail = (output[:half], output[-half:]) if len(output) > _SHOWN_BYTES else _halves(output)
    left_out = dropped_bytes + len(output) - len(head) - len(tail)
    middle = f"\n[... {left_out} bytes left out ...]\n"
    return head.decode("utf-8", "replace") + middle + tail.decode("utf-8", "replace")


def _halves(output: bytes) -> tuple[bytes, bytes]:
    return output[: len(output) // 2], output[len(output) // 2 :]


def submitted_patch(submission: bytes, *, dropped_bytes: int = 0) -> Patch | None:
    """The submission as a patch; None where it is none, or not whole: then the tree says what was done."""
    if dropped_bytes or not submission.lstrip().startswith((b"diff ", b"--- ")):
        return None
    return Patch.of(submission)
