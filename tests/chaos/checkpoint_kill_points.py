"""SIGKILL of a run that saves itself, at a random moment, and of whoever goes on with it; then count what is there."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swe_sdk.runs.run import Run
from tests.chaos.checkpointed_program import AGENT, BUDGET_S, ROLLOUTS, STEPS, save_tasks
from tests.chaos.kill_points import kill_after, left_files, left_processes, sweep
from tests.runs.checkpointed import done_in, events, every_step, surviving_steps

_ENDS_WITHIN_S = 180.0
_CLOSE_S = 0.05
_ALL = list(range(1, len(AGENT.actions) + 1))
_WAITED_S = 0.2 * STEPS


@dataclass
class Report:
    """What the kills of one run came to. ``problems`` is empty if everything held."""

    after_s: tuple[float, ...]
    hits: int = 0
    restored: int = 0
    """Attempts that went on from a checkpoint."""
    over: int = 0
    """Attempts that started over."""
    saved: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Yard:
    """Where the runs are, and what an undisturbed one came to."""

    state: Path
    folder: Path
    seconds: float = 0.0
    patch_sha256: str = ""
    snapshots: frozenset[str] = frozenset()


def undisturbed(state: Path, folder: Path) -> Yard:
    """Build the environment, and run once without a kill."""
    save_tasks(folder)
    yard = Yard(state, folder)
    for name in ("warm-1", "warm-2"):
        process = _start(yard, folder / name)
        assert not _has_ended_before_an_attempt(process, folder / name, 0)
        started = time.monotonic()
        assert process.wait(_ENDS_WITHIN_S) == 0
    seconds = time.monotonic() - started
    assert _wrong_end(folder / "warm-2", "") == []
    with Run(folder / "warm-2") as run:
        (sha256,) = {row.patch_sha256 for row in run.rollouts.rows()}
    return Yard(state, folder, seconds, sha256 or "", _snapshots(state))


def random_kills(seed: int, count: int, longest_s: float) -> Iterator[tuple[float, ...]]:
    """Moments at which a run, and those who go on with it, are killed, in seconds after the first attempt of each of
    them has begun; the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        yield tuple(chance.uniform(0.0, 0.9) * longest_s for _ in range(chance.choice((1, 1, 2))))


def kill_and_resume(yard: Yard, number: int, after_s: tuple[float, ...]) -> Report:
    """Start a run, kill it, go on with it (killed again, perhaps), and look around."""
    report, path = Report(after_s), yard.folder / f"run-{number}"
    pids = []
    for moment in after_s:
        begun = _attempts(path)
        process = _start(yard, path)
        pids.append(process.pid)
        report.hits += not _has_ended_before_an_attempt(process, path, begun) and kill_after(process, moment)
    last = _start(yard, path)
    pids.append(last.pid)
    try:
        code = last.wait(_ENDS_WITHIN_S)
        report.problems += [f"the last one ended with {code}"] * (code != 0)
    except subprocess.TimeoutExpired:
        last.kill()
        last.wait()
        report.problems.append("the last one did not end")
    report.problems += _wrong_end(path, yard.patch_sha256) + _wrong_history(path)
    report.problems += [f"a snapshot is left: {name}" for name in _snapshots(yard.state) - yard.snapshots]
    report.problems += left_processes(yard.state)
    sweep(yard.state, yard.folder)
    report.problems += [problem for pid in pids for problem in left_files(yard.state, pid)]
    begun = [one for one in events(path) if one["kind"] == "attempt_started"]
    report.restored = sum(one.get("restored_from") is not None for one in begun)
    report.over = len(begun) - report.restored - ROLLOUTS
    report.saved = sum(one["kind"] == "checkpoint_saved" for one in events(path))
    return report


def _start(yard: Yard, path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.chaos.checkpointed_program", str(yard.folder), str(path)]
    env = {**os.environ, "SWE_SDK_STATE": str(yard.state), "SWE_SDK_RESULTS": str(yard.folder / "results")}
    return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=None, start_new_session=True)


def _attempts(path: Path) -> int:
    return sum(one["kind"] == "attempt_started" for one in events(path))


def _has_ended_before_an_attempt(process: subprocess.Popen[bytes], path: Path, begun: int) -> bool:
    """Wait for an attempt beyond ``begun``; whether there will be none."""
    deadline = time.monotonic() + _ENDS_WITHIN_S
    while _attempts(path) <= begun and time.monotonic() < deadline:
        if process.poll() is not None:
            return True
        time.sleep(0.02)
    return False


def _snapshots(state: Path) -> frozenset[str]:
    return frozenset(path.stem for path in (state / "snapshots").glob("*.json"))


def _wrong_end(path: Path, patch_sha256: str) -> list[str]:
    """Every rollout is resolved, by the same patch as in a run without a kill."""
    problems = []
    with Run(path) as run:
        rows = list(run.rollouts.rows())
        if len(rows) != ROLLOUTS or not run.finished:
            problems.append(f"{len(rows)} rollouts, finished: {run.finished}")
        for row in rows:
            if row.status != "resolved" or (patch_sha256 and row.patch_sha256 != patch_sha256):
                problems.append(f"{row.rollout_id} is {row.status} by the patch {row.patch_sha256}: {row.reason}")
            if done_in(run, row.rollout_id) != every_step(STEPS):
                problems.append(f"{row.rollout_id} has done {done_in(run, row.rollout_id)}")
    return problems


def _wrong_history(path: Path) -> list[str]:
    """From the journals: each step stands once, and what was spent is what the surviving stages took."""
    problems = []
    told = events(path)
    for name in sorted({one["rollout_id"] for one in told if one["kind"] == "rollout_queued"}):
        found = surviving_steps(path, name)
        problems += [f"{name} has the steps {found}"] * (found != _ALL)
        problems += _wrong_budget(name, [one for one in told if one.get("rollout_id") == name])
    return problems


def _wrong_budget(name: str, told: list[dict[str, Any]]) -> list[str]:
    """Spent at the end = spent at the cut + what the last attempt's stages took; and no step's time is missing."""
    (start,) = [one for one in told if one["kind"] == "attempt_started"][-1:]
    spent = [one["budget"] for one in told if one["kind"] == "budget"][-1]
    took_s = sum(one["seconds"] for one in told if one["kind"] == "stage_ended" and one["attempt"] == start["attempt"])
    cuts = [
        one["spent_s"]
        for one in told
        if one["kind"] == "checkpoint_rollout" and one["checkpoint_id"] == start.get("restored_from")
    ]
    expected = took_s + (cuts[0] if cuts else 0.0)
    problems = []
    if abs(spent["spent_s"] - expected) > _CLOSE_S:
        problems.append(f"{name} has spent {spent['spent_s']:.3f} s, and not {expected:.3f}")
    if spent["spent_s"] < _WAITED_S or spent["total_s"] != BUDGET_S:
        problems.append(f"{name} has waited {_WAITED_S} s, and has spent {spent}")
    return problems
