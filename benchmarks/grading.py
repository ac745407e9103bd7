"""What a grade takes beyond the tests themselves, once its environment has been built."""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.lab import Lab
from benchmarks.rows import Row, Target, Unavailable, missing
from benchmarks.shared import shared_datasets
from swe_sdk import aio
from swe_sdk.errors import MissingTool
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.task import Task
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.store.results import Results

TITLE = "Grading overhead: wall clock less the tests' own time"
_SHOWN_STEPS = 7


@dataclass
class Overheads:
    """Of one task's gold patch, over all repeats."""

    seconds: list[float] = field(default_factory=list)
    steps_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """What the grade itself says of where its time went."""

    def add(self, wall_s: float, outcome: Outcome) -> None:
        """Take one grade."""
        assert outcome.resolved, outcome
        self.seconds.append(wall_s - outcome.timings_s["tests"])
        for name, seconds in outcome.timings_s.items():
            self.steps_s[name].append(seconds)

    @property
    def median_ms(self) -> float:
        return statistics.median(self.seconds) * 1e3

    @property
    def steps(self) -> str:
        """The longest steps, in milliseconds."""
        medians = {name: statistics.median(values) * 1e3 for name, values in self.steps_s.items()}
        longest = sorted(medians.items(), key=lambda item: -item[1])
        named = [f"{name} {ms:.0f}" for name, ms in longest if name not in ("total", "tests")]
        return ", ".join(named[:_SHOWN_STEPS])


async def rows(lab: Lab) -> list[Row]:
    """The bundled tasks, and some of django where the shared data is there."""
    found: list[Row] = []
    async with lab.provider() as provider:
        found += await _family(lab, provider, "mini", list(load_tasks("mini"))[: lab.settings.mini_tasks], Target(80))
        if lab.settings.real_tasks:
            try:
                tasks = _django(lab.settings.real_tasks)
            except Unavailable as error:
                found.append(missing("django", error))
            else:
                found += await _family(lab, provider, "django", tasks, Target(200))
    return found


async def _family(lab: Lab, provider: LocalProvider, name: str, tasks: Sequence[Task], target: Target) -> list[Row]:
    results = Results(lab.new_folder("results"))
    overheads: dict[str, Overheads] = {}
    for task in tasks:
        try:
            await aio.prepare(task, provider=provider)
        except MissingTool:
            continue
        await _grade(provider, task, results)  # the first one fills caches
        overheads[task.instance_id] = Overheads()
    for _ in range(lab.settings.grade_repeats):
        for task in tasks:
            if task.instance_id in overheads:
                overheads[task.instance_id].add(*await _grade(provider, task, results))
    return list(_rows(name, overheads, target))


async def _grade(provider: LocalProvider, task: Task, results: Results) -> tuple[float, Outcome]:
    start = time.perf_counter()
    outcome = await aio.grade(task, task.grading.gold_patch, provider=provider, results=results)
    return time.perf_counter() - start, outcome


def _rows(name: str, overheads: dict[str, Overheads], target: Target) -> Iterator[Row]:
    if not overheads:
        yield Row(name, note="none of its tasks works here")
        return
    everything = [seconds for task in overheads.values() for seconds in task.seconds]
    tasks = f"{len(overheads)} task{'s' if len(overheads) > 1 else ''}"
    yield Row(
        f"{name}, overhead of a grade ({tasks})",
        statistics.median(everything) * 1e3,
        "ms",
        min(everything) * 1e3,
        target=target,
    )
    slowest = max(overheads, key=lambda task: overheads[task].median_ms)
    one = overheads[slowest]
    note = f"of which, in ms: {one.steps}"
    yield Row(f"{name}, the slowest: {slowest}", one.median_ms, "ms", min(one.seconds) * 1e3, target=target, note=note)


def _django(count: int) -> list[Task]:
    """Tasks whose sources come from the package index when they are built for the first time."""
    lines = (shared_datasets() / "swebench_sdist" / "tasks_py311.jsonl").read_text("utf-8").splitlines()
    found = [row for row in map(json.loads, lines) if row["repo"] == "django/django"]
    return list(load_tasks(found[-count:]))
