"""Harnesses that drive themselves in a local box, against a scripted model: how they end, and are ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.agents.registry import make_agent
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing import ScriptedModel
from swe_sdk.testing.scripted_model import act, fail
from tests.agents.dialects import DIALECTS
from tests.agents.harness_lab import lab, played, programs
from tests.agents.tasks import mini_task

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(500)]
FAULTS = {
    "refused": fail(401),
    "failing": fail(500),
    "broken": fail(cut="before_reply"),
    "too long": fail(400, code="context_length_exceeded", message="This model's maximum context length is 10 tokens"),
}
FLOOD_BYTES = 5_000_000


@dataclass(frozen=True)
class Manner:
    """What differs between them."""

    gives_up: dict[str, int]
    """Settings with which it does so soon."""
    limit: dict[str, int]
    counted: str
    """What the limit is of, as its end calls it."""
    kill: str
    """A command in its box that kills it and would go on."""
    told: dict[str, dict[str, Any]]
    """Of each fault: what its end has to say beyond the common."""
    says: dict[str, str] = field(default_factory=dict)
    """And what stands in its message."""
    keeps_bytes: int = 1_000_000
    """Less than that is in its transcript of a command that floods."""


MANNERS = {
    "codex": Manner(
        gives_up={"model_tries": 2},
        limit={"max_actions": 2},
        counted="actions",
        kill="kill -9 $PPID; sleep 300",
        told={},
        says={"refused": "401"},
        keeps_bytes=2 * FLOOD_BYTES,
    ),
    "opencode": Manner(
        gives_up={"model_tries": 2},
        limit={"max_steps": 2},
        counted="model_calls",
        kill="(setsid sleep 300 &) ; kill -9 $PPID; sleep 300",
        told={"refused": {"status": 401}},
    ),
    "openhands": Manner(
        gives_up={"model_tries": 1},
        limit={"max_iterations": 2},
        counted="model_calls",
        kill="pkill -9 -f openhands_runne[r]; sleep 300",
        told={
            "refused": {"code": "LLMBadRequestError"},
            "failing": {"code": "LLMServiceUnavailableError"},
            "broken": {"code": "LLMServiceUnavailableError"},
        },
    ),
}
each_harness = pytest.mark.parametrize("name", MANNERS)


FAILURES = [(name, fault) for name in MANNERS for fault in FAULTS if (name, fault) != ("opencode", "too long")]
"""OpenCode sums up what it has where its model says that it is too long, and goes on."""


@pytest.mark.parametrize(("name", "fault"), FAILURES)
async def test_a_model_that_fails_ends_it(name: str, fault: str, local_provider: LocalProvider, tmp_path: Path) -> None:
    script = [act(DIALECTS[name].run("ls")), FAULTS[fault]]
    end, episode = await played(make_agent(name, **MANNERS[name].gives_up), script, local_provider, tmp_path)
    told = {"failure": "model", **MANNERS[name].told.get(fault, {})}
    reason = "context_window" if fault == "too long" else "error"
    assert (end.reason, {key: end.info.get(key) for key in told}) == (reason, told)
    assert MANNERS[name].says.get(fault, "") in end.message
    assert "action" in episode.kinds(), "what was done before is recorded"


@each_harness
async def test_its_limit_ends_it_and_a_flood_does_not(name: str, local_provider: LocalProvider, tmp_path: Path) -> None:
    manner = MANNERS[name]
    script = DIALECTS[name].script(f"yes flood | head -c {FLOOD_BYTES}", "true", "true")
    end, _ = await played(make_agent(name, **manner.limit), script, local_provider, tmp_path)
    assert (end.reason, end.info[manner.counted]) == ("step_limit", 2)
    assert (tmp_path / f"{name}.jsonl").stat().st_size < manner.keeps_bytes


@each_harness
async def test_its_death_is_an_end(name: str, local_provider: LocalProvider, tmp_path: Path) -> None:
    script = DIALECTS[name].script(MANNERS[name].kill)
    end, _ = await played(make_agent(name), script, local_provider, tmp_path)
    assert (end.reason, end.exit_code, end.info["failure"]) == ("error", -9, "harness")


@each_harness
async def test_cancelled_it_leaves_nothing(name: str, local_provider: LocalProvider, tmp_path: Path) -> None:
    agent = make_agent(name)
    with ScriptedModel(DIALECTS[name].script("touch /tmp/on; sleep 300")) as model:
        async with lab(mini_task(), local_provider, agent, model) as box:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.run, box.episode(tmp_path, model))
                while not (await box.box.exec("test -e /tmp/on")).ok:
                    await anyio.sleep(0.1)
                assert await programs(box.box, name) != []
                tasks.cancel_scope.cancel()
            assert await box.box.processes() == []  # type: ignore[attr-defined]
