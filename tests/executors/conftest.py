from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from swe_sdk.model.task import Task
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.sandbox.registry import named_provider
from tests.executors.engines import RayCluster, joined_cluster, need_package
from tests.grading.tiny import make_task
from tests.leaks import memory_folder, traces_of
from tests.shared import lacking


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """A real cluster of two nodes on this machine."""
    need_package("ray")
    with joined_cluster() as cluster:
        yield cluster


@pytest.fixture(autouse=True, scope="module")
def own_state() -> Iterator[Path]:
    """What this process and those that it starts make lies here, and nothing of it is left in the end.

    Workers have providers by name, which are as the environment says: so it is the same for all tests of a file.
    """
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-executors-", dir=memory_folder()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWE_SDK_STATE", str(folder))
        yield folder
        anyio.run(named_provider("local").aclose)
        deadline = time.monotonic() + 10  # workers of another process go on their own
        while (left := _left_in(folder)) and time.monotonic() < deadline:
            time.sleep(0.05)
        shutil.rmtree(folder, ignore_errors=True)
        assert left == {}


def _left_in(folder: Path) -> dict[str, list[str]]:
    return {what: names for what, names in traces_of(folder).items() if what != "owners"}


@pytest.fixture
def local_works(own_state: Path) -> None:
    """Skip where there are no local sandboxes."""
    health = anyio.run(named_provider("local").probe)
    if not health.works:
        lacking(f"local sandboxes do not work here: {health.reason} ({health.remedy})")


@pytest.fixture
def task(tmp_path: Path, local_works: None) -> Task:
    """The tiny task."""
    return make_task(tmp_path / "repo")


@pytest.fixture
def tasks(task: Task) -> TaskSet:
    """Three of it, by other names."""
    return TaskSet([task.model_copy(update={"instance_id": f"tiny__answer-{n}"}) for n in (1, 2, 3)], name="tiny")
