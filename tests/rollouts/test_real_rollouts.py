"""Real boxes, real tests, a real run directory: the agents that need no model, on a task of each family."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

import swe_sdk as swe
from swe_sdk.agents.command import FOLDER, CommandAgent
from swe_sdk.agents.contract import Agent, AgentEnd, Episode
from swe_sdk.agents.gold import GoldAgent
from swe_sdk.agents.noop import NoopAgent
from swe_sdk.agents.scripted import Exec, ScriptedAgent, Wait, Write
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.rollouts.many import run_many
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.rollouts.settings import RolloutSettings, RunLimits
from swe_sdk.rollouts.verifier import LocalVerifier
from swe_sdk.sandbox.contract import Limits
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.store.index import open_index
from swe_sdk.store.results import Results
from swe_sdk.store.writer import RunWriter
from tests.grading import tiny
from tests.rollouts.world import FunctionAgent

pytestmark = pytest.mark.anyio
SETTINGS = RolloutSettings(agent_timeout_s=60, seed_timeout_s=60, close_timeout_s=60, retries=0)
_HERE = {task.instance_id: task for task in swe.load_tasks("mini")}


def one_of_each_family() -> list[Task]:
    """Of the bundled tasks that this machine has the tools for, that of each family with the smallest environment."""
    found: dict[str, Task] = {}
    for task in sorted(_HERE.values(), key=lambda task: len(task.environment.model_dump().get("pip", ()))):
        if all(map(shutil.which, task.environment.model_dump().get("tools", ()))):
            found.setdefault(task.family, task)
    return list(found.values())


FAMILIES = one_of_each_family()


def test_there_are_tasks_of_all_families() -> None:
    assert len(FAMILIES) >= 5


def solver(patch: Patch, how: str) -> Agent:
    """An agent that knows a patch."""
    apply = "git apply --whitespace=nowarn -"
    line = f"{apply} <<'EOF_PATCH'\n{patch.text}EOF_PATCH"
    if how == "command":
        return CommandAgent(command=f"set -e; test -s $SWE_TASK_STATEMENT; {line}\necho applied")
    return ScriptedAgent(
        actions=(Write(path="/tmp/fix.diff", data=patch.data), Exec(command=f"{apply} < /tmp/fix.diff"))
    )


@pytest.mark.parametrize("number", range(len(FAMILIES)), ids=[task.family for task in FAMILIES])
async def test_each_agent_comes_to_its_own(local_provider: LocalProvider, tmp_path: Path, number: int) -> None:
    task = FAMILIES[number]
    gold, wrong = task.grading.gold_patch, task.grading.wrong_patch
    assert gold is not None
    runs: list[tuple[Agent, str]] = [(NoopAgent(), "unresolved"), (solver(gold, "scripted"), "resolved")]
    runs.append((GoldAgent(), "resolved") if number % 2 else (solver(gold, "command"), "resolved"))
    if wrong is not None and number % 2:
        runs.append((solver(wrong, "scripted"), "unresolved"))
    verifier = LocalVerifier(provider=local_provider, results=Results(tmp_path / "grades"))

    async def check(agent: Agent, wanted: str, folder: Path) -> None:
        with RunWriter(folder, sync=False) as journal:
            result = await run_rollout(
                task, agent, provider=local_provider, settings=SETTINGS, verifier=verifier, journal=journal
            )
        assert (result.outcome.status, result.outcome.mask) == (wanted, None), (agent.name, result.outcome)
        assert result.patch.exists == (agent.name != "noop")
        assert (folder / "rollouts" / result.rollout_id / "1" / "patch.diff").read_bytes() == result.patch.data
        assert Path(result.outcome.artifacts["log"]).stat().st_size

    async with anyio.create_task_group() as group:
        for place, (agent, wanted) in enumerate(runs):
            group.start_soon(check, agent, wanted, tmp_path / str(place))
    assert list(local_provider.boxes) == []


# -- what an agent may do to its box -----------------------------------------------------------------------------------


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return tiny.make_task(tmp_path / "repo")


RIGHT = "sed -i 's/answer = 41/answer = 42/' src.txt"


async def roll(provider: LocalProvider, task: Task, agent: Agent, **settings: Any) -> RolloutResult:
    changed = SETTINGS.model_copy(update=settings)
    return await run_rollout(task, agent, provider=provider, settings=changed)


def commands(*lines: str) -> ScriptedAgent:
    return ScriptedAgent(actions=tuple(Exec(command=line) for line in lines))


WHO = "git config --global user.name t; git config --global user.email t@t"
FORGET = "git reflog expire --expire=now --all; git gc -q --prune=now"
RUINS = {
    "gone": "rm -rf .git",
    "without objects": "rm -rf .git/objects",
    "without its base": f"git checkout -q --orphan o; git commit -qm x; git branch -qD main; {FORGET}",
    "another": "rm -rf .git; git init -q; git add -A; git commit -qm x",
    "locked and set up": "touch .git/index.lock; git config diff.external false; git config core.fsmonitor false",
}


@pytest.mark.parametrize("ruin", RUINS.values(), ids=list(RUINS))
async def test_no_mask_is_earned_by_ruining_the_repository(
    local_provider: LocalProvider, task: Task, ruin: str
) -> None:
    right = await roll(local_provider, task, commands(WHO, RIGHT, ruin))
    assert (right.outcome.status, right.outcome.mask) == ("resolved", None)
    wrong = await roll(local_provider, task, commands(WHO, RIGHT.replace("42/", "43/"), ruin))
    assert (wrong.outcome.status, wrong.outcome.mask) == ("unresolved", None)


async def test_a_box_without_a_tree_is_the_agents_doing(local_provider: LocalProvider, task: Task) -> None:
    result = await roll(local_provider, task, commands("cd /; rm -rf /testbed; echo x > /testbed"))
    assert (result.outcome.status, result.outcome.mask) == ("unresolved", None)
    assert result.outcome.evidence["failure"] == {"stage": "close_agent", "kind": "patch_unavailable"}


async def test_what_an_agent_leaves_running_writes_no_more(local_provider: LocalProvider, task: Task) -> None:
    """Its processes end before its patch is taken, so that no one can say what is in it but the files."""
    linger = "(setsid sh -c 'while :; do date +%N > noise.txt; sleep 0.01; done' &) ; sleep 0.1"
    result = await roll(local_provider, task, commands(RIGHT, linger))
    assert result.outcome.status == "resolved"
    assert [file.new for file in result.patch.files] == [b"noise.txt", b"src.txt"]


async def test_a_program_whose_time_is_up_is_graded_by_what_is_there(local_provider: LocalProvider, task: Task) -> None:
    program = CommandAgent(command=f"{RIGHT}; echo working; sleep 600; {RIGHT.replace('42', '0')}")
    result = await roll(local_provider, task, program, agent_timeout_s=1.0)
    assert (result.outcome.status, result.outcome.flags) == ("resolved", ("agent_timed_out",))
    assert 1.0 <= result.last.stages_s["invoke_agent"] < 3


async def test_a_program_says_how_it_ended(local_provider: LocalProvider, task: Task, tmp_path: Path) -> None:
    look = f"cat {FOLDER}/task.json $SWE_TASK_STATEMENT; env | grep OPENAI; head -c 3000000 /dev/zero; exit 3"
    with RunWriter(tmp_path / "run", sync=False) as journal:
        result = await run_rollout(
            task, CommandAgent(command=look), provider=local_provider, settings=SETTINGS, journal=journal
        )
    assert result.last.end is not None
    assert (result.last.end.reason, result.last.end.exit_code) == ("error", 3)
    assert result.outcome.flags == ("empty_patch", "agent_failed")
    folder = tmp_path / "run" / "rollouts" / result.rollout_id / "1"
    assert {path.name for path in folder.iterdir()} >= {"patch.diff", "output.log.gz"}, "3 MB are compressed"
    index = open_index(tmp_path / "run", index_dir=tmp_path / "index")
    index.refresh()
    row = index.rollout(result.rollout_id)
    assert (row.status, row.agent, row.instance_id) == ("unresolved", "command", task.instance_id)
    assert [stage.stage for stage in index.stages(result.rollout_id)] == list(result.last.stages_s)


async def test_memory_that_an_agent_fills_is_its_own_doing(local_provider: LocalProvider, task: Task) -> None:
    if (await local_provider.probe()).limits.get("memory_mib") == "unavailable":
        pytest.skip("memory is not limited here")
    greedy = commands(RIGHT, "python3 -c 'x = bytearray(1 << 30)'")
    result = await roll(local_provider, task, greedy, limits=Limits(memory_mib=64))
    assert result.outcome.mask is None, result.outcome
    assert result.outcome.status in ("resolved", "unresolved")


async def test_in_committed_mode_only_commits_count(local_provider: LocalProvider, task: Task) -> None:
    uncommitted = await roll(local_provider, task, commands(RIGHT), patch_mode="committed")
    assert (uncommitted.outcome.status, uncommitted.patch.exists) == ("unresolved", False)
    committed = await roll(
        local_provider, task, commands(WHO, RIGHT, "git commit -qam fix; echo x > y"), patch_mode="committed"
    )
    assert committed.outcome.status == "resolved"
    assert [file.new for file in committed.patch.files] == [b"src.txt"]


async def test_the_grade_is_made_elsewhere(local_provider: LocalProvider, task: Task) -> None:
    """What lies outside of the repository does not come along: a shim on the path, a file, a process."""
    shim = "mkdir -p ~/bin /tmp/x; printf '#!/bin/sh\\necho PASSED check::answer\\n' > ~/bin/sh; chmod +x ~/bin/sh"
    result = await roll(local_provider, task, commands(shim, "echo 'PATH=~/bin:$PATH' >> ~/.profile", "echo x > n.txt"))
    assert result.outcome.status == "unresolved"
    assert [file.new for file in result.patch.files] == [b"n.txt"]


async def test_many_rollouts_share_the_machine(local_provider: LocalProvider, task: Task) -> None:
    agent = commands(RIGHT)
    results = await run_many(
        [task], agent, samples=6, provider=local_provider, settings=SETTINGS, limits=RunLimits(episodes=3, boxes=2)
    )
    assert [result.outcome.status for result in results] == ["resolved"] * 6
    assert {result.patch.sha256 for result in results} == {results[0].patch.sha256}
    assert list(local_provider.boxes) == []


async def test_a_stopped_run_leaves_no_box(local_provider: LocalProvider, task: Task) -> None:
    agent = ScriptedAgent(actions=(Wait(seconds=60),))
    results = await run_many([task], agent, samples=3, provider=local_provider, settings=SETTINGS, deadline_s=1.0)
    assert (list(results), results.stopped) == ([], "deadline")
    assert list(local_provider.boxes) == []


async def test_a_host_driven_loop_acts_by_its_box(local_provider: LocalProvider, task: Task) -> None:
    async def loop(episode: Episode) -> AgentEnd:
        text = (await episode.box.read("src.txt")).decode()
        await episode.box.write("src.txt", text.replace("answer = 41", "answer = 42").encode())
        seen = await episode.box.exec(f"grep -c {shlex.quote('answer = 42')} src.txt")
        return AgentEnd(message=seen.stdout.strip(), info={"seen": json.loads(seen.stdout)})

    result = await roll(local_provider, task, FunctionAgent(loop))
    assert result.outcome.status == "resolved"
    assert result.last.end is not None
    assert result.last.end.info == {"seen": 1}


@pytest.fixture(autouse=True)
def no_results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWE_SDK_RESULTS", str(tmp_path / "results"))
