"""The least that grading in a container can take: bare API calls, in turns with grades of the SDK."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from benchmarks.parity.grades import Case
from benchmarks.parity.ours import grade_of
from benchmarks.parity.tasks import Row
from swe_sdk import aio
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.store.results import Results


@dataclass
class Pairs:
    """Overheads in seconds, by case, in the order in which they were measured."""

    floor_s: dict[Case, list[float]] = field(default_factory=dict)
    ours_s: dict[Case, list[float]] = field(default_factory=dict)
    steps_s: dict[str, list[float]] = field(default_factory=dict)
    """What the SDK says of where its time went."""


async def measure(
    api: Any,
    provider: DockerProvider,
    rows: Sequence[Row],
    patches: Mapping[Case, str],
    *,
    workers: int,
    rounds: int,
    folder: Path,
) -> Pairs:
    """Each case by both, one after the other and the next time the other way round, ``workers`` cases at a time."""
    pairs, by_id, results = Pairs(), {row["instance_id"]: row for row in rows}, Results(folder)
    tasks = load_tasks(list(rows), unknown_fields="ignore")
    limiter = anyio.CapacityLimiter(workers)

    async def floor(case: Case) -> None:
        run = to_thread.run_sync(bare_calls_s, api, by_id[case[0]], patches[case])
        pairs.floor_s.setdefault(case, []).append(await run)

    async def ours(case: Case) -> None:
        start = time.perf_counter()
        outcome = await aio.grade(tasks[case[0]], patches[case], provider=provider, results=results)
        wall_s = time.perf_counter() - start
        pairs.ours_s.setdefault(case, []).append(wall_s - grade_of(outcome.model_dump(mode="json")).eval_s)
        for step, seconds in outcome.timings_s.items():
            pairs.steps_s.setdefault(step, []).append(seconds)

    async def both(case: Case, turn: int) -> None:
        async with limiter:
            for measured in (floor, ours) if turn % 2 else (ours, floor):
                await measured(case)

    for turn in range(rounds):
        async with anyio.create_task_group() as group:
            for place, case in enumerate(patches):
                group.start_soon(both, case, turn + place)
    return pairs


def bare_calls_s(api: Any, row: Row, patch: str) -> float:
    """The seconds of create, start, put_archive, exec of ``git apply``, exec of the evaluation script and rm -f, less
    those of the script. Blocks.
    """
    start = time.perf_counter()
    host = api.create_host_config(init=True, network_mode="none")
    container = api.create_container(row["image"], ["tail", "-f", "/dev/null"], host_config=host)["Id"]
    try:
        api.start(container)
        api.put_archive(container, "/", _archive({"tmp/patch.diff": patch, "eval.sh": row["eval_script"]}))
        if patch:
            _run(api, container, ["git", "apply", "--verbose", "/tmp/patch.diff"], "/testbed")
        before = time.perf_counter()
        _run(api, container, ["/bin/bash", "/eval.sh"], "/")
        eval_s = time.perf_counter() - before
    finally:
        api.remove_container(container, force=True)
    return time.perf_counter() - start - eval_s


def _run(api: Any, container: str, command: list[str], workdir: str) -> None:
    for _chunk in api.exec_start(api.exec_create(container, command, workdir=workdir)["Id"], stream=True):
        pass


def _archive(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            data = text.encode("utf-8", "surrogateescape")
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
