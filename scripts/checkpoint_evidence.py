"""Whether checkpoints keep their promises with a model of yours: ``make evidence MODEL_BASE_URL=... MODEL=...``.

Three cases, each by the commands that a user types, on the same tasks:

* *uninterrupted*: a run that saves itself, and that nobody disturbs;
* *restored*: the same run, killed with SIGKILL once a checkpoint holds its agents at work, and resumed;
* *remaining budget*: the same with a budget that does not suffice, killed and resumed.

Everything is in one folder afterwards: ``config.json``, ``commands.sh``, ``logs/``, the runs themselves, and what came
of it in ``report.md`` and ``report.json``. The key of the endpoint is read from ``$OPENAI_API_KEY``, and is nowhere in
there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import swe_sdk as swe
from swe_sdk.runs.checkpoints.view import HeldRollout
from swe_sdk.runs.rollout import Rollout
from swe_sdk.runs.run import Run

_ENDS_WITHIN_S = 4 * 3600.0
_POLL_S = 0.5
_CLOSE_S = 1.0
_SHARE = 0.7
"""Of what the agents of the uninterrupted run have taken: the budget that does not suffice."""


@dataclass
class Case:
    """What came of one case. ``problems`` is empty where everything held."""

    name: str
    rollouts: dict[str, dict[str, Any]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Evidence:
    """The folder, and the commands that are run into it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.folder: Path = options.out
        (self.folder / "logs").mkdir(parents=True, exist_ok=False)
        self._count = 0
        self._pids: set[int] = set()

    def path(self, name: str) -> Path:
        """The run directory of a case."""
        return self.folder / "runs" / name

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """``swe-sdk`` with these arguments; what it says goes to a log."""
        self._count += 1
        with (self.folder / "commands.sh").open("a") as file:
            file.write(shlex.join(["swe-sdk", *arguments]) + f"  # {name}\n")
        with (self.folder / "logs" / f"{self._count:02}-{name.replace(' ', '-')}.log").open("wb") as log:
            command = [sys.executable, "-m", "swe_sdk", *arguments]
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self._pids.add(process.pid)
        return process

    def run_arguments(self, name: str, budget_s: float) -> list[str]:
        """How a run is started."""
        options = self.options
        chosen = ["--instance-ids", *options.instance_ids] if options.instance_ids else []
        where = ["--base-url", options.base_url, "--model", options.model]
        saved = ["--checkpoint-every", f"{options.every_s:g}s", "--budget", f"{budget_s:.3f}s"]
        rest = ["--agent", options.agent, "--provider", options.provider, "--samples", str(options.samples)]
        return ["run", options.tasks, *chosen, *rest, *where, *saved, "--path", str(self.path(name)), "--quiet"]

    def finish(self, case: Case, process: subprocess.Popen[bytes]) -> None:
        """Wait for its end."""
        code = process.wait(_ENDS_WITHIN_S)
        case.problems += [f"it ended with exit code {code}"] * (code != 0)

    def killed_and_resumed(
        self, case: Case, budget_s: float, is_time: Callable[[HeldRollout], bool]
    ) -> dict[str, HeldRollout]:
        """What the newest checkpoint held at the kill: the first one after which ``is_time`` for all at work."""
        process = self.start(f"{case.name} until it is killed", *self.run_arguments(case.name, budget_s))
        held: list[HeldRollout] = []
        while process.poll() is None and not (held and all(is_time(one) for one in held)):
            time.sleep(_POLL_S)
            held = _at_work(self.path(case.name))
        if process.poll() is not None:
            case.problems.append("it came to its end before a checkpoint held an agent at work: --every-s must be less")
            return {}
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with swe.open_run(self.path(case.name)) as run:
            newest = run.checkpoints.kept[-1]
            case.facts["killed after"] = newest.id
            found = {one.rollout_id: one for one in newest.inspect()}
        self.finish(case, self.start(f"{case.name} resumed", "resume", str(self.path(case.name)), "--quiet"))
        return found

    def check_cleanup(self, case: Case) -> None:
        """After the clean-up that every user of this machine may do: no box, and no snapshot of the run."""
        self.start(f"{case.name} clean-up", "reap").wait(600)
        for what, arguments in (
            ("boxes", ("reap", "--dry-run", "--json")),
            ("snapshots", ("snapshots", str(self.path(case.name)), "--json")),
        ):
            name = f"{case.name} {what} left"
            self.start(name, *arguments).wait(600)
            log = self.folder / "logs" / f"{self._count:02}-{name.replace(' ', '-')}.log"
            case.facts[what] = left = _left(what, log.read_text(), self._pids)
            case.problems += [f"{what} are left: {left}"] if left else []


def uninterrupted(evidence: Evidence, budget_s: float) -> Case:
    """The truth, as far as the model says the same twice."""
    case = Case("uninterrupted")
    evidence.finish(case, evidence.start(case.name, *evidence.run_arguments(case.name, budget_s)))
    _look(evidence.path(case.name), case)
    evidence.check_cleanup(case)
    return case


def restored(evidence: Evidence, budget_s: float, truth: Case) -> Case:
    """The same outcomes, and all that the agent had seen before the cut."""
    case = Case("restored")
    third_s = min(row["last_attempt_s"] for row in truth.rollouts.values()) / 3
    held = evidence.killed_and_resumed(case, budget_s, lambda one: one.budget.spent_s > third_s)
    _look(evidence.path(case.name), case)
    _check_histories(evidence.path(case.name), case, held)
    for name, row in case.rollouts.items():
        same = {key: (truth.rollouts.get(name, {}).get(key), row[key]) for key in ("status", "reward", "patch_sha256")}
        case.facts[f"{name} against uninterrupted"] = {
            key: "the same" if was == now else f"{was} was {now}" for key, (was, now) in same.items()
        }
    evidence.check_cleanup(case)
    return case


def remaining_budget(evidence: Evidence, truth: Case) -> Case:
    """A budget of a part of what is needed, most of it spent at the kill: the rest, and no more, is left."""
    case = Case("remaining-budget")
    budget_s = _SHARE * min(row["last_attempt_s"] for row in truth.rollouts.values())
    case.facts["budget_s"] = round(budget_s, 3)
    held = evidence.killed_and_resumed(case, budget_s, lambda one: one.budget.spent_s > budget_s / 3)
    _look(evidence.path(case.name), case)
    _check_histories(evidence.path(case.name), case, held)
    for name, one in held.items():
        row = case.rollouts[name]
        row["spent_at_the_cut_s"], row["left_s"] = round(one.budget.spent_s, 3), round(budget_s - one.budget.spent_s, 3)
        row["timed_out"] = row["agent_end"] == "budget"
        over_s = row["last_attempt_s"] - row["left_s"]
        if over_s > _CLOSE_S or (row["timed_out"] and over_s < -_CLOSE_S):
            case.problems.append(f"{name}: {row['left_s']} s were left, and it worked {row['last_attempt_s']} s")
    evidence.check_cleanup(case)
    return case


def _at_work(path: Path) -> list[HeldRollout]:
    """What the newest checkpoint holds of agents at work."""
    if not (path / "run.json").exists():
        return []
    with swe.open_run(path) as run:
        kept = run.checkpoints.kept
        return [one for one in kept[-1].inspect() if one.agent_state is not None] if kept else []


def _look(path: Path, case: Case) -> None:
    with swe.open_run(path) as run:
        case.facts["checkpoints"] = len(run.checkpoints)
        for rollout in run.rollouts.values():
            case.rollouts[rollout.id] = _row(rollout)
        case.problems += [] if run.finished else ["it is not finished"]


def _row(rollout: Rollout) -> dict[str, Any]:
    row, outcome = rollout.row, rollout.outcome
    agent = outcome.evidence.get("agent", {}) if outcome is not None else {}
    working = [one for one in rollout.stages if one.attempt == row.attempt and one.stage in ("seed", "invoke_agent")]
    return {
        "status": row.status,
        "reward": row.reward,
        "reason": row.reason,
        "patch_sha256": row.patch_sha256,
        "attempt": row.attempt,
        "steps": len(rollout.steps),
        "model_calls": len(rollout.model_calls),
        "spent_s": round(row.spent_s, 3),
        "parked_s": round(row.parked_s, 3),
        "flags": list(row.flags),
        "agent_end": agent.get("reason"),
        "last_attempt_s": round(sum(one.seconds or 0.0 for one in working), 3),
    }


def _check_histories(path: Path, case: Case, held: dict[str, HeldRollout]) -> None:
    """What a resumed agent tells its model first begins with all that the one before it had told and heard."""
    with swe.open_run(path) as run:
        for name, one in held.items():
            rollout = run.rollouts[name]
            before = _asked(run, rollout, one.attempt)
            after = _asked(run, rollout, rollout.attempt) if rollout.attempt > one.attempt else []
            row = case.rollouts[name]
            row["restored_from_attempt"], row["messages_at_the_cut"] = one.attempt, None
            if one.agent_state is None or not before or not after:
                continue
            row["messages_at_the_cut"] = len(after[0])
            is_prefix = any(after[0] == messages or after[0][: len(messages)] == messages for messages in before)
            row["observations_kept"] = is_prefix
            if not is_prefix:
                case.problems.append(f"{name}: its first call after the restore is not what it had asked before")


def _asked(run: Run, rollout: Rollout, attempt: int) -> list[list[Any]]:
    """The messages of each delivered call of an attempt."""
    calls = [row.call for row in rollout.model_calls if row.attempt == attempt and row.call is not None]
    bodies = [json.loads((run.path / call.request).read_bytes()) for call in calls if call.request]
    return [body.get("messages") or body.get("input") or [] for body in bodies]


def _left(what: str, said: str, pids: Collection[int]) -> list[Any]:
    """From the JSON that the command has printed. Boxes of this machine's other programs are no concern of ours."""
    start = min((said.find(sign) for sign in "[{" if sign in said), default=-1)
    found = json.loads(said[start:]) if start >= 0 else []
    if what == "boxes":
        ours = tuple(f"{pid}-" for pid in pids)
        return [one for one in found["items"] if one["provider"] != "local" or one["handle"].startswith(ours)]
    return [name for row in found for name in row["found"]["unneeded"] + row["found"]["needed"]]


def write_report(evidence: Evidence, cases: Sequence[Case]) -> None:
    """``report.json`` and ``report.md``."""
    folder, options = evidence.folder, evidence.options
    (folder / "report.json").write_text(json.dumps([asdict(case) for case in cases], indent=1, default=str) + "\n")
    lines = [f"# Checkpoints with {options.agent} and the model {options.model}", ""]
    for case in cases:
        verdict = "everything held" if not case.problems else f"{len(case.problems)} problems"
        lines += [f"## {case.name}: {verdict}", "", *(f"- problem: {one}" for one in case.problems)]
        lines += [f"- {name}: {value}" for name, value in case.facts.items()] + [""]
        columns = sorted({key for row in case.rollouts.values() for key in row})
        lines += [f"| rollout | {' | '.join(columns)} |", "| --- " * (len(columns) + 1) + "|"]
        for name, row in case.rollouts.items():
            lines.append(f"| {name} | " + " | ".join(str(row.get(key, "")) for key in columns) + " |")
        lines.append("")
    (folder / "report.md").write_text("\n".join(lines))


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where everything held."""
    options = _options(arguments)
    evidence = Evidence(options)
    config = {name: str(value) for name, value in vars(options).items()}
    machine = {"platform": platform.platform(), "python": platform.python_version(), "cpus": os.cpu_count()}
    about = {"swe_sdk": swe.__version__, **machine, "options": config, "load": os.getloadavg()}
    (evidence.folder / "config.json").write_text(json.dumps(about, indent=1) + "\n")
    truth = uninterrupted(evidence, options.budget_s)
    cases = [truth, restored(evidence, options.budget_s, truth), remaining_budget(evidence, truth)]
    write_report(evidence, cases)
    print((evidence.folder / "report.md").read_text())
    return 1 if any(case.problems for case in cases) else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--base-url", required=True, help="an OpenAI-compatible endpoint; its key is read from $OPENAI_API_KEY")
    add("--model", required=True, help="the model's name there")
    add("--agent", default="mini-swe-agent")
    add("--provider", default="local")
    add("--tasks", default="mini")
    add("--instance-ids", nargs="*", default=["mini__calc-1", "mini__fairsplit-1"])
    add("--samples", type=int, default=1)
    add("--every-s", type=float, default=5.0, help="seconds between checkpoints")
    add("--budget-s", type=float, default=1800.0, help="for a rollout that nobody disturbs")
    add("--out", type=Path, default=Path(time.strftime("evidence-%Y%m%d-%H%M%S")), help="a new folder")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
