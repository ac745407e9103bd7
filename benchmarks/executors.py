"""What it costs to have jobs carried out elsewhere: ``python -m benchmarks.executors [--quick] [--json OUT]``.

Two nodes of a real Ray cluster on this machine, each with one processor and a state directory of its own. Grades here
sleep most of their time, as grades of large repositories mostly keep one processor of a large machine busy: what is
measured is whether nodes wait for each other, not how many processors this machine has.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from benchmarks.report import Conditions, section_markdown
from benchmarks.rows import Row, Section, Target
from benchmarks.state import default_state
from swe_sdk import aio
from swe_sdk.executors.contract import Job, Pool
from swe_sdk.executors.local import LocalExecutor
from swe_sdk.executors.ray.executor import RayExecutor
from swe_sdk.model.task import Task
from swe_sdk.testing.executor_work import ECHO
from swe_sdk.testing.tiny_task import tiny_task

TITLE = "Executors: overhead of a job, and two nodes against one"
_STORE_BYTES = 80 << 20
_ONE = "one"
"""A resource that only the first node has."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    warm_up: int = 50
    noops: int = 1000
    grades: int = 8
    sleep_s: float = 8.0
    rounds: int = 2


QUICK = Sizes(warm_up=5, noops=20, grades=2, sleep_s=0.5, rounds=1)


async def rows(sizes: Sizes) -> list[Row]:
    """All rows; the cluster is there already."""
    found: list[Row] = []
    for name, executor in (("local", LocalExecutor(slots=2)), ("ray", RayExecutor())):
        async with executor.open() as pool:
            await _until_ready(pool, 2 if name == "ray" else 1)
            found += await _noops(name, pool, sizes)
    return [*found, *await _grades(sizes)]


async def _until_ready(pool: Pool, nodes: int) -> None:
    while len(pool.nodes()) < nodes:
        await anyio.sleep(0.05)


async def _noops(name: str, pool: Pool, sizes: Sizes) -> list[Row]:
    return [row for keyed in (False, True) for row in await _noops_of(name, pool, sizes, keyed)]


async def _noops_of(name: str, pool: Pool, sizes: Sizes, keyed: bool) -> list[Row]:
    target = Target(5.0) if name == "ray" else None
    await _all(pool, sizes.warm_up, "warm" if keyed else None)
    one = [await _timed(partial(_run, pool, n, f"one {n}" if keyed else None)) for n in range(sizes.noops // 5)]
    many = await _timed(partial(_all, pool, sizes.noops, "many" if keyed else None)) / sizes.noops
    what = f"{name}: {'keyed' if keyed else 'plain'} no-op job"
    return [
        Row(f"{what}, one at a time", statistics.median(one) * 1e3, "ms", min(one) * 1e3, target=target),
        Row(f"{what}, {sizes.noops} at once, each", many * 1e3, "ms", target=target),
    ]


async def _run(pool: Pool, number: int, key: str | None) -> None:
    result = await pool.run(Job(id=str(number), work=ECHO, input={"n": number}, key=key))
    assert result.output == {"n": number}, result


async def _all(pool: Pool, count: int, prefix: str | None) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(_run, pool, number, None if prefix is None else f"{prefix} {number}")


async def _timed(work: Callable[[], Awaitable[Any]]) -> float:
    begin = time.perf_counter()
    await work()
    return time.perf_counter() - begin


async def _grades(sizes: Sizes) -> list[Row]:
    """The same grades on one node and on two, in turns."""
    seconds: dict[str, list[float]] = {"one node": [], "two nodes": []}
    with tempfile.TemporaryDirectory() as folder:
        tasks = _sleepy(Path(folder) / "repository", sizes)
        async with RayExecutor(resource=_ONE).open() as one, RayExecutor().open() as two:
            await _until_ready(one, 1)
            await _until_ready(two, 2)
            pools = {"one node": one, "two nodes": two}
            await _grade(two, tasks, Path(folder))  # builds the environment on both
            for _ in range(sizes.rounds):
                for name, pool in pools.items():
                    seconds[name].append(await _timed(partial(_grade, pool, tasks, Path(folder))))
    median = {name: statistics.median(values) for name, values in seconds.items()}
    what = f"{sizes.grades} grades that sleep {sizes.sleep_s:g} s"
    ratio = median["one node"] / median["two nodes"]
    return [
        Row(f"ray: {what}, two nodes x 1", median["two nodes"], "s", min(seconds["two nodes"])),
        Row(
            f"ray: {what}, one node x 1",
            median["one node"],
            "s",
            min(seconds["one node"]),
            ratio,
            "two nodes",
            Target(1.9, is_least=True),
        ),
    ]


def _sleepy(folder: Path, sizes: Sizes) -> list[Task]:
    task = tiny_task(folder, sleep_s=sizes.sleep_s)
    return [task.model_copy(update={"instance_id": f"sleepy-{n}"}) for n in range(sizes.grades)]


async def _grade(pool: Pool, tasks: list[Task], results: Path) -> None:
    outcomes = await aio.grade_many(tasks, executor=pool, provider="local", results=results, progress=False)
    assert all(outcome.resolved for outcome in outcomes), outcomes.summary


@contextmanager
def cluster(state: Path) -> Iterator[None]:
    """A head that works on nothing, and two nodes of one processor; this process has joined it."""
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args=_node(0, state / "head", {}))
    try:
        made.add_node(**_node(1, state / "one", {_ONE: 1}))
        made.add_node(**_node(1, state / "two", {}))
        made.wait_for_nodes()
        ray.init(address=made.address, log_to_driver=False, logging_level="ERROR", namespace="swe_sdk")
        yield
    finally:
        ray.shutdown()
        made.shutdown()


def _node(processors: int, state: Path, resources: dict[str, int]) -> dict[str, Any]:
    return {
        "num_cpus": processors,
        "resources": resources,
        "object_store_memory": _STORE_BYTES,
        "include_dashboard": False,
        "env_vars": {"SWE_SDK_STATE": str(state)},
    }


def main() -> int:
    """Print the table; 0 whatever the figures say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.executors", description=TITLE)
    parser.add_argument("--quick", action="store_true", help="to see that it works, not for figures")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the rows there")
    options = parser.parse_args()
    state = Path(tempfile.mkdtemp(prefix="swe_sdk-executors-", dir=default_state()))
    before, begin = os.getloadavg()[0], time.monotonic()
    try:
        with cluster(state):
            found = anyio.run(rows, QUICK if options.quick else Sizes())
    finally:
        shutil.rmtree(state, ignore_errors=True)
    section = Section("executors", TITLE, found, (before, os.getloadavg()[0]), time.monotonic() - begin)
    print(Conditions.here(state.parent, "quick" if options.quick else "standard").sentence)
    print(f"\n{section_markdown(section)}")
    if options.json is not None:
        options.json.write_text(json.dumps([row.to_dict() for row in found], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
