"""Arguments that are no such thing: the error names them and says what is wanted, before anything is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import swe_sdk as swe
from swe_sdk import aio
from swe_sdk.agents import GoldAgent
from swe_sdk.errors import InputError
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.sandbox.providers.local.provider import LocalProvider

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tasks": None}, "tasks=None are no tasks"),
        ({"tasks": 3}, "tasks=3 are no tasks"),
        ({"tasks": b"mini"}, "are no tasks"),
        ({"tasks": {"mini__calc-1": 1}}, "are no tasks"),
        ({"tasks": ["mini__calc-1"]}, "'mini__calc-1' is no task"),
        ({"agent": 3}, "agent=3 is none: it has no name"),
        ({"agent": object()}, "is none: it has no name"),
        ({"agent": swe.agents.MiniSweAgent}, "agent=MiniSweAgent is a class"),
        ({"provider": 3}, "provider=3 is none"),
        ({"policy": 3}, "policy=3 is no policy"),
        ({"model": "http://127.0.0.1:8000/v1"}, "is no model"),
        ({"model": {"base_url": "x"}}, "is no model"),
    ],
)
async def test_what_is_no_such_thing_is_named(
    tasks: TaskSet, tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    given = {"tasks": tasks, "agent": "noop", "path": tmp_path / "run", "progress": False, **arguments}
    with pytest.raises(InputError, match=words) as caught:
        await aio.run(**given)
    assert caught.value.remedy
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"agent": "gold"}, "the agent of this run is 'noop', and not 'gold'"),
        ({"agent": GoldAgent()}, "the agent of this run is 'noop', and not 'gold'"),
        ({"limit": 0}, "argument: limit"),
    ],
)
async def test_a_run_is_of_one_agent(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    path = tmp_path / "run"
    with await aio.run(list(tasks)[:1], "noop", provider=local_provider, path=path, progress=False) as run:
        with pytest.raises(InputError, match="go by their ids"):
            run.rollouts[0]  # type: ignore[index]
        with pytest.raises(InputError, match="count from 1"):
            run.rollouts.page(1, -1)
        with pytest.raises(InputError, match="cannot write rows"):
            run.export_nemo_gym(tmp_path / "no" / "such" / "folder.jsonl")
    with pytest.raises(InputError, match=words):
        await aio.resume(path, provider=local_provider, **arguments)
    with await aio.resume(path, provider=local_provider, agent="noop", progress=False) as run:
        assert run.finished


async def test_a_run_is_of_one_model(local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path) -> None:
    first, other = (swe.ModelEndpoint(base_url="http://127.0.0.1:9/v1", model=name) for name in ("one", "two"))
    path = tmp_path / "run"
    one = list(tasks)[:1]
    (await aio.run(one, "noop", model=first, provider=local_provider, path=path, progress=False)).close()
    with pytest.raises(InputError, match="the model of this run is 'one', and not 'two'"):
        await aio.resume(path, provider=local_provider, model=other, progress=False)
    moved = swe.ModelEndpoint(base_url="http://127.0.0.1:10/v1", model="one")
    (await aio.resume(path, provider=local_provider, model=moved, progress=False)).close()
