"""SIGKILL of a run at a random moment, and of whoever goes on with it; then count what is there."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swe_sdk.runs.run import Run
from swe_sdk.store.layout import artifact_folder
from tests.chaos.kill_points import kill_after, left_files, left_processes, sweep

TASKS = ("mini__calc-1", "mini__fairsplit-1", "mini__inifile-1", "mini__ttlcache-1")
SAMPLES = 2
_ENDS_WITHIN_S = 120.0


@dataclass
class Report:
    """What the kills of one run came to. ``problems`` is empty if everything held."""

    after_s: tuple[float, ...]
    hits: int = 0
    kept: int = 0
    """Rollouts that were finished when the last kill came."""
    restarted: int = 0
    """Rollouts that were under way then."""
    problems: list[str] = field(default_factory=list)


def duration_s(state: Path, folder: Path) -> float:
    """How long an undisturbed run takes, its environments built before."""
    for name in ("warm-1", "warm-2"):
        started = time.monotonic()
        command = _run_command(folder / name)
        subprocess.run(command, env=_env(state, folder), check=True, capture_output=True, timeout=600)
    return time.monotonic() - started


def random_kills(seed: int, count: int, longest_s: float) -> Iterator[tuple[float, ...]]:
    """Moments at which a run, and those who go on with it, are killed; the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        yield tuple(chance.uniform(0.0, longest_s) for _ in range(chance.choice((1, 1, 2))))


def kill_and_resume(state: Path, folder: Path, number: int, after_s: tuple[float, ...]) -> Report:
    """Start a run, kill it, look at it, go on with it (killed again, perhaps), and look around."""
    report, path = Report(after_s), folder / f"run-{number}"
    finished: dict[str, Any] = {}
    pids = []
    for moment in after_s:
        process = _start(state, folder, path)
        pids.append(process.pid)
        report.hits += kill_after(process, moment)
        finished = _look(path, finished, report)
    last = _start(state, folder, path)
    pids.append(last.pid)
    try:
        code = last.wait(_ENDS_WITHIN_S)
        report.problems += [f"the last one ended with {code}"] * (code != 0)
    except subprocess.TimeoutExpired:
        last.kill()
        last.wait()
        report.problems.append("the last one did not end")
    _look(path, finished, report)
    report.problems += _wrong_end(path) + _run_twice(path) + left_processes(state)
    sweep(state, folder)
    report.problems += [problem for pid in pids for problem in left_files(state, pid)]
    return report


def _start(state: Path, folder: Path, path: Path) -> subprocess.Popen[bytes]:
    """A run or, where one has begun there, who goes on with it."""
    begun = (artifact_folder(path) / "config.json").exists()
    command = [sys.executable, "-m", "swe_sdk", "resume", str(path), "--quiet"] if begun else _run_command(path)
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, env=_env(state, folder), stdout=quiet, stderr=quiet, start_new_session=True)


def _look(path: Path, before: dict[str, Any], report: Report) -> dict[str, Any]:
    """Open the store; what was finished before is still there, as it was."""
    if not (path / "run.json").exists():
        return before
    with Run(path) as run:
        rows = {row.rollout_id: row for row in run.rollouts.rows()}
        metrics = run.metrics
    finished = {name: row.model_dump(exclude={"seq", "updated_at"}) for name, row in rows.items() if row.is_final}
    for name, row in before.items():
        if finished.get(name) != row:
            report.problems.append(f"{name} was finished, and is now {finished.get(name)}")
    if metrics.finished + metrics.unfinished != len(rows) or metrics.finished != len(finished):
        report.problems.append(f"the counts do not add up: {metrics.summary}")
    report.kept, report.restarted = len(before), sum(row.attempt > 1 for row in rows.values())
    return finished


def _wrong_end(path: Path) -> list[str]:
    """Every rollout is there, once, and resolved: a kill is no reason for a zero."""
    if not (path / "run.json").exists():
        return ["there is no run"]
    with Run(path) as run:
        wanted = {f"{task}.{sample}" for task in TASKS for sample in range(SAMPLES)}
        rows = {row.rollout_id: row.status for row in run.rollouts.rows()}
        wrong = {name: rows.get(name) for name in wanted if rows.get(name) != "resolved"}
        problems = [f"not resolved: {wrong}"] if wrong else []
        problems += [f"not asked for: {rows.keys() - wanted}"] if rows.keys() - wanted else []
        return problems + ([] if run.finished else ["it is not finished"])


def _run_twice(path: Path) -> list[str]:
    """From the journals themselves: a rollout ends once, and no attempt of it begins afterwards."""
    lines = sorted(
        (line for file in (path / "events").glob("*.jsonl") for line in _lines(file)), key=lambda line: line["t"]
    )
    ends: Counter[str] = Counter()
    problems = []
    for event in (line["event"] for line in lines):
        name = event.get("rollout_id")
        if event["kind"] == "rollout_ended":
            ends[name] += 1
        elif event["kind"] == "attempt_started" and ends[name]:
            problems.append(f"{name} was finished, and attempt {event['attempt']} was begun")
    return problems + [f"{name} ended {count} times" for name, count in ends.items() if count > 1]


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    """All lines but one that a kill cut off, which can only be the last."""
    *whole, rest = file.read_bytes().split(b"\n")
    yield from (json.loads(line) for line in whole)
    assert rest == b"" or not rest.endswith(b"}}")


def _run_command(path: Path) -> list[str]:
    arguments = ["run", "mini", "--agent", "gold", "--provider", "local", "--workers", "2", "--samples", str(SAMPLES)]
    return [sys.executable, "-m", "swe_sdk", *arguments, "--path", str(path), "--quiet", "--instance-ids", *TASKS]


def _env(state: Path, folder: Path) -> dict[str, str]:
    return {**os.environ, "SWE_SDK_STATE": str(state), "SWE_SDK_RESULTS": str(folder / "results")}
