"""The run store: what an event costs, how fast an index is made and asked, how far it lags, windows of a large log."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.lab import Lab
from benchmarks.made_up_runs import write_runs
from benchmarks.rows import Row, Target
from swe_sdk.store.events import OutcomeReached, StepTaken
from swe_sdk.store.filters import SORT_COLUMNS, RolloutFilter
from swe_sdk.store.frames import compress_file
from swe_sdk.store.index import RunIndex, open_index
from swe_sdk.store.layout import events_folder
from swe_sdk.store.windows import WindowedFile
from swe_sdk.store.writer import RunWriter

TITLE = "Run store"
_RUNS = 20
_APPENDS = 2000
_STEP = StepTaken(rollout_id="django__django-12345.0", attempt=1, n=3, step_kind="model", summary="x" * 80, seconds=1.5)
_FILTERS = (
    RolloutFilter(),
    RolloutFilter(status=("masked",)),
    RolloutFilter(mask_kind=("host_oom",)),
    RolloutFilter(text="sympy__sympy-11"),
    RolloutFilter(text="django"),
    RolloutFilter(run=("run-003",)),
    RolloutFilter(run=("run-003",), status=("unresolved",)),
    RolloutFilter(agent=("opencode",)),
    RolloutFilter(tags={"shard": "3"}),
    RolloutFilter(provider=("docker",), family=("r2e-gym",)),
)


async def rows(lab: Lab) -> list[Row]:
    """Appends, an index made anew, pages, followers, windows."""
    folder = lab.new_folder("store")
    runs = folder / "runs"
    write_runs(runs, _RUNS, lab.settings.store_rollouts)
    found = [*_appends(folder), *_rebuild(runs, folder)]
    with open_index(runs, index_dir=folder / "index") as index:
        found += [*_pages(index), *_summaries(index)]
    return [*found, *_followed(folder, lab), *_windows(folder, lab.settings.store_log_bytes)]


def _appends(folder: Path) -> Iterator[Row]:
    with RunWriter(folder / "appends") as writer:
        appended = _times(lambda: writer.append(_STEP), _APPENDS)
        line = writer.journal_path.read_bytes().splitlines(keepends=True)[-1]
        fd = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        bare = _times(lambda: os.write(fd, line), _APPENDS)
        os.close(fd)
        yield Row("bare write of its line", _median(bare) * 1e6, "µs", min(bare) * 1e6)
        ratio = _median(appended) / _median(bare)
        yield Row("append a step", _median(appended) * 1e6, "µs", min(appended) * 1e6, ratio, "bare write of its line")
        outcome = OutcomeReached.model_validate({"rollout_id": "a.0", "attempt": 1, "outcome": _outcome()})
        durable = _times(lambda: writer.append(outcome), 50)
        yield Row(
            "append a durable outcome", _median(durable) * 1e6, "µs", min(durable) * 1e6, note="on the state's disk"
        )


def _outcome() -> dict[str, object]:
    patch = {"exists": True, "sha256": "0" * 64}
    return {"instance_id": "a", "family": "f", "status": "resolved", "reward": 1.0, "patch": patch}


def _rebuild(runs: Path, folder: Path) -> Iterator[Row]:
    journals = [path for run in runs.iterdir() for path in events_folder(run).iterdir()]
    start = time.process_time()
    events = 0
    for journal in journals:
        with journal.open("rb") as lines:
            for line in lines:
                json.loads(line)
                events += 1
    parsed = (time.process_time() - start) / events * 1e5
    start = time.process_time()
    open_index(runs, index_dir=folder / "index").close()
    indexed = (time.process_time() - start) / events * 1e5
    yield Row("json.loads of 100,000 events, CPU", parsed, "s")
    note = f"measured on {events:,} events"
    yield Row("index 100,000 events anew, CPU", indexed, "s", target=Target(3), note=note)


def _pages(index: RunIndex) -> Iterator[Row]:
    slowest: list[float] = []
    for chosen in _FILTERS:
        times = [
            _median(
                _times(lambda c=chosen, s=sort, d=down: index.rollouts(c, sort=s, descending=d), 3, time.process_time)
            )
            for sort in SORT_COLUMNS
            for down in (False, True)
        ]
        slowest.append(max(times))
        name = chosen.model_dump_json(exclude_defaults=True)
        yield Row(f"page of 50, {name}, slowest sort, CPU", max(times) * 1e3, "ms", min(times) * 1e3)
    yield Row("page of 50, slowest of all", max(slowest) * 1e3, "ms", target=Target(20))
    deep = _times(lambda: index.rollouts(sort="spent_s", offset=index.count() // 2), 5, time.process_time)
    yield Row("page of 50, in the middle of all", _median(deep) * 1e3, "ms", min(deep) * 1e3, target=Target(20))


def _summaries(index: RunIndex) -> Iterator[Row]:
    calls: dict[str, Callable[[], object]] = {
        "all runs with their counts, CPU": index.runs,
        "groups by kind of mask, CPU": lambda: index.groups("mask_kind"),
        "sums of all budgets, CPU": index.budget_totals,
        "refresh when nothing is new, CPU": index.refresh,
    }
    for name, call in calls.items():
        times = _times(call, 7, time.process_time)
        yield Row(name, _median(times) * 1e3, "ms", min(times) * 1e3)


_WRITE = """
import sys, time
from swe_sdk.store.events import StepTaken
from swe_sdk.store.writer import RunWriter
with RunWriter(sys.argv[1], sync=False) as writer:
    end = time.monotonic() + float(sys.argv[3])
    n = 0
    while time.monotonic() < end:
        writer.append(StepTaken(rollout_id=sys.argv[2] + ".0", attempt=1, n=n, step_kind="note", summary="x" * 80))
        n += 1
        time.sleep(0.02)
"""


def _followed(folder: Path, lab: Lab) -> Iterator[Row]:
    """Writers of 50 events a second each, and one index that is refreshed four times a second."""
    run, count = folder / "followed", lab.settings.store_writers
    RunWriter(run, sync=False).close()
    seconds = str(lab.settings.store_writing_s)
    writers = [subprocess.Popen([sys.executable, "-c", _WRITE, str(run), f"w-{n}", seconds]) for n in range(count)]
    behind: list[float] = []
    with open_index(run, index_dir=folder / "index") as index:
        seen: dict[str, float] = {}
        while any(writer.poll() is None for writer in writers):
            time.sleep(0.25)
            index.refresh()
            now = time.time()
            newest = {row.rollout_id: row.updated_at or now for row in index.rollouts(limit=count).rows}
            behind += [now - at for name, at in newest.items() if seen.get(name) != at]
            seen = newest
        index.refresh()
        steps = sum(row.steps for row in index.rollouts(limit=count).rows)
    written = sum(path.read_bytes().count(b'"kind":"step"') for path in events_folder(run).iterdir())
    assert steps == written, "an event was lost"
    name = f"index what {count} writers write, p99 behind"
    value = sorted(behind)[int(len(behind) * 0.99)] if behind else None
    yield Row(name, value, "s", target=Target(0.5), note=f"{written} events, looked at every 0.25 s; none was lost")


def _windows(folder: Path, size: int) -> Iterator[Row]:
    path = folder / "log"
    line = b"2026-01-01 12:00:00 INFO test_%07d ... ok, and some more words that fill the line up to a hundred bytes\n"
    with path.open("wb") as file:
        number = 0
        while file.tell() < size:
            file.write(b"".join(line % n for n in range(number, number + 10_000)))
            number += 10_000
    yield from _looked_at("plain", path)
    start = time.process_time()
    compress_file(path)
    yield Row("compress that log, CPU", time.process_time() - start, "s")
    yield from _looked_at("compressed", path)


def _looked_at(kind: str, path: Path) -> Iterator[Row]:
    with WindowedFile(path) as file:
        mib = file.size >> 20
        first = _times(lambda: file.lines(file.size // 200, 200), 1, time.process_time)
        times: list[float] = []
        for tenth in range(10):
            at = file.size * tenth // 10
            times += _times(lambda at=at: file.read_window(at, 1 << 16), 1, time.process_time)
            times += _times(lambda at=at: file.lines_at(at, 200), 1, time.process_time)
            times += _times(lambda at=at: file.lines(at // 120, 200), 1, time.process_time)
        times += _times(lambda: file.tail(200), 3, time.process_time)
        yield Row(f"{kind} log of {mib} MiB, slowest window, CPU", max(times) * 1e3, "ms", target=Target(50))
        yield Row(f"{kind} log, first jump by line number, CPU", first[0] * 1e3, "ms", note="newlines are counted once")
        searched = _times(lambda: file.find("no such words"), 1, time.process_time)
        yield Row(f"{kind} log, search to its end, CPU", searched[0], "s", target=Target(2))


def _times(call: Callable[[], object], count: int, clock: Callable[[], float] = time.perf_counter) -> list[float]:
    found = []
    for _ in range(count):
        start = clock()
        call()
        found.append(clock() - start)
    return found


def _median(times: list[float]) -> float:
    return statistics.median(times)
