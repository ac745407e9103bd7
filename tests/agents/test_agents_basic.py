"""The agents that need no harness: a script, a program, the solution, nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from swe_sdk.agents.command import CommandAgent
from swe_sdk.agents.gold import GoldAgent
from swe_sdk.agents.scripted import Exec, Fail, ScriptedAgent, Wait, Write
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.testing.fake import Command, FakeProvider, MemoryBox, Reply
from tests.rollouts.world import ANSWER, QUICK, FakeModel, FakeVerifier, MemoryJournal, make_task, play

pytestmark = pytest.mark.anyio
TASK = make_task()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


class World:
    """Boxes in memory whose programs are noted, and some of which fail."""

    def __init__(self, **failing: ExecResult) -> None:
        self.ran: list[Command] = []
        self.files: dict[str, bytes] = {}
        self.journal = MemoryJournal()
        self._failing = failing

    def play(self, command: Command, box: MemoryBox) -> Reply:
        self.ran.append(command)
        self.files |= {path: file.data for path, file in box.files.items()}
        return self._failing.get(command.split()[0]) or play(command, box)

    async def run(self, agent: Any, **options: Any) -> RolloutResult:
        provider = FakeProvider(handler=self.play)
        return await run_rollout(
            TASK, agent, provider=provider, settings=QUICK, verifier=FakeVerifier(), journal=self.journal, **options
        )

    def transcript(self, name: str = "output.log") -> bytes:
        return self.journal.artifacts["fake__task-1.0", 1, name].data


async def test_a_script_is_followed_to_its_end() -> None:
    world = World(say=ExecResult(status="exited", exit_code=2, stdout_bytes=b"hello", stderr_bytes=b" there"))
    script = ScriptedAgent(
        actions=(
            Exec(command="say it"),
            Write(path=ANSWER, content="42"),
            Wait(seconds=0.01),
            Exec(command=("a", "b c")),
        )
    )
    result = await world.run(script)
    assert result.outcome.status == "resolved"
    steps = world.journal.of("step")
    assert [(step.n, step.data["do"]) for step in steps] == [(1, "exec"), (2, "write"), (3, "wait"), (4, "exec")]
    assert steps[0].summary == "say it: it exited with code 2", "a command may fail, unless it is checked"
    assert world.transcript() == b"hello there"
    assert [command for command in world.ran if command in ("say it", "a 'b c'")] == ["say it", "a 'b c'"]


async def test_a_checked_command_that_fails_ends_the_script() -> None:
    world = World(say=ExecResult(status="exited", exit_code=2, stdout_bytes=b"no"))
    result = await world.run(ScriptedAgent(actions=(Exec(command="say", check=True), Write(path=ANSWER, content="42"))))
    assert result.last.end is not None
    assert (result.last.end.reason, result.last.end.exit_code) == ("error", 2)
    assert "no" in result.last.end.message
    assert (result.outcome.status, result.patch.exists) == ("unresolved", False)


async def test_a_script_may_end_as_any_agent_does() -> None:
    result = await World().run(ScriptedAgent(actions=(Fail(reason="context_window", message="too long"),)))
    assert result.last.end is not None
    assert (result.last.end.reason, result.last.end.message) == ("context_window", "too long")


async def test_a_program_gets_its_task_and_its_model() -> None:
    world, model = World(), FakeModel()
    result = await world.run(CommandAgent(command="solve", env={"MODE": "fast"}, model=True), model=model)
    assert result.last.end is not None
    assert (result.last.end.reason, result.last.end.exit_code) == ("done", 0)
    (run,) = [command for command in world.ran if command == "solve"]
    assert run.env["MODE"] == "fast"
    assert (run.env["OPENAI_BASE_URL"], run.env["OPENAI_API_KEY"], run.env["NEMO_GYM_MODEL"]) == (
        "http://127.0.0.1:1/v1",
        "the key",
        "m",
    )
    assert world.files[run.env["SWE_TASK_STATEMENT"]] == b"Give the answer."
    seen = json.loads(world.files[run.env["SWE_TASK_FILE"]])
    assert seen["instance_id"] == "fake__task-1"
    assert "grading" not in seen
    assert not run.env["SWE_TASK_FILE"].startswith("/testbed")


async def test_without_a_model_no_variable_speaks_of_one() -> None:
    world = World()
    await world.run(CommandAgent(command="solve"))
    (run,) = [command for command in world.ran if command == "solve"]
    assert not any(name.startswith("OPENAI") for name in run.env)


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (ExecResult(status="exited", exit_code=0, stdout_bytes=b"fine"), "done"),
        (ExecResult(status="exited", exit_code=1, stdout_bytes=b"bad"), "error"),
        (ExecResult(status="exited", exit_code=-9, stdout_bytes=b"bad"), "error"),
        (ExecResult(status="oom", stdout_bytes=b"bad"), "error"),
    ],
)
async def test_a_programs_exit_code_is_its_word(ended: ExecResult, reason: str) -> None:
    world = World(solve=ended)
    result = await world.run(CommandAgent(command="solve"))
    assert result.last.end is not None
    assert (result.last.end.reason, result.last.end.exit_code) == (reason, ended.exit_code)
    assert result.outcome.mask is None, "a program cannot buy itself a mask by how it exits"
    assert world.transcript() == ended.stdout_bytes


async def test_gold_that_does_not_apply_is_a_failure_of_the_agent() -> None:
    failed = ExecResult(status="exited", exit_code=1, stdout_bytes=b"error: patch failed")
    result = await World(git=failed).run(GoldAgent())
    assert result.last.end is not None
    assert (result.last.end.reason, result.last.end.message) == ("error", "error: patch failed")
    assert (result.outcome.status, result.outcome.flags) == ("unresolved", ("agent_failed",))
