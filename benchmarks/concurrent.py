"""Many boxes at once: how long until all have been used, and what each holds of the machine's memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio

from benchmarks.lab import Lab
from benchmarks.processes import descendants, pss_bytes
from benchmarks.rows import Row, Target, Unavailable, missing
from swe_sdk.sandbox.contract import Box, SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider

TITLE = "Many boxes at once"
_MB = 1e6
_TARGETS_S = {50: Target(0.6)}
_TARGET_MB = Target(2.5)


@dataclass
class Crowd:
    """What was measured of a number of boxes, over all repeats."""

    size: int
    used_s: list[float] = field(default_factory=list)
    """Until all were created and had run a program."""
    exec_s: list[float] = field(default_factory=list)
    """Further programs, spread over all of them."""
    closed_s: list[float] = field(default_factory=list)
    processes_mb: list[float] = field(default_factory=list)
    """Of the processes of a box, and its share in the one process that made all of them."""
    kernel_mb: list[float] = field(default_factory=list)
    """What the boxes' control group counts: the same, and what the kernel holds for them."""


async def rows(lab: Lab) -> list[Row]:
    """Rows for each size."""
    found: list[Row] = []
    for size in lab.settings.crowds:
        crowd = Crowd(size)
        problem: Unavailable | None = None
        for _ in range(lab.settings.crowd_repeats):
            before = descendants()
            async with lab.provider() as provider:
                problem = await _measure(provider, crowd, before, lab.settings.crowd_execs) or problem
        found += _rows(crowd, lab.settings.crowd_execs, problem)
    return found


async def _measure(provider: LocalProvider, crowd: Crowd, before: set[int], execs: int) -> Unavailable | None:
    boxes: list[Box] = []

    async def create_and_use() -> None:
        box = await provider.create(SandboxSpec())
        boxes.append(box)
        await _use(box)

    group_before = _group_bytes(provider)
    crowd.used_s.append(await _all(create_and_use for _ in range(crowd.size)))
    problem = _measure_memory(provider, crowd, before, group_before)
    crowd.exec_s.append(await _all(partial(_use_often, box, execs // crowd.size) for box in boxes))
    crowd.closed_s.append(await _all(box.close for box in boxes))
    return problem


async def _use(box: Box) -> None:
    result = await box.exec(["/bin/true"])
    assert result.exit_code == 0, result


async def _use_often(box: Box, times: int) -> None:
    for _ in range(times):
        await _use(box)


async def _all(work: Iterable[Callable[[], Coroutine[None, None, None]]]) -> float:
    """Do everything at the same time; the seconds until all of it was done."""
    start = time.perf_counter()
    async with anyio.create_task_group() as group:
        for one in work:
            group.start_soon(one)
    return time.perf_counter() - start


def _measure_memory(
    provider: LocalProvider, crowd: Crowd, before: set[int], group_before: int | None
) -> Unavailable | None:
    group_after = _group_bytes(provider)
    if group_before is not None and group_after is not None:
        crowd.kernel_mb.append((group_after - group_before) / crowd.size / _MB)
    try:
        crowd.processes_mb.append(pss_bytes(descendants() - before) / crowd.size / _MB)
    except Unavailable as error:
        return error
    return None


def _group_bytes(provider: LocalProvider) -> int | None:
    """What the control group of all boxes is charged for; None where there is none."""
    group = provider.zygote.cgroup
    for path in [] if group is None else group.paths:
        for name in ("memory.usage_in_bytes", "memory.current"):
            if (Path(path) / name).exists():
                return int((Path(path) / name).read_text())
    return None


def _rows(crowd: Crowd, execs: int, problem: Unavailable | None) -> list[Row]:
    size, executed = crowd.size, execs // crowd.size * crowd.size
    found = [
        _row(f"{size} boxes, created and used", crowd.used_s, "s", _TARGETS_S.get(size)),
        _row(f"{size} boxes, {executed} further execs", crowd.exec_s, "s"),
        _row(f"{size} boxes, closed", crowd.closed_s, "s"),
    ]
    memory = f"{size} boxes, memory of each"
    if crowd.processes_mb:
        found.append(
            _row(f"{memory}: its processes, and its share of the zygote", crowd.processes_mb, "MB", _TARGET_MB)
        )
    elif problem is not None:
        found.append(missing(memory, problem))
    if crowd.kernel_mb:
        found.append(_row(f"{memory}: as the control group counts, with the kernel's", crowd.kernel_mb, "MB"))
    return found


def _row(name: str, values: list[float], unit: str, target: Target | None = None) -> Row:
    return Row(name, statistics.median(values), unit, min(values), target=target)
