"""OpenCode's JSON lines as steps of the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import anyio

from swe_sdk.agents.contract import AgentEnd, Episode, Step
from swe_sdk.agents.in_box.program import died
from swe_sdk.agents.loose import count, number, small, table, text
from swe_sdk.agents.summary import model_failure, one_line
from swe_sdk.model.exec_result import ExecResult

_FAILED_CALL = b'message="stream error"'
"""In its log, for each model call that failed; those that it tries again are reported nowhere else."""
_MODEL_ERRORS = ("APIError", "ProviderAuthError", "ContextOverflowError")
_KEPT_CHARS = 20_000
_MOST_PARTS = 1000
"""Texts, and tools, of one step: whatever the box prints, little of it is kept until the step is over."""
NEW: Mapping[str, Any] = {"session": None, "n_steps": 0, "calls": 0, "seen": None}
"""The state of an episode that begins."""
Stop = Literal["step_limit", "model_failed"]


class _Tool(NamedTuple):
    """What is kept of a tool's use."""

    name: str
    called: str
    seconds: float
    outcome: dict[str, Any]


class EventReader:
    """Records what it prints, as it comes, and says when we must end it; afterwards :meth:`end` says how it ended.

    A step of its own is one model call and the tools of its reply; it is over when ``step_finish`` comes.
    """

    def __init__(
        self,
        episode: Episode,
        *,
        saved: Mapping[str, Any],
        max_calls: int,
        max_failures: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._episode = episode
        self._clock = clock
        self._since = clock()
        self._max_calls, self._max_failures = max_calls, max_failures
        self._failures = 0
        self._failure = ""
        self._texts: list[str] = []
        self._tools: list[_Tool] = []
        self._error: dict[str, Any] | None = None
        self._stopped = anyio.Event()
        self.stop: Stop | None = None
        """Why it must be ended."""
        self.session: str | None = saved["session"]
        self.n_steps: int = saved["n_steps"]
        self.calls: int = saved["calls"]
        """Model calls that were answered."""
        self.seen: str | None = saved["seen"]
        """The part that ended the last step which was recorded."""

    def take(self, line: dict[str, Any]) -> None:
        """One of its lines."""
        part = table(line, "part")
        self.session = self.session or text(line.get("sessionID")) or None
        match line.get("type"):
            case "text" if not line.get("synthetic") and not part.get("synthetic"):
                self._texts = [*self._texts, text(part.get("text"), _KEPT_CHARS)][-_MOST_PARTS:]
            case "tool_use" if len(self._tools) < _MOST_PARTS:
                self._tools.append(_Tool(text(part.get("tool")), _called(part), _seconds(part), _outcome(part)))
            case "step_finish":
                self._finish(part)
            case "error":
                self._error = table(line, "error")

    def complain(self, line: bytes) -> None:
        """One line of its log."""
        if _FAILED_CALL not in line:
            return
        self._failures += 1
        self._failure = line.rpartition(b"error.error=")[2][:2000].decode("utf-8", "replace").strip('"')
        if self._failures >= self._max_failures:
            self._end("model_failed")

    def state(self) -> dict[str, Any]:
        """Where it stands while it waits for the model."""
        return {"session": self.session, "n_steps": self.n_steps, "calls": self.calls, "seen": self.seen}

    async def wait_stop(self) -> None:
        """Until it must be ended."""
        await self._stopped.wait()

    def end(self, result: ExecResult | None) -> AgentEnd:
        """How it ended; ``result`` is its own, None where we ended it."""
        self._flush({})
        info: dict[str, Any] = {"model_calls": self.calls, "session": self.session}
        if self.stop == "step_limit":
            return AgentEnd(reason="step_limit", message=f"stopped after {self.calls} model calls", info=info)
        if self.stop == "model_failed":
            message = f"the model failed {self._failures} times in a row: {self._failure}"
            return _with(model_failure(None, "", message), info)
        if self._error is not None:
            return _with(_failed(self._error), info)
        if result is None or not result.ok:
            assert result is not None
            return _with(died("OpenCode", result), info)
        return AgentEnd(message=one_line(" ".join(self._texts), 2000), exit_code=0, info=info)

    def _finish(self, part: dict[str, Any]) -> None:
        self.calls += 1
        self.seen = text(part.get("id")) or None
        self._failures, self._error = 0, None
        reason = part.get("reason")
        last = self._texts
        self._flush(part)
        if reason == "stop":
            self._texts = last
        elif self.calls >= self._max_calls:
            self._end("step_limit")

    def _flush(self, finish: dict[str, Any]) -> None:
        """Record the step that is over, or what there is of it."""
        tools, texts = self._tools, self._texts
        self._tools, self._texts = [], [] if finish else texts
        now = self._clock()
        own = max(0.0, now - self._since - sum(tool.seconds for tool in tools))
        self._since = now
        if finish:
            said = " ".join(texts) or ", ".join(tool.name for tool in tools)
            used = table(finish, "tokens")
            data = small(finish_reason=finish.get("reason"), cost=finish.get("cost"))
            tokens = {"tokens_in": count(used.get("input")), "tokens_out": count(used.get("output"))}
            self._record("model", said, own, data, **tokens)
        for tool in tools:
            self._record("action", tool.called, tool.seconds, tool.outcome)

    def _record(
        self, kind: Literal["model", "action"], summary: str, seconds: float, data: dict[str, Any], **tokens: int
    ) -> None:
        self.n_steps += 1
        self._episode.record(
            Step(n=self.n_steps, kind=kind, summary=one_line(summary), seconds=seconds, data=data, **tokens)
        )

    def _end(self, why: Stop) -> None:
        self.stop = self.stop or why
        self._stopped.set()


def _failed(error: dict[str, Any]) -> AgentEnd:
    name, data = text(error.get("name")) or "error", table(error, "data")
    message = f"{name}: {text(data.get('message'))}"
    if name not in _MODEL_ERRORS:
        return AgentEnd(reason="error", message=message, info={"failure": "harness", "code": name})
    code = "context_window" if name == "ContextOverflowError" else name
    return model_failure(count(data.get("statusCode")) or None, code, message)


def _with(end: AgentEnd, info: dict[str, Any]) -> AgentEnd:
    return end.model_copy(update={"info": {**end.info, **info}})


def _called(tool: dict[str, Any]) -> str:
    given = table(tool, "state", "input")
    what = next((text(given[name]) for name in ("command", "filePath", "pattern", "path") if given.get(name)), "")
    return f"{text(tool.get('tool'))}: {what}"


def _outcome(tool: dict[str, Any]) -> dict[str, Any]:
    exit_code = table(tool, "state", "metadata").get("exit")
    return small(tool=tool.get("tool"), status=table(tool, "state").get("status"), exit_code=exit_code)


def _seconds(tool: dict[str, Any]) -> float:
    """By its own clock."""
    times = table(tool, "state", "time")
    start, end = number(times.get("start")), number(times.get("end"))
    return 0.0 if start is None or end is None else max(0.0, (end - start) / 1000)
