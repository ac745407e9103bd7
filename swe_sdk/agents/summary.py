"""Long text in one line, for lists of steps."""

from __future__ import annotations

from swe_sdk.agents.contract import AgentEnd

_LINE_CHARS = 200


def one_line(text: str, limit: int = _LINE_CHARS) -> str:
    """All white space as single spaces, cut at ``limit`` characters."""
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def model_failure(status: int | None, code: str, message: str) -> AgentEnd:
    """How an agent ends whose model gave no reply. ``status`` is the endpoint's, None where it was not reached."""
    info = {"failure": "model", "status": status, "code": code}
    if code == "context_window":
        return AgentEnd(reason="context_window", message=message, info=info)
    return AgentEnd(reason="error", message=message, info=info)
