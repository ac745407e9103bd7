"""mini-swe-agent's messages as steps of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swe_sdk.agents.contract import AgentEnd, EndReason, Step
from swe_sdk.agents.summary import one_line
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.patch import Patch

_REASONS: Mapping[str, EndReason] = {
    "Submitted": "done",
    "LimitsExceeded": "step_limit",
    "TimeExceeded": "budget",
}


def model_step(n: int, messages: list[dict[str, Any]], seconds: float) -> Step | None:
    """The step of one model call, by the messages that it led to; None where there was no call."""
    for message in messages:
        extra = message.get("extra") or {}
        if "response" in extra:
            return _model_step(n, message, extra, seconds)
    return None


def _model_step(n: int, message: dict[str, Any], extra: dict[str, Any], seconds: float) -> Step:
    usage = extra["response"].get("usage") or {}
    actions = extra.get("actions") or []
    said = message.get("content") or "; ".join(action["command"] for action in actions)
    is_malformed = extra.get("interrupt_type") == "FormatError"
    return Step(
        n=n,
        kind="model",
        summary=one_line(f"no usable tool call: {said}" if is_malformed else str(said)),
        seconds=seconds,
        tokens_in=usage.get("prompt_tokens") or 0,
        tokens_out=usage.get("completion_tokens") or 0,
        data={"actions": len(actions), "cost": extra.get("cost") or 0.0},
    )


def action_step(n: int, command: str, result: ExecResult) -> Step:
    """The step of one command."""
    data = {
        "status": result.status,
        "exit_code": result.exit_code,
        "output_bytes": len(result.stdout_bytes) + result.stdout_dropped_bytes,
    }
    return Step(n=n, kind="action", summary=one_line(command), seconds=result.duration_s, data=data)


def end_of(message: dict[str, Any], counters: dict[str, Any], patch: Patch | None) -> AgentEnd:
    """How it ended, by its last message."""
    extra = message.get("extra") or {}
    status = str(extra.get("exit_status", ""))
    info = {"exit_status": status, "api_calls": counters["n_calls"], "cost": counters["cost"]}
    reason = _REASONS.get(status, "error")
    text = "" if status == "Submitted" else str(message.get("content", ""))
    if status == "LimitsExceeded":
        text = f"its limit of steps or cost was reached after {counters['n_calls']} model calls"
    elif status == "RepeatedFormatError":
        text = "the model gave no usable tool call, several times in a row"
    return AgentEnd(reason=reason, message=text, patch=patch, info=info)
