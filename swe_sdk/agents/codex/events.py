"""Codex' JSON lines as steps of the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

import anyio

from swe_sdk.agents.contract import AgentEnd, Episode, Step
from swe_sdk.agents.in_box.program import died
from swe_sdk.agents.loose import count, small, table, text
from swe_sdk.agents.summary import model_failure, one_line
from swe_sdk.model.exec_result import ExecResult

_CONTEXT = ("context window", "context length", "context_length")
_TALK = ("agent_message", "error", "reasoning", "todo_list")
Stop = Literal["step_limit"]
NEW: Mapping[str, Any] = {"thread": None, "n_steps": 0, "actions": 0}
"""The state of an episode that begins."""


class EventReader:
    """Records what it prints, as it comes, and says when we must end it; afterwards :meth:`end` says how it ended.

    It prints items: messages, and commands or changes of files, which begin and are completed. Its model calls are not
    among them; their tokens come in one sum, at the end of the turn. The gateway's ledger has each of them.
    """

    def __init__(
        self,
        episode: Episode,
        *,
        saved: Mapping[str, Any],
        max_actions: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._episode = episode
        self._clock = clock
        self._since = clock()
        self._last_message = ""
        self._failure: str | None = None
        self._stopped = anyio.Event()
        self._max_actions = max_actions
        self.stop: Stop | None = None
        """Why it must be ended."""
        self.thread: str | None = saved["thread"]
        self.n_steps: int = saved["n_steps"]
        self.actions: int = saved["actions"]
        """Commands and changes so far."""

    def take(self, line: dict[str, Any]) -> None:
        """One of its lines."""
        item = table(line, "item")
        match line.get("type"):
            case "thread.started":
                self.thread = text(line.get("thread_id")) or self.thread
            case "item.completed":
                self._item(item)
            case "turn.completed":
                self._turn(table(line, "usage"))
            case "turn.failed":
                self._failure = text(table(line, "error").get("message")) or "the turn failed"

    def state(self) -> dict[str, Any]:
        """Where it stands while it waits for the model."""
        return {"thread": self.thread, "n_steps": self.n_steps, "actions": self.actions}

    async def wait_stop(self) -> None:
        """Until it must be ended."""
        await self._stopped.wait()

    def end(self, result: ExecResult | None) -> AgentEnd:
        """How it ended; ``result`` is its own, None where we ended it."""
        info: dict[str, Any] = {"actions": self.actions, "thread": self.thread}
        if self.stop == "step_limit":
            return AgentEnd(reason="step_limit", message=f"stopped after {self.actions} actions", info=info)
        if self._failure is not None:
            is_long = any(words in self._failure.lower() for words in _CONTEXT)
            failed = model_failure(None, "context_window" if is_long else "", self._failure)
            return failed.model_copy(update={"info": {**info, **failed.info}})
        assert result is not None
        if not result.ok:
            gone = died("Codex", result)
            return gone.model_copy(update={"info": {**info, **gone.info}})
        return AgentEnd(message=self._last_message, exit_code=0, info=info)

    def _item(self, item: dict[str, Any]) -> None:
        kind = text(item.get("type"), 40)
        if kind in _TALK:
            self._talk(kind, text(item.get("text")) or text(item.get("message")))
            return
        self.actions += 1
        what = text(item.get("command")) or text(item.get("tool")) or text(item.get("query"))
        about = small(tool=kind, status=item.get("status"), exit_code=item.get("exit_code"))
        self._record("action", f"{kind}: {what}", about)
        if self.actions >= self._max_actions:
            self._end("step_limit")

    def _talk(self, kind: str, words: str) -> None:
        if kind == "agent_message":
            self._last_message = words
        if words:
            self._record("message" if kind == "agent_message" else "note", words, {})

    def _turn(self, usage: dict[str, Any]) -> None:
        tokens = {"tokens_in": count(usage.get("input_tokens")), "tokens_out": count(usage.get("output_tokens"))}
        self._record("model", "all model calls of the turn", {}, **tokens)

    def _record(
        self, kind: Literal["model", "action", "message", "note"], summary: str, data: dict[str, Any], **tokens: int
    ) -> None:
        now = self._clock()
        seconds, self._since = max(0.0, now - self._since), now
        self.n_steps += 1
        self._episode.record(
            Step(n=self.n_steps, kind=kind, summary=one_line(summary), seconds=seconds, data=data, **tokens)
        )

    def _end(self, why: Stop) -> None:
        self.stop = self.stop or why
        self._stopped.set()
