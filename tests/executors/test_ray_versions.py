"""A node of another version of this package gets no jobs, however that version describes itself."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from swe_sdk.executors.local import this_node
from swe_sdk.executors.ray.executor import RayExecutor
from swe_sdk.executors.ray.worker import WorkerLost, started_worker


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


def test_one_of_this_version_is_not() -> None:
    ray = RayOf(this_node("n", 3).model_dump(mode="json"))
    worker = anyio.run(started_worker, RayExecutor(), ray, "id", "n", 3)
    assert (worker.info.slots, ray.killed) == (3, [])
