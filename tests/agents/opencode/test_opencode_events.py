"""OpenCode's lines as steps, and its ends: no process is needed for that."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from swe_sdk.agents.opencode.events import NEW, EventReader
from swe_sdk.model.exec_result import ExecResult
from tests.agents.any_json import lines
from tests.agents.harness_lab import LabEpisode, no_box

FAILED = b'level=ERROR message="stream error" error.error="AI_APICallError: overloaded"'
OK = ExecResult(status="exited", exit_code=0)


def reader(folder: Path = Path("/nowhere"), **more: Any) -> tuple[EventReader, LabEpisode]:
    episode = no_box(folder)
    saved = {**NEW, "calls": more.pop("calls", 0)}
    settings = {"saved": saved, "max_calls": 10, "max_failures": 3, "clock": lambda: 0.0, **more}
    return EventReader(episode, **settings), episode


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "sessionID": "ses_1", "part": {"text": words}, **more}


def tool(command: str, seconds: float = 1.0) -> dict[str, Any]:
    state: dict[str, Any] = {"status": "completed", "input": {"command": command}, "metadata": {"exit": 0}}
    return {
        "type": "tool_use",
        "part": {"tool": "bash", "state": {**state, "time": {"start": 0, "end": seconds * 1000}}},
    }


def finish(reason: str = "tool-calls") -> dict[str, Any]:
    return {"type": "step_finish", "part": {"reason": reason, "tokens": {"input": 7, "output": 3}, "cost": 0}}


def test_a_step_is_a_model_call_and_its_tools() -> None:
    events, episode = reader()
    for line in (text("look"), tool("ls"), tool("id", 2.5), finish(), text("done"), finish("stop")):
        events.take(line)
    assert [(step.n, step.kind, step.summary) for step in episode.steps] == [
        (1, "model", "look"), (2, "action", "bash: ls"), (3, "action", "bash: id"), (4, "model", "done")
    ]  # fmt: skip
    assert [step.seconds for step in episode.steps] == [0.0, 1.0, 2.5, 0.0]
    assert (episode.steps[0].tokens_in, episode.steps[0].tokens_out) == (7, 3)
    end = events.end(OK)
    assert (end.reason, end.message, end.info["session"]) == ("done", "done", "ses_1")
    assert (events.stop, events.calls) == (None, 2)


def test_a_step_that_never_ends_is_kept_small() -> None:
    """Whoever speaks in its name in the box could fill the memory of the whole run."""
    events, episode = reader()
    part = {"tool": "bash", "state": {"input": {"command": "ls"}, "output": "x" * (1 << 20)}}
    tracemalloc.start()
    try:
        for _ in range(3000):
            events.take({"type": "tool_use", "part": {**part, "n": "y" * 10_000}})
            events.take(text("word " * 10))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    events.take(finish())
    assert len(episode.steps) == 1001


def test_tools_of_a_step_that_did_not_end_are_recorded_all_the_same() -> None:
    events, episode = reader()
    events.take(tool("sleep 100"))
    end = events.end(ExecResult(status="exited", exit_code=-9))
    assert [step.summary for step in episode.steps] == ["bash: sleep 100"]
    assert (end.reason, end.exit_code, end.info["failure"]) == ("error", -9, "harness")
    assert "SIGKILL" in end.message


def test_failures_in_a_row_end_it_and_an_answer_forgets_them() -> None:
    events, _ = reader()
    for _ in range(2):
        events.complain(FAILED)
    events.take(finish())
    for _ in range(2):
        events.complain(FAILED)
        events.complain(b"something else")
    assert events.stop is None
    events.complain(FAILED)
    assert events.stop == "model_failed"
    end = events.end(None)
    assert (end.reason, end.info["failure"]) == ("error", "model")
    assert "3 times in a row: AI_APICallError: overloaded" in end.message


@pytest.mark.parametrize(
    ("error", "reason", "failure"),
    [
        ({"name": "APIError", "data": {"message": "no", "statusCode": 401}}, "error", "model"),
        ({"name": "ContextOverflowError", "data": {"message": "long"}}, "context_window", "model"),
        ({"name": "UnknownError", "data": "odd"}, "error", "harness"),
    ],
)
def test_errors_that_it_reports(error: dict[str, Any], reason: str, failure: str) -> None:
    events, _ = reader()
    events.take({"type": "error", "error": error})
    end = events.end(ExecResult(status="exited", exit_code=1))
    assert (end.reason, end.info["failure"]) == (reason, failure)


def test_an_error_that_it_got_over_is_none() -> None:
    events, _ = reader()
    events.take({"type": "error", "error": {"name": "ContextOverflowError"}})
    events.take(finish("stop"))
    assert events.end(OK).reason == "done"


def test_the_limit_ends_it_unless_it_is_done() -> None:
    events, _ = reader(max_calls=2)
    events.take(finish())
    assert events.stop is None
    events.take(finish("stop"))
    assert events.stop is None
    events, _ = reader(max_calls=2, calls=1)
    events.take(finish())
    assert events.stop == "step_limit"
    assert events.end(None).reason == "step_limit"


def test_its_state_is_that_of_the_last_step_that_is_over() -> None:
    events, _ = reader()
    assert events.state() == dict(NEW)
    events.take(text("hello"))
    events.take({**finish(), "part": {**finish()["part"], "id": "prt_9"}})
    told = events.state()
    events.take(tool("ls"))
    assert events.state() == told == {"session": "ses_1", "n_steps": 1, "calls": 1, "seen": "prt_9"}


@given(lines("text", "tool_use", "step_finish", "error", fields=("part", "error", "sessionID")))
def test_no_line_breaks_it(printed: list[dict[str, Any]]) -> None:
    """A program in the box could print anything in its place."""
    events, episode = reader()
    for line in printed:
        events.take(line)
    events.end(OK)
    assert all(len(step.model_dump_json()) < 4000 for step in episode.steps)
