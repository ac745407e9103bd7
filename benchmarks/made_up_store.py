"""A directory of runs as weeks of work leave it, made up: for the dashboard, its tests and its benchmark.

``python -m benchmarks.made_up_store FOLDER`` makes 100,000 rollouts in 20 runs, in about a minute. All of it goes
through the store's own writer, and is the same for the same seed, but for the hour.

The runs differ in agent, model and provider, and have the same tasks, so that any two can be compared. Of the last
four, one was killed and never resumed (``killed``), one was stopped (``stopped``, with a snapshot that leaks), one has
lost a snapshot that a checkpoint needs (``failed``), and one goes on (``live``); one more was killed and resumed. In
one the disk was full for some hours. One rollout has a log of 200 MB, every hundredth has files and all of its steps.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.made_up_checkpoints import Trouble, checkpoints_of, tell
from benchmarks.made_up_events import Teller
from benchmarks.made_up_files import write_files, write_huge_log
from benchmarks.made_up_folders import write_folders
from benchmarks.made_up_lives import SLOTS, Course, Life, Simulated, simulate
from benchmarks.made_up_runs import Timed
from swe_sdk.store import events as ev
from swe_sdk.store.writer import RunWriter

_AGENTS = (("mini-swe-agent", "1.4.2"), ("openhands", "0.61"), ("opencode", "1.0.3"), ("codex", "0.50"))
_MODELS = ("made-up-7b", "made-up-70b", "made-up-480b")
_PROVIDERS = ("docker", "local", "apptainer")
_WHOLE_EVERY = 100
_DAY_S = 86400.0
_MEAN_S = 600.0
"""A rollout takes about so long."""
_SAVES = 48
"""Checkpoints of a run."""
Fate = Literal["finished", "resumed", "killed", "stopped", "failed", "live"]


class MadeUp(NamedTuple):
    """What there is to be found, by name."""

    rollouts: int
    live_run: str
    leaked: str | None
    """A snapshot that is there though no kept checkpoint refers to it."""
    violated: str | None
    """One that is gone though a kept checkpoint refers to it."""
    huge_log: str | None
    """The rollout that has ``huge.log``."""


class Plan(NamedTuple):
    """One run."""

    name: str
    number: int
    rollouts: int
    fate: Fate
    course: Course


def write_store(
    folder: Path,
    *,
    runs: int = 20,
    rollouts: int = 100_000,
    steps: int = 3,
    huge_log_bytes: int = 0,
    seed: int = 7,
    later: list[Timed] | None = None,
) -> MadeUp:
    """Make the runs below ``folder``; ``steps`` are of each attempt but those that are shown whole.

    What is still to come in the live run is put into ``later``, for :func:`play`.
    """
    leaks, violations = Trouble(leaked=""), Trouble(violated="")
    huge = live = None
    for plan in _plans(runs, rollouts, seed):
        trouble = {"stopped": leaks, "failed": violations}.get(plan.fate, Trouble())
        size = huge_log_bytes if huge is None else 0
        life = _write_run(folder / plan.name, plan, steps, trouble, size, later if plan.fate == "live" else None)
        huge = huge or (life.rollout_id if life is not None else None)
        live = plan.name
    assert live is not None
    return MadeUp(rollouts, live, leaks.leaked or None, violations.violated or None, huge)


def _plans(runs: int, rollouts: int, seed: int) -> Iterator[Plan]:
    last: tuple[Fate, ...] = ("killed", "stopped", "failed", "live")
    for number in range(runs):
        count = rollouts * (number + 1) // runs - rollouts * number // runs
        fate = last[number - runs + len(last)] if number >= runs - len(last) else "finished"
        long_s = max(count / SLOTS * _MEAN_S, 1000.0)
        course = Course(seed=seed * 1000 + number, skill=0.35 + number % 7 * 0.22, save_every_s=long_s / _SAVES)
        if number == 2 and fate == "finished":
            course = replace(course, disk_full=(long_s * 0.3, long_s * 0.5))
        if number == 4 and fate == "finished":
            fate, course = "resumed", replace(course, killed_at=long_s * 0.4)
        yield Plan(f"{number:02}-{_AGENTS[number % 4][0]}-{_MODELS[number % 3]}", number, count, fate, course)


def play(run_dir: Path, later: list[Timed], seconds: float, speed: float) -> None:
    """Go on with a run for some seconds, ``speed`` times as fast as it was made up; what comes after is left out."""
    later.sort(key=lambda timed: timed[0])
    started, first = time.monotonic(), later[0][0] if later else 0.0
    with RunWriter(run_dir, sync=False) as writer:
        for at, event in later:
            wait_s = (at - first) / speed - (time.monotonic() - started)
            if (at - first) / speed > seconds:
                break
            if wait_s > 0:
                time.sleep(wait_s)
            writer.append(event)
        time.sleep(max(0.0, seconds - (time.monotonic() - started)))


def _write_run(
    run_dir: Path, plan: Plan, steps: int, trouble: Trouble, huge_log_bytes: int, later: list[Timed] | None
) -> Life | None:
    """Write it; returns the rollout that has the huge log, if there is to be one."""
    found = simulate(plan.course, plan.rollouts)
    chance = random.Random(plan.course.seed + 2)
    began, cut = _times(plan, found)
    agent, _version = _AGENTS[plan.number % 4]
    provider, model = _PROVIDERS[plan.number % 3], _MODELS[plan.number % 3]
    teller = Teller(chance, began, agent, model, provider, found.saves, steps)
    with RunWriter(run_dir, sync=False) as writer:
        started = ev.RunStarted(name=plan.name, agent=agent, model=model, dataset="made-up", rollouts=plan.rollouts)
        writer.append(started.model_copy(update={"config": _config(plan, agent, provider)}), at=began)
        for life in found.lives:
            writer.append(teller.queued(life), at=began)
        huge = None
        for number, life in enumerate(found.lives):
            is_whole = number % _WHOLE_EVERY == 0
            _append(writer, teller.told(life, is_whole=is_whole), cut, later)
            if is_whole and life.status != "masked" and began + life.tries[-1].end < cut:
                write_files(writer, life)
                if huge_log_bytes and huge is None:
                    huge = life
                    write_huge_log(writer, life, huge_log_bytes)
        _write_checkpoints(writer, chance, plan, found, began, cut, trouble, provider)
        _append(writer, _endings(plan, found, began, cut), cut + _DAY_S)
    return huge


def _times(plan: Plan, found: Simulated) -> tuple[float, float]:
    """When it began, and when nothing more was written: nine tenths of a run that goes on are over now."""
    share = {"live": 0.9, "killed": 0.7, "stopped": 0.8, "failed": 0.5}.get(plan.fate)
    if share is None:
        return time.time() - (21 - plan.number) * _DAY_S - found.end, time.time()
    ends = sorted(life.tries[-1].end for life in found.lives)
    cut = ends[int(len(ends) * share)]
    age_s = 5.0 if plan.fate == "live" else (21 - plan.number) * _DAY_S / 4
    return time.time() - age_s - cut, time.time() - age_s


def _append(writer: RunWriter, events: Iterator[Timed], cut: float, later: list[Timed] | None = None) -> None:
    for at, event in events:
        if at <= cut:
            writer.append(event, at=at)
        elif later is not None:
            later.append((at, event))


def _write_checkpoints(
    writer: RunWriter,
    chance: random.Random,
    plan: Plan,
    found: Simulated,
    began: float,
    cut: float,
    trouble: Trouble,
    provider: str,
) -> None:
    made = found._replace(saves=[save for save in found.saves if began + save.at + save.held_s < cut])
    told = checkpoints_of(chance, made)
    is_over = plan.fate in ("finished", "resumed")
    end = found.end if is_over else None
    _append(writer, tell(chance, told, began, provider, trouble, end=end), cut + _DAY_S)
    write_folders(writer, told, began, provider, is_over=is_over)


def _endings(plan: Plan, found: Simulated, began: float, cut: float) -> Iterator[Timed]:
    """How the run ended, and what became of the rollouts that were not over."""
    if plan.course.killed_at is not None:
        started = ev.RunStarted(name=plan.name, resumed=True, rollouts=plan.rollouts, agent=_AGENTS[plan.number % 4][0])
        yield began + plan.course.killed_at + 590.0, started
    if plan.fate == "stopped":
        for life in found.lives:
            if began + life.tries[-1].end > cut:
                attempt = max([tried.attempt for tried in life.tries if began + tried.start < cut], default=1)
                yield cut + 1, ev.RolloutEnded(rollout_id=life.rollout_id, attempt=attempt, status="stopped")
        yield cut + 2, ev.RunEnded(reason="stopped", message="its deadline came")
    elif plan.fate == "failed":
        yield cut + 2, ev.RunEnded(reason="failed", message="NoSpace: cannot write the journal")
    elif plan.fate in ("finished", "resumed"):
        yield began + found.end + 1, ev.RunEnded(reason="finished")


def _config(plan: Plan, agent: str, provider: str) -> dict[str, object]:
    seconds = {"budget_s": 1800.0, "checkpoint_every_s": plan.course.save_every_s, "agent_timeout_s": 1800.0}
    return {"preset": "evaluation", "agent": agent, "provider": provider, "samples": 4, "keep_last": 3, **seconds}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make it, and say what is in it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.made_up_store", description="Make up weeks of runs.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rollouts", type=int, default=100_000, help="over all runs")
    parser.add_argument("--steps", type=int, default=3, help="of each attempt")
    parser.add_argument("--huge-log-mb", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--play-s", type=float, default=0.0, help="then go on with the live run for so long")
    parser.add_argument("--speed", type=float, default=20.0, help="and so many times as fast")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    later: list[Timed] = []
    made = write_store(
        options.folder,
        runs=options.runs,
        rollouts=options.rollouts,
        steps=options.steps,
        huge_log_bytes=options.huge_log_mb * 1_000_000,
        seed=options.seed,
        later=later,
    )
    print(f"{made.rollouts} rollouts in {options.runs} runs, in {time.monotonic() - start:.0f} s: {options.folder}")
    print(f"leaked snapshot {made.leaked}, violated {made.violated}; huge.log is of {made.huge_log}", flush=True)
    if options.play_s:
        play(options.folder / made.live_run, later, options.play_s, options.speed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
