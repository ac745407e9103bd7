"""OpenHands' events as steps of the run."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

from swe_sdk.agents.contract import AgentEnd, Episode, Step
from swe_sdk.agents.in_box.program import died
from swe_sdk.agents.loose import count, small, table, text
from swe_sdk.agents.summary import model_failure, one_line
from swe_sdk.model.exec_result import ExecResult

NEW: Mapping[str, Any] = {"n_steps": 0, "n_calls": 0, "seen": None}
"""The state of an episode that begins."""
_RESPONSES = 100
"""Ids of replies that are remembered: tool calls of one follow each other closely."""
_CONTEXT = ("LLMContextWindowExceedError", "LLMContextWindowTooSmallError")


class EventReader:
    """Records what the runner prints, as it comes; afterwards :meth:`end` says how it ended."""

    def __init__(
        self, episode: Episode, saved: Mapping[str, Any], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._episode = episode
        self._clock = clock
        self._since = clock()
        self._responses: deque[str] = deque(maxlen=_RESPONSES)
        self._finish = ""
        self._end: dict[str, Any] | None = None
        self.n_steps: int = saved["n_steps"]
        self.n_calls: int = saved["n_calls"]
        """Model calls that were answered."""
        self.seen: str | None = saved["seen"]
        """The event that was heard last."""

    def take(self, line: dict[str, Any]) -> None:
        """One object that the runner printed."""
        if "end" in line:
            self._end = table(line, "end")
        else:
            self._event(table(line, "event"), table(line, "usage"))

    def state(self) -> dict[str, Any]:
        """Where it stands while it waits for the model."""
        return {"n_steps": self.n_steps, "n_calls": self.n_calls, "seen": self.seen}

    def end(self, result: ExecResult) -> AgentEnd:
        """How it ended; ``result`` is the runner's own."""
        if self._end is None or result.exit_code != 0:
            return died("OpenHands", result)
        status, code = text(self._end.get("status")), text(self._end.get("code"))
        message = text(self._end.get("message"))
        info = {"execution_status": status, "code": code, "model_calls": self.n_calls}
        if self._end.get("is_models") is True:
            failure = model_failure(None, "context_window" if code in _CONTEXT else code, message)
            return failure.model_copy(update={"info": {**info, **failure.info}})
        if code == "MaxIterationsReached":
            return AgentEnd(reason="step_limit", message=message, exit_code=0, info=info)
        if status in ("finished", "idle"):
            return AgentEnd(message=self._finish, exit_code=0, info=info)
        return AgentEnd(reason="error", message=message or f"it ended {status}", exit_code=0, info=info)

    def _event(self, event: dict[str, Any], usage: dict[str, Any]) -> None:
        kind = event.get("kind")
        if kind in ("ActionEvent", "MessageEvent") and event.get("source") == "agent":
            self._answered(event, usage)
        elif kind == "ObservationEvent":
            self._observed(event)
        elif kind in ("AgentErrorEvent", "ConversationErrorEvent"):
            self._record("note", text(event.get("error")) or text(event.get("detail")) or text(kind), event=kind)
        elif kind == "MessageEvent":
            self._since = self._clock()
        self.seen = text(event.get("id")) or self.seen

    def _answered(self, event: dict[str, Any], usage: dict[str, Any]) -> None:
        action = table(event, "action")
        if action.get("kind") == "FinishAction":
            self._finish = text(action.get("message"))
        response = text(event.get("llm_response_id"), 200) or text(event.get("id"), 200)
        if response in self._responses:  # a further tool call of the same reply
            return
        self._responses.append(response)
        self.n_calls += 1
        tokens = {"tokens_in": count(usage.get("prompt_tokens")), "tokens_out": count(usage.get("completion_tokens"))}
        self._record("model", _said(event), tokens=tokens, tool=event.get("tool_name"))

    def _observed(self, event: dict[str, Any]) -> None:
        seen, tool = table(event, "observation"), text(event.get("tool_name"))
        what = text(seen.get("command")) or text(seen.get("path")) or _words(seen.get("content"))
        self._record(
            "action", f"{tool}: {what}", tool=tool, exit_code=seen.get("exit_code"), is_error=seen.get("is_error")
        )

    def _record(
        self,
        kind: Literal["model", "action", "note"],
        summary: str,
        *,
        tokens: dict[str, int] | None = None,
        **data: Any,
    ) -> None:
        now = self._clock()
        seconds, self._since = max(0.0, now - self._since), now
        self.n_steps += 1
        self._episode.record(
            Step(
                n=self.n_steps,
                kind=kind,
                summary=one_line(summary),
                seconds=seconds,
                data=small(**data),
                **(tokens or {}),
            )
        )


def _said(event: dict[str, Any]) -> str:
    thought = _words(event.get("thought")) or _words(table(event, "llm_message").get("content"))
    return thought or text(event.get("summary")) or text(event.get("tool_name"))


def _words(content: Any) -> str:
    if not isinstance(content, list):
        return text(content)
    return " ".join(text(part.get("text")) for part in content if isinstance(part, dict))
