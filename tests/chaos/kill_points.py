"""SIGKILL at a random moment of a batch of grades, to a random process of ours; then count what is left."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TASKS = (
    "mini__calc-1",
    "mini__fairsplit-1",
    "mini__semrange-1",
    "mini__inifile-1",
    "mini__pathglob-1",
    "mini__recur-1",
    "mini__tinytpl-1",
    "mini__ttlcache-1",
)
VICTIMS = ("sdk", "zygote", "box", "program")
_TRUE_CAUSES = ("sandbox_lost", "create_failed", "environment_failed")
_ENGINE_GONE = "provider_unavailable"
"""True as well where the engine was killed before the batch had made its first box."""
_ENDS_WITHIN_S = 120.0
_SETTLES_WITHIN_S = 10.0


@dataclass
class Report:
    """What one kill came to. ``problems`` is empty if everything held."""

    victim: str
    after_s: float
    hit: bool = False
    statuses: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def grade_command(output: Path) -> list[str]:
    """A batch of grades, as a user starts it."""
    arguments = ["grade", "mini", "--patches", "gold", "--workers", "2", "--output", str(output)]
    return [sys.executable, "-m", "swe_sdk", *arguments, "--instance-ids", *TASKS]


def duration_s(state: Path, folder: Path) -> float:
    """How long an undisturbed batch takes, its environments built before."""
    for _warm_up_then_measure in range(2):
        started = time.monotonic()
        subprocess.run(
            grade_command(folder / "warm.jsonl"), env=_env(state, folder), check=True, capture_output=True, timeout=600
        )
    assert statuses(folder / "warm.jsonl") == ["resolved"] * len(TASKS), "without any kill"
    return time.monotonic() - started


def kill_once(state: Path, folder: Path, victim: str, after_s: float) -> Report:
    """Start a batch, kill ``victim`` after a while, wait for the end, and look around."""
    report = Report(victim, after_s)
    output = folder / "outcomes.jsonl"
    output.unlink(missing_ok=True)
    batch = subprocess.Popen(
        grade_command(output),
        env=_env(state, folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(after_s)
    target = next(iter(_targets(batch.pid, victim)), None)
    if target is not None:
        report.hit = kill(target)
    try:
        batch.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        report.problems.append("the batch did not end")
        batch.kill()
        batch.wait()
    report.problems += wrong_outcomes(output, report, TASKS, complete=victim != "sdk" or not report.hit)
    report.problems += left_processes(state)
    sweep(state, folder)
    report.problems += left_files(state, batch.pid)
    return report


def random_kills(
    seed: int, count: int, longest_s: float, victims: Sequence[str] = VICTIMS
) -> Iterator[tuple[str, float]]:
    """Victims and moments, the same for the same seed."""
    chance = random.Random(seed)
    for number in range(count):
        yield victims[number % len(victims)], chance.uniform(0.0, longest_s)


def _targets(sdk: int, victim: str) -> list[int]:
    """Pids of the kind of process asked for, among the descendants of the batch."""
    if victim == "sdk":
        return [sdk]
    zygotes = children(sdk)
    boxes = [box for zygote in zygotes for box in children(zygote)]
    programs = [program for box in boxes for program in children(box)]
    found = {"zygote": zygotes, "box": boxes, "program": programs}[victim]
    random.shuffle(found)
    return found


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except OSError:
            continue
    return found


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def statuses(output: Path) -> list[str]:
    """Of the outcomes in a file."""
    return [json.loads(line)["status"] for line in output.read_text().splitlines()]


def wrong_outcomes(output: Path, report: Report, tasks: Collection[str], *, complete: bool) -> list[str]:
    """Every outcome is resolved, or masked with the true cause; or, where the SDK itself was killed, absent."""
    problems = []
    lines = output.read_text().splitlines() if output.exists() else []
    for line in lines:
        outcome = json.loads(line)
        report.statuses.append(outcome["status"])
        mask = outcome["mask"]
        if outcome["status"] == "unresolved" and report.victim != "program":
            problems.append(f"a false zero: {outcome['instance_id']}: {outcome['reason']}")
        if mask is not None and mask["kind"] not in _true_causes(report.victim):
            problems.append(f"a wrong cause: {mask}")
    if complete and len(lines) != len(tasks):
        problems.append(f"{len(lines)} outcomes of {len(tasks)}")
    return problems


def _true_causes(victim: str) -> tuple[str, ...]:
    return (*_TRUE_CAUSES, _ENGINE_GONE) if victim == "engine" else _TRUE_CAUSES


def left_processes(state: Path) -> list[str]:
    """Processes of a batch that is over: told by the state directory or by the zygote's own program."""
    deadline = time.monotonic() + _SETTLES_WITHIN_S
    while left := list(_ours(state)):
        if time.monotonic() > deadline:
            return [f"a process is left: {line}" for line in left]
        time.sleep(0.05)
    return []


def _ours(state: Path) -> Iterator[str]:
    marker = f"SWE_SDK_STATE={state}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            mounts = (entry / "mountinfo").read_bytes()
            if marker in (entry / "environ").read_bytes() or str(state).encode() in mounts:
                yield f"{entry.name} {(entry / 'cmdline').read_bytes()!r}"
        except OSError:
            continue


def sweep(state: Path, folder: Path) -> None:
    """What the next use of the state directory does by itself."""
    subprocess.run(
        [sys.executable, "-m", "swe_sdk", "doctor"],
        env=_env(state, folder),
        check=True,
        capture_output=True,
        timeout=120,
    )


def left_files(state: Path, batch: int) -> list[str]:
    left = [path for name in ("boxes", "owners", "trash") for path in (state / name).iterdir()]
    groups = list(Path("/sys/fs/cgroup").glob(f"*/swe_sdk/{batch}-*"))
    return [f"left behind: {path}" for path in (*left, *groups)]


def _env(state: Path, folder: Path) -> dict[str, str]:
    return {**os.environ, "SWE_SDK_STATE": str(state), "SWE_SDK_RESULTS": str(folder / "results")}


def kill_after(process: subprocess.Popen[bytes], moment: float) -> bool:
    """Whether it was still there to be killed."""
    try:
        process.wait(moment)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        return process.wait() == -signal.SIGKILL
    return False
