"""The bundled tasks of all six families are healthy, in local boxes and in containers, by the command of users."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.cli import main
from swe_sdk.model.environment import SourceEnvironment
from swe_sdk.model.task import Task
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.registry import recipe_names
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from tests.sandbox.docker.images import need_engine, tools_image
from tests.shared import lacking

pytestmark = pytest.mark.network
_SEED = int(os.environ.get("SWE_SDK_SEED") or time.time() // 86400)
MINI = Path(__file__).resolve().parents[2] / "datasets" / "mini"


def validated(folder: Path, *options: str) -> dict[str, Any]:
    """What ``swe-sdk validate datasets/mini`` writes."""
    report = folder / "health.json"
    shared = ("--n", "1", "--json", str(report), "--results", str(folder / "results"))
    assert main(["validate", str(MINI), *shared, *options]) == 0
    written: dict[str, Any] = json.loads(report.read_text())
    return written


def chosen() -> list[str]:
    """All tasks; on CI, where every second counts, of those in Python one of each family, another each day."""
    tasks, left_out, seed = load_tasks("mini"), set[str](), random.Random(_SEED)
    for family in recipe_names() if os.environ.get("CI") == "true" else ():
        python = [task.instance_id for task in tasks if task.family == family and _is_python(task)]
        left_out.update(seed.sample(python, max(0, len(python) - 1)))
    return [name for name in tasks.ids if name not in left_out]


def _is_python(task: Task) -> bool:
    return isinstance(task.environment, SourceEnvironment) and bool(task.environment.pip)


def require_healthy(report: dict[str, Any], names: Sequence[str]) -> None:
    """Every task is; those that lack a tool here are named, and on CI there is none."""
    tasks = {task["instance_id"]: task for task in report["tasks"]}
    assert {load_tasks("mini")[name].family for name in names} == set(recipe_names())
    assert set(tasks) == set(names)
    lacked = {name for names in report["missing_tools"].values() for name in names}
    for name, task in tasks.items():
        if name not in lacked:
            assert (task["status"], task["problems"], task["flaky"]) == ("healthy", [], []), task
            assert task["runs"] == {"empty": ["unresolved"], "gold": ["resolved"], "wrong": ["unresolved"]}
            assert task["seconds"] > 0
            assert task["disk_mib"] > 0
    if lacked:
        lacking(f"tools that are not here, and the tasks that need them: {report['missing_tools']}")


def test_in_local_boxes(tmp_path: Path) -> None:
    require_healthy(validated(tmp_path, "--provider", "local"), load_tasks("mini").ids)


@pytest.fixture
def docker_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of the test's own; what was built in the engine goes with it."""
    need_engine()
    state = tmp_path / "state"
    monkeypatch.setenv("SWE_SDK_STATE", str(state))
    yield state

    async def delete() -> None:
        provider = DockerProvider(state=state)
        for record in (state / "docker/environments").glob("*.json"):
            for snapshot in await provider.snapshots():
                if snapshot.id in record.read_text():
                    await provider.delete_snapshot(snapshot.id)
        await provider.aclose()

    anyio.run(delete)


def test_in_containers(tmp_path: Path, docker_state: Path) -> None:
    print(f"the seed is {_SEED} ($SWE_SDK_SEED)")
    names = chosen()
    command = ("--provider", "docker", "--base-image", tools_image(), "--instance-ids", *names)
    require_healthy(validated(tmp_path, *command), names)
