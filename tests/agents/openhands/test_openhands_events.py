"""OpenHands' events as steps, and its ends: no process is needed for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from swe_sdk.agents.openhands.events import NEW, EventReader
from swe_sdk.model.exec_result import ExecResult
from tests.agents.any_json import lines
from tests.agents.harness_lab import LabEpisode, no_box

OK = ExecResult(status="exited", exit_code=0)
USED = {"prompt_tokens": 7, "completion_tokens": 3}


def reader() -> tuple[EventReader, LabEpisode]:
    episode = no_box(Path("/nowhere"))
    return EventReader(episode, NEW, clock=iter(range(1000)).__next__), episode


def action(response: str, tool: str = "terminal", **more: Any) -> dict[str, Any]:
    event = {"kind": "ActionEvent", "source": "agent", "llm_response_id": response, "tool_name": tool, "summary": "s"}
    return {"event": {**event, **more}, "usage": USED}


def observation(command: str) -> dict[str, Any]:
    seen = {"kind": "TerminalObservation", "command": command, "exit_code": 0, "is_error": False}
    return {"event": {"kind": "ObservationEvent", "tool_name": "terminal", "observation": seen}}


def end(status: str, **more: Any) -> dict[str, Any]:
    return {"end": {"status": status, "code": "", "message": "", **more}}


def test_replies_without_end_fill_no_memory() -> None:
    episode = no_box(Path("/nowhere"))
    events = EventReader(episode, NEW, clock=lambda: 0.0)
    for number in range(300):
        events.take(action(f"r{number}" + "x" * 5000))
    assert sum(map(len, events._responses)) <= 100 * 200
    assert len(episode.steps) == 300


def test_a_reply_is_one_step_whatever_tools_it_calls() -> None:
    events, episode = reader()
    finish = action("r2", "finish", action={"kind": "FinishAction", "message": "all done"})
    for line in (action("r1"), action("r1"), observation("ls"), observation("id"), finish, end("finished")):
        events.take(line)
    assert [(step.n, step.kind, step.summary) for step in episode.steps] == [
        (1, "model", "s"), (2, "action", "terminal: ls"), (3, "action", "terminal: id"), (4, "model", "s")
    ]  # fmt: skip
    assert [(step.tokens_in, step.tokens_out) for step in episode.steps] == [(7, 3), (0, 0), (0, 0), (7, 3)]
    ended = events.end(OK)
    assert (ended.reason, ended.message, ended.info["model_calls"]) == ("done", "all done", 2)


@pytest.mark.parametrize(
    ("said", "reason", "failure"),
    [
        (end("error", code="MaxIterationsReached", message="10"), "step_limit", None),
        (end("error", code="LLMAuthenticationError", message="no key", is_models=True), "error", "model"),
        (end("error", code="LLMContextWindowExceedError", message="long", is_models=True), "context_window", "model"),
        (end("error", code="KeyError", message="'x'", is_models=False), "error", None),
        (end("stuck"), "error", None),
        (end("idle"), "done", None),
    ],
)
def test_ends_that_it_tells(said: dict[str, Any], reason: str, failure: str | None) -> None:
    events, _ = reader()
    events.take(said)
    ended = events.end(OK)
    assert (ended.reason, ended.info.get("failure")) == (reason, failure)


def test_without_a_word_it_has_died() -> None:
    events, _ = reader()
    ended = events.end(ExecResult(status="oom", stderr_bytes=b"Killed"))
    assert (ended.reason, ended.info["failure"]) == ("error", "harness")
    assert "ran out of memory: Killed" in ended.message


def test_its_state_is_what_was_heard() -> None:
    events, _ = reader()
    assert events.state() == dict(NEW)
    events.take(action("r1", id="e1"))
    events.take(action("r1", id="e2"))
    assert events.state() == {"n_steps": 1, "n_calls": 1, "seen": "e2"}


@given(lines("ActionEvent", "ObservationEvent", "MessageEvent", fields=("source", "action", "observation"), key="kind"))
def test_no_event_breaks_it(printed: list[dict[str, Any]]) -> None:
    """A program in the box could print anything in its place."""
    events, episode = reader()
    for event in printed:
        events.take({"event": event, "usage": event.get("action")})
        events.take({"end": event.get("observation")})
    events.end(OK)
    assert all(len(step.model_dump_json()) < 4000 for step in episode.steps)
