"""A node of another version of this package gets no jobs, however that version describes itself."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from swe_sdk.executors.local import this_node
from swe_sdk.executors.ray.executor import RayExecutor
from swe_sdk.executors.ray.worker import WorkerLost, answered, started_worker


class RayOf:
    """As much of Ray as it takes to start a worker, which says ``told`` of itself."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.killed: list[object] = []
        self.exceptions = SimpleNamespace(RayError=ConnectionError)
        strategy = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda *_, **__: None)
        self.util = SimpleNamespace(scheduling_strategies=strategy)

        async def start() -> str:
            return json.dumps(told)

        self.actor = SimpleNamespace(start=_call(start), serve=_call(lambda: None))

    def remote(self, _class: type) -> Any:
        return SimpleNamespace(options=lambda **_: _call(lambda *_: self.actor))

    def kill(self, actor: object) -> None:
        self.killed.append(actor)


def _call(function: Any) -> Any:
    return SimpleNamespace(remote=function)


@pytest.mark.parametrize("more", [{}, {"a_new_field": 1}], ids=["the same fields", "other fields"])
def test_a_worker_of_another_version_is_lost(more: dict[str, Any]) -> None:
    ray = RayOf({**this_node("n", 1).model_dump(mode="json"), "sdk_version": "9.9", **more})
    with pytest.raises(WorkerLost, match=r"version 9\.9"):
        anyio.run(started_worker, RayExecutor(), ray, "id", "n", 1)
    assert ray.killed == [ray.actor]


SAID = """The actor died because of an error raised in its creation task, \x1b[36mray::RayNode\x1b[39m (pid=1)
  File "/a/_base.py", line 449, in result
    return self.__get_result()
           ^^^^^^^^^^^^^^^^^^^
RuntimeError: The actor with name RayNode failed to import on the worker:

\x1b[36mray::RayNode.__init__()\x1b[39m (pid=1)
  File "/b/function_manager.py", line 606, in _load_actor_class_from_gcs
    actor_class = pickle.loads(pickled_class)
ModuleNotFoundError: No module named 'swe_sdk'"""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (SAID, "No module named 'swe_sdk'"),
        ("The actor died.\n\tclass_name: RayNode\n", "actor died. class_name: RayNode"),
    ],
    ids=["a traceback", "facts"],
)
def test_what_ray_says_of_a_lost_worker_is_told_in_a_line(said: str, told: str) -> None:
    async def dies() -> None:
        raise ConnectionError(said)

    with pytest.raises(WorkerLost) as lost:
        anyio.run(answered, RayOf({}), dies())
    assert str(lost.value).endswith(told)
    assert "\x1b" not in str(lost.value)
    assert len(str(lost.value)) < 100


def test_one_of_this_version_is_not() -> None:
    ray = RayOf(this_node("n", 3).model_dump(mode="json"))
    worker = anyio.run(started_worker, RayExecutor(), ray, "id", "n", 3)
    assert (worker.info.slots, ray.killed) == (3, [])
