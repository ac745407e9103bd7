"""SIGKILL of a process with many rollouts, again and again, until each has come to its end; then everything is held
against runs that nobody has killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from swe_sdk.agents.registry import make_agent
from swe_sdk.runs.run import Run
from swe_sdk.testing.scripted_model import Played, ScriptedModel
from tests.chaos.docker_kill_points import Place, images
from tests.chaos.fleet_program import BUDGET_S, STEPS, Part
from tests.chaos.kill_points import kill_after, left_files, left_processes
from tests.runs.checkpointed import done_in, events, every_step, surviving

_ENDS_WITHIN_S = 900.0
_BEGINS_WITHIN_S = 600.0
_CLOSE_S = 1.0
_KILLS_OF_A_RUN = 25
"""Then it may come to its end."""
Step = tuple[int, str, str]
"""Number, kind and summary."""


@dataclass(frozen=True)
class Truth:
    """What an undisturbed run came to."""

    seconds: float
    patch: Mapping[str, str]
    """Digest of the patch, by part."""
    steps: Mapping[str, list[Step]]
    """By part."""


@dataclass
class Tally:
    """What became of one part, over all its runs."""

    attempts: int = 0
    restored: int = 0
    """Attempts that went on from a checkpoint."""
    over: int = 0
    """Attempts that started over."""
    checkpoints: int = 0
    rollouts: int = 0
    steps: int = 0
    """Of surviving histories, each looked at."""
    calls: int = 0
    """First calls of restored attempts, each of which was the one that was due."""
    off_s: float = 0.0
    """How far the budget was off, at most."""
    parked_s: list[float] = field(default_factory=list)
    """Of each rollout, over its whole life."""


@dataclass
class Report:
    """What the kills of all runs came to. ``problems`` is empty if everything held."""

    kills: int = 0
    runs: int = 0
    tallies: dict[str, Tally] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Yard:
    """Where it takes place."""

    place: Place
    parts: Sequence[Part]
    model: ScriptedModel

    def start(self, runs: Path) -> subprocess.Popen[bytes]:
        """The process, from its begin or from where its runs stand."""
        log = (self.place.folder / f"{runs.name}.log").open("ab")
        command = [sys.executable, "-m", "tests.chaos.fleet_program", str(self.place.folder), str(runs), self.model.url]
        with log:
            return subprocess.Popen(command, env=self.place.env, stdout=log, stderr=log, start_new_session=True)

    def snapshots(self) -> frozenset[str]:
        """All that there are: layers of the local provider, and images of the engine."""
        local = {path.stem for path in (self.place.state / "snapshots").glob("*.json")}
        return frozenset(local | images(self.place.engine))

    def log(self, runs: Path) -> str:
        """What its processes have said last."""
        return (self.place.folder / f"{runs.name}.log").read_text()[-3000:]


@dataclass(frozen=True)
class Begin:
    """An event after which a moment is chosen."""

    kind: str
    agents: tuple[str, ...] = ()
    """Of which agents; () = of all."""
    share: float = 1.0
    """Of the longest time to a kill: after it a run may not last as long."""

    def count(self, yard: Yard, runs: Path) -> int:
        """How many there were."""
        return sum(one["kind"] == self.kind for path in self.paths(yard, runs) for one in events(path))

    def paths(self, yard: Yard, runs: Path) -> list[Path]:
        """The runs in which it may come."""
        return [runs / part.name for part in yard.parts if not self.agents or part.agent in self.agents]

    def is_beyond(self, count: int, yard: Yard, runs: Path) -> bool:
        """Whether there was another."""
        return self.count(yard, runs) > count


_BEGINS = (Begin("attempt_started"), Begin("model_call", ("opencode", "openhands"), share=0.4))


def undisturbed(yard: Yard) -> Truth:
    """Run without a kill."""
    runs, started = yard.place.folder / "undisturbed", time.monotonic()
    process = yard.start(runs)
    assert process.wait(_ENDS_WITHIN_S) == 0, yard.log(runs)
    seconds = time.monotonic() - started
    patches, told = {}, {}
    for part in yard.parts:
        with Run(runs / part.name) as run:
            (patches[part.name],) = {row.patch_sha256 or "" for row in run.rollouts.rows()}
            histories = [_history(runs / part.name, name) for name in run.rollouts]
        assert all(history == histories[0] for history in histories), histories
        told[part.name] = histories[0]
    return Truth(seconds, patches, told)


def kill_often(yard: Yard, truth: Truth, seed: int, kills: int, longest_s: float) -> Report:
    """Kill and go on so often, over as many runs as it takes; each is gone on with to its end.

    ``longest_s`` bounds the time to a kill: from the first attempt of a life or, every other time, from the first call
    of the model by an agent that drives itself, as those take their time to begin.
    """
    longest_s = min(0.9 * truth.seconds, longest_s)
    chance, report = random.Random(seed), Report(tallies={part.name: Tally() for part in yard.parts})
    while report.kills < kills:
        before = yard.snapshots()
        runs = yard.place.folder / f"runs-{report.runs}"
        pids = _one_run(yard, runs, chance, longest_s, kills, report)
        for part in yard.parts:
            _check(yard, runs, part, truth, report)
        yard.place.run("reap", "--provider", "docker")
        yard.place.run("doctor")  # as the next use of the state directory does
        left = [f"a snapshot is left: {name}" for name in sorted(yard.snapshots() - before)]
        left += [f"a container is left: {one['Names']}" for one in yard.place.engine.containers()]
        left += left_processes(yard.place.state) + [one for pid in pids for one in left_files(yard.place.state, pid)]
        report.problems += [f"{runs.name}: {problem}" for problem in left]
        report.runs += 1
        print(f"{runs.name}: {report.kills} kills so far, {len(report.problems)} problems", flush=True)
    return report


def _one_run(yard: Yard, runs: Path, chance: random.Random, longest_s: float, kills: int, report: Report) -> list[int]:
    """Lives of one process after the other, until one comes to its end."""
    pids, last = [], min(kills, report.kills + _KILLS_OF_A_RUN)
    while True:
        begin = chance.choice([one for one in _BEGINS if one.paths(yard, runs)])
        begun = begin.count(yard, runs)
        process = yard.start(runs)
        pids.append(process.pid)
        # often early: quick agents are through long before the slow ones
        moment = chance.random() ** 2 * begin.share * longest_s
        has_begun = report.kills < last and _has_begun(process, partial(begin.is_beyond, begun, yard, runs))
        if has_begun and kill_after(process, moment):
            report.kills += 1
            continue
        try:
            code = process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = "no end"
        if code != 0:
            report.problems.append(f"{runs.name}: the last process ended with {code}: {yard.log(runs)}")
        return pids


def _has_begun(process: subprocess.Popen[bytes], is_so: Callable[[], bool]) -> bool:
    """Wait for it; whether it is so before the process ends."""
    deadline = time.monotonic() + _BEGINS_WITHIN_S
    while not is_so() and time.monotonic() < deadline:
        if process.poll() is not None:
            return False
        time.sleep(0.05)
    return process.poll() is None


def _check(yard: Yard, runs: Path, part: Part, truth: Truth, report: Report) -> None:
    """Hold one part against the truth."""
    path, tally = runs / part.name, report.tallies[part.name]
    problems = []
    told = events(path)
    with Run(path) as run:
        rows = list(run.rollouts.rows())
        if len(rows) != part.rollouts or not run.finished:
            problems.append(f"{len(rows)} rollouts, finished: {run.finished}")
        for row in rows:
            if (row.status, row.patch_sha256) != ("resolved", truth.patch[part.name]):
                problems.append(f"{row.rollout_id} is {row.status}, patch {row.patch_sha256}: {row.reason}")
            elif done_in(run, row.rollout_id) != every_step(STEPS):
                problems.append(f"{row.rollout_id} has done {done_in(run, row.rollout_id)}")
            tally.parked_s.append(row.parked_s)
    for row in rows:
        own = [one for one in told if one.get("rollout_id") == row.rollout_id]
        problems += _wrong_history(path, row.rollout_id, truth.steps[part.name], tally)
        problems += _wrong_budget(row.rollout_id, own, told, tally)
        if part.agent != "scripted" and make_agent(part.agent).tier == "exact":
            problems += _wrong_calls(yard, path, row.rollout_id, tally)
    begun = [one for one in told if one["kind"] == "attempt_started"]
    restored = sum(one.get("restored_from") is not None for one in begun)
    tally.rollouts += len(rows)
    tally.attempts += len(begun)
    tally.restored += restored
    tally.over += len(begun) - restored - len(rows)
    tally.checkpoints += sum(one["kind"] == "checkpoint_saved" for one in told)
    report.problems += [f"{runs.name}/{part.name}: {problem}" for problem in problems]


def _history(path: Path, name: str) -> list[Step]:
    return [(one["n"], one["step_kind"], one["summary"]) for one in surviving(path, name)[0]]


def _wrong_history(path: Path, name: str, expected: list[Step], tally: Tally) -> list[str]:
    found = _history(path, name)
    tally.steps += len(found)
    return [] if found == expected else [f"{name} has the steps {found}"]


def _wrong_budget(name: str, own: list[dict[str, Any]], told: list[dict[str, Any]], tally: Tally) -> list[str]:
    """Spent at the end = spent at the cut + what the last attempt's stages took."""
    start = [one for one in own if one["kind"] == "attempt_started"][-1]
    spent = [one["budget"] for one in own if one["kind"] == "budget"][-1]
    took_s = sum(one["seconds"] for one in own if one["kind"] == "stage_ended" and one["attempt"] == start["attempt"])
    cuts = [
        one["spent_s"]
        for one in told
        if one["kind"] == "checkpoint_rollout"
        and (one["checkpoint_id"], one["rollout_id"]) == (start.get("restored_from"), name)
    ]
    off_s = abs(spent["spent_s"] - took_s - (cuts[0] if cuts else 0.0))
    tally.off_s = max(tally.off_s, off_s)
    is_wrong = off_s > _CLOSE_S or spent["total_s"] != BUDGET_S
    return [f"{name} has spent {spent}, and is off by {off_s:.3f} s"] if is_wrong else []


def _wrong_calls(yard: Yard, path: Path, name: str, tally: Tally) -> list[str]:
    """By the model's own log: a restored attempt asks first for the turn after the last one that it was saved with."""
    problems, spans = [], _spans(path, name)
    asked = [one for one in yard.model.requests if one.request and one.request.says(name.rpartition(".")[0] + " is")]
    for number, (begin, end, cut) in enumerate(spans):
        own = [one for one in asked if begin <= _unix(one) < end]
        if cut is None or not own:
            continue
        tally.calls += 1
        due = sum(step["step_kind"] == "model" for step in cut)
        users = sum(item.get("role") == "user" for item in own[0].request.items) if own[0].request else 0
        if own[0].turn < due or users != 1:
            problems.append(f"{name}, attempt {number + 1}: asks for turn {own[0].turn} of {due}, {users} user turns")
    return problems


def _spans(path: Path, name: str) -> Iterator[tuple[float, float, list[dict[str, Any]] | None]]:
    """Of each attempt: its begin, the begin of the next, and the steps it was restored with."""
    _steps, starts = surviving(path, name)
    begins = [start["t"] for start in starts]
    for start, end in zip(starts, [*begins[1:], float("inf")], strict=True):
        yield start["t"], end, start["steps"]


def _unix(played: Played) -> float:
    return played.started_at + time.time() - time.monotonic()
