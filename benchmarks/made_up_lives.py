"""Made-up rollouts on a clock: so many at a time, checkpoints that hold them all, a process that may be killed."""

from __future__ import annotations

import heapq
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.made_up_masks import Fault, choose_fault, rollout_stage
from benchmarks.made_up_runs import BUDGET_S, FAMILIES, REPOSITORIES
from swe_sdk.store.events import RolloutStage

SLOTS = 64
"""Rollouts at a time."""
SAMPLES = 4
"""Rollouts of each task."""
STAGES: tuple[RolloutStage, ...] = ("seed", "invoke_agent", "close_agent", "verify", "return")
_LOST = 0.04
_MASKED = 0.08


class Save(NamedTuple):
    """A checkpoint: when it began, and for how long everything stood still."""

    checkpoint_id: str
    at: float
    held_s: float


@dataclass
class Try:
    """One attempt: when it began, the stages it went through, and how it ended."""

    attempt: int
    start: float
    stages: list[tuple[RolloutStage, float]]
    fault: Fault | None = None
    """In its last stage."""
    end: float = 0.0
    spent_s: float = 0.0
    """Before it began: by the attempt that it goes on from."""
    restored_from: str | None = None
    is_cut: bool = False
    """Its process was killed: nobody has written down how it ended."""


@dataclass
class Life:
    """One rollout."""

    instance_id: str
    sample: int
    family: str
    repo: str
    status: str
    """How it ends if nothing is in the way: resolved, unresolved or masked."""
    queued_s: float = 0.0
    tries: list[Try] = field(default_factory=list)

    @property
    def rollout_id(self) -> str:
        """As everywhere."""
        return f"{self.instance_id}.{self.sample}"


@dataclass(frozen=True)
class Course:
    """What one run is like. Times are seconds after it began."""

    seed: int
    skill: float
    """The odds of its agent: 1 = it solves a task of middling difficulty half of the time."""
    disk_full: tuple[float, float] | None = None
    """From when to when."""
    killed_at: float | None = None
    """Its process dies, and another one goes on ten minutes later, from the newest checkpoint."""
    save_every_s: float = 1800.0


class Simulated(NamedTuple):
    """All rollouts of a run, and its checkpoints."""

    lives: list[Life]
    saves: list[Save]
    end: float


RESUMED_AFTER_S = 600.0


def simulate(course: Course, rollouts: int) -> Simulated:
    """Rollouts take their turns; each save holds all that are under way."""
    chance = random.Random(course.seed)
    saves = list(_saves(course, rollouts))
    free = [chance.uniform(0, 2) for _slot in range(SLOTS)]
    heapq.heapify(free)
    lives = []
    for number in range(rollouts):
        life = _life(course, number)
        start = _after_the_kill(course, heapq.heappop(free))
        end = _live(chance, course, life, start, saves)
        heapq.heappush(free, end)
        lives.append(life)
    end = max(free)
    return Simulated(lives, [save for save in saves if save.at < end], end)


def _saves(course: Course, rollouts: int) -> Iterator[Save]:
    chance = random.Random(course.seed + 1)
    longest = rollouts / SLOTS * BUDGET_S * 1.5 + course.save_every_s
    for number in range(1, int(longest / course.save_every_s) + 1):
        at = number * course.save_every_s
        if course.killed_at is None or not course.killed_at < at < course.killed_at + RESUMED_AFTER_S:
            yield Save(f"checkpoint-{number:06}-{chance.getrandbits(24):06x}", at, chance.uniform(1.5, 21))


def _after_the_kill(course: Course, start: float) -> float:
    if course.killed_at is not None and course.killed_at <= start < course.killed_at + RESUMED_AFTER_S:
        return course.killed_at + RESUMED_AFTER_S + (start - course.killed_at) * 0.01
    return start


def _life(course: Course, number: int) -> Life:
    """Its task is the same in all runs, and as hard."""
    task = number // SAMPLES
    repository = REPOSITORIES[task % len(REPOSITORIES)]
    instance = f"{repository.replace('/', '__')}-{10000 + task}"
    hardness = zlib.crc32(instance.encode()) / 2**32
    chance = random.Random(f"{course.seed} {number}")
    odds = course.skill * (1.02 - hardness) / (hardness + 0.02) * 0.7
    solved = chance.random() < odds / (1 + odds)
    status = "masked" if chance.random() < _MASKED else "resolved" if solved else "unresolved"
    return Life(instance, number % SAMPLES, FAMILIES[task % len(FAMILIES)], repository, status)


def _live(chance: random.Random, course: Course, life: Life, start: float, saves: list[Save]) -> float:
    """Fill in the attempts of a rollout; returns when its slot is free again."""
    life.queued_s = chance.expovariate(1 / 4)
    disk_is_full = course.disk_full is not None and course.disk_full[0] < start < course.disk_full[1]
    is_masked = life.status == "masked" or (disk_is_full and chance.random() < 0.6)
    if not is_masked and chance.random() < _LOST:
        lost = _try(chance, 1, start, choose_fault(chance, disk_is_full=disk_is_full), saves)
        life.tries.append(lost)
        start = lost.end + chance.uniform(0.2, 5)
    if is_masked:
        life.status = "masked"
    fault = choose_fault(chance, disk_is_full=disk_is_full) if is_masked else None
    last = _try(chance, len(life.tries) + 1, start, fault, saves)
    life.tries.append(last)
    if course.killed_at is not None and last.start < course.killed_at < last.end:
        life.tries.append(_go_on(chance, course, last, saves))
    return life.tries[-1].end


def _try(chance: random.Random, attempt: int, start: float, fault: Fault | None, saves: list[Save]) -> Try:
    agent_s = min(BUDGET_S * 0.94, chance.lognormvariate(6.0, 1.0))
    seconds = {
        "seed": chance.lognormvariate(0.5, 0.8),
        "invoke_agent": agent_s,
        "close_agent": chance.lognormvariate(-0.7, 0.6),
        "verify": chance.lognormvariate(3.6, 0.8),
        "return": 0.004,
    }
    last = STAGES[-1] if fault is None else rollout_stage(fault)
    stages = [(stage, seconds[stage]) for stage in STAGES[: STAGES.index(last) + 1]]
    if fault is not None:
        stages[-1] = (last, stages[-1][1] * chance.uniform(0.05, 0.9))
    tried = Try(attempt, start, stages, fault)
    tried.end = _end(tried, saves)
    return tried


def _go_on(chance: random.Random, course: Course, cut: Try, saves: list[Save]) -> Try:
    """The attempt after the kill: from the newest checkpoint that holds the rollout, or from the start."""
    assert course.killed_at is not None
    held = [save for save in saves if cut.start < save.at < course.killed_at]
    cut.is_cut = True
    start = course.killed_at + RESUMED_AFTER_S + chance.uniform(0, 9)
    spent = min(held[-1].at - cut.start, cut.stages[1][1] if len(cut.stages) > 1 else 0.0) if held else 0.0
    stages = [
        (stage, max(1.0, seconds - spent) if stage == "invoke_agent" else seconds) for stage, seconds in cut.stages
    ]
    going = Try(cut.attempt + 1, start, stages[1:] if held and len(stages) > 1 else stages, cut.fault, spent_s=spent)
    going.restored_from = held[-1].checkpoint_id if held else None
    going.end, cut.end = _end(going, saves), course.killed_at
    return going


def _end(tried: Try, saves: list[Save]) -> float:
    end = tried.start + sum(seconds for _stage, seconds in tried.stages)
    for save in saves:
        if tried.start < save.at < end:
            end += save.held_s
    return end
