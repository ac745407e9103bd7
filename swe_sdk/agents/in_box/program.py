"""One long command in the box, whose output is kept and read as it comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from swe_sdk.agents.contract import AgentEnd, Episode, ModelAccess
from swe_sdk.agents.in_box.lines import Lines, json_object
from swe_sdk.errors import CapabilityMissing, HarnessUnavailable, SandboxLost
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Stream

AGENTS = "/.swe_sdk/agents"
"""Where harnesses are mounted in the box."""
STATE = "/var/tmp/swe_sdk"  # of the box, where every user may write and nothing is wiped
"""Where they keep their sessions there: outside of the repository, inside of what a snapshot holds."""
_KEPT_BYTES = 64 << 10
_SAID_CHARS = 1500


async def run_program(
    episode: Episode,
    name: str,
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    on_object: Callable[[dict[str, Any]], None],
    on_complaint: Callable[[bytes], None] | None = None,
    stdin: bytes = b"",
    cwd: str | None = None,
) -> ExecResult:
    """Run it to its end in the repository, or in ``cwd``; ``SandboxLost`` where the box died.

    Standard output is kept as the transcript ``<name>.jsonl``, and the JSON objects on its lines go to ``on_object``;
    standard error as ``<name>.stderr``, and its lines go to ``on_complaint``. Both are called as output comes.

    Cancelled, it is killed with everything that it started and that has not left its process tree.
    """
    transcripts = {"stdout": episode.transcript(f"{name}.jsonl"), "stderr": episode.transcript(f"{name}.stderr")}
    lines = {"stdout": Lines(), "stderr": Lines()}

    def take(stream: Stream, piece: bytes) -> None:
        transcripts[stream].write(piece)
        for line in lines[stream].feed(piece):
            if stream == "stderr":
                if on_complaint is not None:
                    on_complaint(line)
            elif (value := json_object(line)) is not None:
                on_object(value)

    result = await episode.box.exec(
        command, cwd=cwd or episode.task.workdir, env=env, stdin=stdin, output_bytes=_KEPT_BYTES, on_output=take
    )
    if result.status == "lost":
        raise SandboxLost(f"box {episode.box.id} died under {name}")
    return result


def need_model(episode: Episode, harness: str) -> tuple[ModelAccess, str]:
    """The model, and its address in the box."""
    if episode.model is None:
        raise HarnessUnavailable(harness, "it needs a model", remedy="give the run a model")
    if episode.model.box_url is None:
        raise CapabilityMissing(
            f"{harness} runs in the box, and boxes of this provider cannot reach the model",
            remedy="take another provider, or an agent that is driven from outside, such as mini-swe-agent",
        )
    return episode.model, episode.model.box_url


def died(name: str, result: ExecResult) -> AgentEnd:
    """The end of a harness that ended without saying how."""
    said = (result.stderr or result.stdout).strip()[-_SAID_CHARS:]
    message = f"{name} {result.summary}" + (f": {said}" if said else "")
    return AgentEnd(reason="error", message=message, exit_code=result.exit_code, info={"failure": "harness"})
