"""Runs of several agents on several providers, in one process, all of which save themselves:
``python -m tests.chaos.fleet_program FOLDER RUNS MODEL_URL``.

It may be killed at any time and started again: then each of them goes on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

import swe_sdk as swe
from swe_sdk import aio
from swe_sdk.agents.contract import Agent
from swe_sdk.agents.registry import make_agent
from swe_sdk.model.task import Task
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.registry import get_provider
from swe_sdk.store.layout import artifact_folder
from swe_sdk.testing.scripted_model import Turn
from tests.agents.dialects import DIALECTS
from tests.grading.tiny import make_task
from tests.runs.checkpointed import FIX, steps

STEPS, WAIT_S, BUDGET_S, AT_ONCE = 5, 1.0, 900.0, 2


@dataclass(frozen=True)
class Part:
    """The rollouts of one agent on one provider: a run of its own."""

    agent: str
    provider: str
    rollouts: int

    @property
    def name(self) -> str:
        """Of its run directory, and of its tasks."""
        return f"{self.agent}-{self.provider}"


def save_fleet(folder: Path, parts: Sequence[Part], every_s: float) -> None:
    """Write what there is to do to a folder."""
    task = make_task(folder / "repo")
    names = {part.name: [f"tiny__{part.name}-{number}" for number in range(part.rollouts)] for part in parts}
    told = {
        name: task.model_copy(update={"instance_id": name, "problem_statement": f"The answer of {name} is wrong."})
        for each in names.values()
        for name in each
    }
    fleet = {
        "parts": [vars(part) for part in parts],
        "every_s": every_s,
        "tasks": {part: [told[name].private() for name in each] for part, each in names.items()},
    }
    (folder / "fleet.json").write_text(json.dumps(fleet))


def load_parts(folder: Path) -> list[Part]:
    """What :func:`save_fleet` has written."""
    return [Part(**part) for part in json.loads((folder / "fleet.json").read_text())["parts"]]


def agent_of(part: Part) -> Agent:
    """A scripted one waits by itself; the others wait for their model."""
    return steps(STEPS, WAIT_S) if part.agent == "scripted" else make_agent(part.agent)


def scripts(parts: Sequence[Part]) -> Iterator[tuple[str, list[Turn]]]:
    """What the model says to each agent, by the name under which that knows the model: the same work as the script."""
    commands = [f"echo step {number} >> steps.txt" for number in range(1, STEPS + 1)]
    for name in sorted({part.agent for part in parts} - {"scripted"}):
        turns = DIALECTS[name].script(*commands, str(FIX.command))
        yield name, [turn.model_copy(update={"delay_s": WAIT_S}) for turn in turns]


async def run_part(
    folder: Path, path: Path, part: Part, provider: SandboxProvider, model_url: str, every_s: float, tasks: list[Task]
) -> None:
    """Begin, or go on."""
    if (artifact_folder(path) / "config.json").exists():
        run = await aio.resume(path, provider=provider, progress=False)
    else:
        run = await aio.run(
            tasks,
            agent_of(part),
            provider=provider,
            model=swe.ModelEndpoint(base_url=model_url, model=part.agent) if part.agent != "scripted" else None,
            path=path,
            limit=AT_ONCE,
            budget=BUDGET_S,
            checkpoint_every=every_s,
            progress=False,
        )
    run.close()


async def main(folder: Path, runs: Path, model_url: str) -> None:
    """All parts at the same time."""
    fleet = json.loads((folder / "fleet.json").read_text())
    parts = load_parts(folder)
    providers = {name: await get_provider(name) for name in sorted({part.provider for part in parts})}
    try:
        async with anyio.create_task_group() as group:
            for part in parts:
                tasks = [Task.model_validate(row) for row in fleet["tasks"][part.name]]
                provider = providers[part.provider]
                group.start_soon(run_part, folder, runs / part.name, part, provider, model_url, fleet["every_s"], tasks)
    finally:
        for provider in providers.values():
            await provider.aclose()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
