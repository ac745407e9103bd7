"""Codex' lines as steps, and its ends: no process is needed for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from swe_sdk.agents.codex.events import NEW, EventReader
from swe_sdk.model.exec_result import ExecResult
from tests.agents.any_json import lines
from tests.agents.harness_lab import LabEpisode, no_box

OK = ExecResult(status="exited", exit_code=0)


def reader(**more: Any) -> tuple[EventReader, LabEpisode]:
    episode = no_box(Path("/nowhere"))
    saved = {**NEW, "actions": more.pop("actions", 0)}
    settings = {"saved": saved, "max_actions": 10, "clock": iter(range(1000)).__next__, **more}
    return EventReader(episode, **settings), episode


def command(words: str, item: str = "item_1") -> list[dict[str, Any]]:
    begun = {"id": item, "type": "command_execution", "command": words}
    return [
        {"type": "item.started", "item": begun},
        {"type": "item.completed", "item": {**begun, "exit_code": 1, "status": "failed"}},
    ]


def message(words: str) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"id": "item_9", "type": "agent_message", "text": words}}


def test_items_are_steps_and_the_turn_has_the_tokens() -> None:
    events, episode = reader()
    used = {"type": "turn.completed", "usage": {"input_tokens": 30, "output_tokens": 15}}
    started = {"type": "thread.started", "thread_id": "t-1"}
    for line in (started, message("look"), *command("ls"), message("done"), used):
        events.take(line)
    assert [(step.n, step.kind, step.summary) for step in episode.steps] == [
        (1, "message", "look"), (2, "action", "command_execution: ls"), (3, "message", "done"),
        (4, "model", "all model calls of the turn"),
    ]  # fmt: skip
    assert episode.steps[1].data == {"tool": "command_execution", "status": "failed", "exit_code": 1}
    assert (episode.steps[3].tokens_in, episode.steps[3].tokens_out) == (30, 15)
    end = events.end(OK)
    assert (end.reason, end.message, end.info) == ("done", "done", {"actions": 1, "thread": "t-1"})


@pytest.mark.parametrize(
    ("words", "reason"),
    [("unexpected status 401", "error"), ("Your input exceeds the context window", "context_window")],
)
def test_a_turn_that_failed_is_the_models_doing(words: str, reason: str) -> None:
    events, _ = reader()
    events.take({"type": "turn.failed", "error": {"message": words}})
    end = events.end(ExecResult(status="exited", exit_code=1))
    assert (end.reason, end.info["failure"], end.message) == (reason, "model", words)


def test_without_a_word_it_has_died() -> None:
    events, _ = reader()
    end = events.end(ExecResult(status="exited", exit_code=-9))
    assert (end.reason, end.info["failure"], end.exit_code) == ("error", "harness", -9)


def test_its_state_is_what_is_over() -> None:
    events, _ = reader()
    events.take({"type": "thread.started", "thread_id": "t-1"})
    begun, over = command("a")
    events.take(begun)
    assert events.state() == {"thread": "t-1", "n_steps": 0, "actions": 0}
    events.take(over)
    assert events.state() == {"thread": "t-1", "n_steps": 1, "actions": 1}


def test_the_limit_counts_over_parks() -> None:
    events, _ = reader(actions=8)
    events.take(command("a")[1])
    assert events.stop is None
    events.take(command("b")[1])
    assert (events.stop, events.end(None).reason) == ("step_limit", "step_limit")


@given(lines("item.started", "item.completed", "turn.completed", "turn.failed", fields=("item", "usage", "error")))
def test_no_line_breaks_it(printed: list[dict[str, Any]]) -> None:
    """A program in the box could print anything in its place."""
    events, episode = reader()
    for line in printed:
        events.take(line)
    events.end(OK)
    assert all(len(step.model_dump_json()) < 4000 for step in episode.steps)
