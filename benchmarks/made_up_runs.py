"""Run directories of any size, made up: for the benchmarks of the store and of what looks at it.

``python -m benchmarks.made_up_runs FOLDER --runs 20 --rollouts 100000``
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Mask, Outcome, PatchReport, TestReport
from swe_sdk.model.policy import FailureKind, Stage
from swe_sdk.store import events as ev
from swe_sdk.store.writer import RunWriter

REPOSITORIES = ("django/django", "sympy/sympy", "pytest-dev/pytest", "psf/requests", "astropy/astropy", "pallets/flask")
FAMILIES = ("swe-bench", "swe-bench-ext", "nv-internal-1", "swe-rebench", "r2e-gym")
AGENTS = ("mini-swe-agent", "opencode", "openhands", "scripted")
PROVIDERS = ("local", "docker", "apptainer")
FAULTS: tuple[tuple[FailureKind, Stage, int], ...] = (
    ("timeout", "create", 40),
    ("sandbox_lost", "tests", 25),
    ("no_space", "environment", 10),
    ("host_oom", "tests", 5),
    ("create_failed", "create", 20),
)
BUDGET_S = 1800.0
Timed = tuple[float, ev.Event]


def write_runs(folder: Path, runs: int, rollouts: int, *, steps: int = 4, seed: int = 7) -> None:
    """``rollouts`` over ``runs`` run directories; the last tenth of the last run is not over yet."""
    for number in range(runs):
        first, end = rollouts * number // runs, rollouts * (number + 1) // runs
        write_run(
            folder / f"run-{number:03}", end - first, steps=steps, seed=seed + number, unfinished=number == runs - 1
        )


def write_run(run_dir: Path, rollouts: int, *, steps: int = 4, seed: int = 7, unfinished: bool = False) -> None:
    """One run directory; of an ``unfinished`` one the last tenth of the rollouts is at work or queued."""
    chance = random.Random(seed)
    began = time.time() - 86400.0 * chance.uniform(1, 30)
    agent = AGENTS[seed % len(AGENTS)]
    with RunWriter(run_dir, sync=False) as writer:
        started = ev.RunStarted(
            name=run_dir.name, agent=agent, rollouts=rollouts, config={"agent": agent, "seed": seed}
        )
        writer.append(started, at=began)
        done = rollouts * 9 // 10 if unfinished else rollouts
        for number in range(rollouts):
            for at, event in _rollout(chance, number, agent, began, steps, is_over=number < done):
                writer.append(event, at=at)
        if not unfinished:
            writer.append(ev.RunEnded(reason="finished"), at=began + 86400.0)


def _rollout(
    chance: random.Random, number: int, agent: str, began: float, steps: int, *, is_over: bool
) -> Iterator[Timed]:
    repository = chance.choice(REPOSITORIES)
    instance = f"{repository.replace('/', '__')}-{10000 + number // 4}"
    rollout, provider, t = f"{instance}.{number % 4}", chance.choice(PROVIDERS), began + number * 0.01
    family = FAMILIES[number % len(FAMILIES)]
    yield (
        t,
        ev.RolloutQueued(
            rollout_id=rollout,
            instance_id=instance,
            sample=number % 4,
            family=family,
            repo=repository,
            agent=agent,
            model="made-up-1",
            provider=provider,
            tags={"shard": str(number % 7)},
        ),
    )
    if not is_over and number % 2:
        return
    status = chance.choices(("resolved", "unresolved", "masked"), (40, 50, 10))[0]
    first = 1 if is_over and chance.random() < 0.05 else 0  # some were lost once, and tried again
    for attempt in range(1, first + 2):
        is_last = attempt == first + 1
        yield from _attempt(chance, rollout, attempt, provider, t + 1, steps, is_over=is_over)
        if is_over:
            verdict = status if is_last else "masked"
            spent = chance.uniform(20, BUDGET_S)
            yield from _end(
                chance, rollout, attempt, instance, family, verdict, t + spent, spent, will_retry=not is_last
            )
        t += 2.0
    if is_over:
        reward = 1.0 if status == "resolved" else 0.0
        yield t + BUDGET_S, ev.RolloutEnded(rollout_id=rollout, attempt=first + 1, status=status, reward=reward)


def _attempt(
    chance: random.Random, rollout: str, attempt: int, provider: str, t: float, steps: int, *, is_over: bool
) -> Iterator[Timed]:
    yield t, ev.AttemptStarted(rollout_id=rollout, attempt=attempt, provider=provider)
    seconds = chance.uniform(0.1, 3)
    yield t, ev.StageStarted(rollout_id=rollout, attempt=attempt, stage="seed")
    yield t + seconds, ev.StageEnded(rollout_id=rollout, attempt=attempt, stage="seed", seconds=seconds)
    yield t + seconds, ev.StageStarted(rollout_id=rollout, attempt=attempt, stage="invoke_agent")
    for n in range(steps):
        yield (
            t + seconds + n,
            ev.StepTaken(
                rollout_id=rollout,
                attempt=attempt,
                n=n,
                step_kind="model" if n % 2 == 0 else "action",
                summary=f"step {n}: looks at a file and says something about it",
                seconds=chance.uniform(0.1, 9),
                tokens_in=chance.randrange(20_000),
                tokens_out=chance.randrange(900),
            ),
        )
    if is_over:
        ended = ev.StageEnded(rollout_id=rollout, attempt=attempt, stage="invoke_agent", seconds=chance.uniform(9, 900))
        yield t + seconds + steps, ended


def _end(
    chance: random.Random,
    rollout: str,
    attempt: int,
    instance: str,
    family: str,
    status: str,
    t: float,
    spent: float,
    *,
    will_retry: bool,
) -> Iterator[Timed]:
    budget = Budget(total_s=BUDGET_S, spent_s=min(spent, BUDGET_S), parked_s=chance.choice((0.0, 0.0, 12.5)))
    yield t, ev.BudgetCharged(rollout_id=rollout, attempt=attempt, budget=budget, queued_s=chance.uniform(0, 60))
    outcome = _outcome(chance, instance, family, status)
    yield t, ev.OutcomeReached(rollout_id=rollout, attempt=attempt, outcome=outcome)
    yield t, ev.AttemptEnded(rollout_id=rollout, attempt=attempt, reason="done", will_retry=will_retry)


def _outcome(chance: random.Random, instance: str, family: str, status: str) -> Outcome:
    mask = None
    if status == "masked":
        kind, stage, _weight = chance.choices(FAULTS, [weight for _kind, _stage, weight in FAULTS])[0]
        mask = Mask(kind=kind, stage=stage, reason=f"made up: {kind}", retryable=True, evidence={"exit": 137})
    passed = "PASSED" if status == "resolved" else "FAILED"
    return Outcome.model_validate(
        {
            "instance_id": instance,
            "family": family,
            "status": status,
            "reward": 1.0 if status == "resolved" else 0.0,
            "mask": mask,
            "patch": PatchReport(exists=True, applied=True, rung="git-apply", sha256=f"{chance.getrandbits(256):064x}"),
            "tests": TestReport(
                fail_to_pass={"test_new": passed}, pass_to_pass={f"test_{n}": "PASSED" for n in range(5)}
            ),
        }
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write them, and say where."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.made_up_runs", description="Make up run directories.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rollouts", type=int, default=100_000, help="over all runs")
    parser.add_argument("--steps", type=int, default=4, help="of each attempt")
    options = parser.parse_args(arguments)
    write_runs(options.folder, options.runs, options.rollouts, steps=options.steps)
    print(f"{options.rollouts} rollouts in {options.runs} runs: {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
