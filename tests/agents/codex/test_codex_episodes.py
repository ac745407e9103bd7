"""Codex itself against a scripted model, in local boxes: how it ends, and is ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from swe_sdk.agents.codex import Codex
from swe_sdk.agents.contract import AgentEnd
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing import ScriptedModel
from swe_sdk.testing.scripted_model import Fault, Turn, act, fail
from tests.agents.dialects import CODEX
from tests.agents.harness_lab import KEY, LabEpisode, lab, programs
from tests.agents.tasks import mini_task

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(500)]


@pytest.mark.parametrize(
    ("fault", "says"),
    [(fail(401), "401"), (fail(500), ""), (fail(cut="before_reply"), "")],
    ids=["refused", "failing", "broken"],
)
async def test_a_model_that_fails_ends_it(
    fault: Fault, says: str, local_provider: LocalProvider, tmp_path: Path
) -> None:
    end, episode = await _played(Codex(model_tries=2), [act(CODEX.run("ls")), fault], local_provider, tmp_path)
    assert (end.reason, end.info["failure"]) == ("error", "model")
    assert says in end.message
    assert "action" in episode.kinds()


async def test_its_commands_do_not_see_the_key(local_provider: LocalProvider, tmp_path: Path) -> None:
    end, _ = await _played(Codex(), CODEX.script("env"), local_provider, tmp_path)
    said = (tmp_path / "codex.jsonl").read_text()
    assert end.reason == "done"
    assert "PATH=" in said
    assert KEY not in said


async def test_a_flood_a_limit_and_its_death(local_provider: LocalProvider, tmp_path: Path) -> None:
    script = CODEX.script("yes flood | head -c 5000000", "true", "true")
    end, _ = await _played(Codex(max_actions=2), script, local_provider, tmp_path / "1")
    assert (end.reason, end.info["actions"]) == ("step_limit", 2)
    assert (tmp_path / "1" / "codex.jsonl").stat().st_size < 10_000_000
    script = CODEX.script("kill -9 $PPID; sleep 300")
    end, _ = await _played(Codex(), script, local_provider, tmp_path / "2")
    assert (end.reason, end.exit_code, end.info["failure"]) == ("error", -9, "harness")


async def test_cancelled_it_leaves_nothing(local_provider: LocalProvider, tmp_path: Path) -> None:
    agent = Codex()
    with ScriptedModel(CODEX.script("touch /tmp/on; sleep 300")) as model:
        async with lab(mini_task(), local_provider, agent, model) as box:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.run, box.episode(tmp_path, model))
                while not (await box.box.exec("test -e /tmp/on")).ok:
                    await anyio.sleep(0.1)
                assert await programs(box.box, "codex") != []
                tasks.cancel_scope.cancel()
            assert await box.box.processes() == []  # type: ignore[attr-defined]


async def _played(
    agent: Codex, script: Sequence[Turn | Fault], provider: LocalProvider, folder: Path
) -> tuple[AgentEnd, LabEpisode]:
    with ScriptedModel(script) as model:
        async with lab(mini_task(), provider, agent, model) as box:
            episode = box.episode(folder, model)
            return await agent.run(episode), episode
