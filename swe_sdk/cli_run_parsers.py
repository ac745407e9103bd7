"""The arguments of ``swe-sdk run``, ``resume``, ``runs``, ``show``, ``compare``, ``checkpoints`` and ``snapshots``."""

from __future__ import annotations

import argparse
from typing import Any


def add_run_commands(commands: Any) -> None:
    """Add all seven to the subparsers of ``swe-sdk``."""
    _add_run(commands)
    _add_resume(commands)
    _add_runs(commands)
    _add_show(commands)
    _add_compare(commands)
    _add_checkpoints(commands)
    _add_snapshots(commands)


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="let an agent work on each task, grade what it did, and keep all of it in a run directory",
        epilog="Exit codes: 0 = every rollout is finished, whatever came of it; 1 = the run could not be made or ended"
        " early; 2 = bad input; 130 = interrupted, 143 = terminated (SIGTERM): the run can be resumed.",
    )
    add = run.add_argument
    add("tasks", metavar="TASKS", help='a bundled name ("mini"), a .jsonl/.json/.parquet file, or a hub id')
    add("--instance-ids", action="extend", nargs="+", metavar="ID", help="only these tasks")
    add("--limit", type=int, metavar="N", help="only the first N of them (for how many at a time, see --workers)")
    add("--family", help="harness family of the rows (default: detected)")
    add("--unknown-fields", choices=("error", "ignore"), default="error", help="what to do with fields of no meaning")
    add("--agent", metavar="NAME", help="gold, noop, mini-swe-agent, opencode, openhands, ... (default: as configured)")
    add("--config", metavar="FILE", help="settings of the run, as .toml or .json")
    add("--preset", metavar="NAME", help="settings to start from: evaluation (default) or training")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="any setting; a value may be JSON. Repeatable")
    add("--budget", metavar="TIME", help="for all stages of a rollout together, such as 30m")
    add("--checkpoint-every", metavar="TIME", help="save everything that is under way so often, such as 5m")
    add("--samples", type=int, metavar="N", help="rollouts of each task")
    add("--provider", metavar="P", help="sandbox provider (default: auto)")
    add("--base-image", metavar="IMAGE", help="image to build tasks on, for container providers")
    add("--executor", metavar="E", help="where rollouts run: local (default), ray or slurm; --workers is for each node")
    add("--workers", type=int, metavar="N", help="rollouts at a time (default: one a processor, at most 8)")
    add("--policy", metavar="NAME", help="what failures mean: default or nemo_gym")
    add("--verifier", metavar="URL", help="grade by a verifier that runs there (default: in this process)")
    add("--model", metavar="NAME", help="the model's name at --base-url")
    add("--base-url", metavar="URL", help="an OpenAI-compatible endpoint; its key is read from $OPENAI_API_KEY")
    add("--path", metavar="DIR", help="the run directory (default: a new one)")
    add("--name", default="", help="what to call the run")
    _add_ends(run)


def _add_resume(commands: Any) -> None:
    resume = commands.add_parser("resume", help="go on with a run that was stopped or killed")
    resume.add_argument("path", metavar="RUN", help="the run directory")
    resume.add_argument("--retry-masked", action="store_true", help="try rollouts again whose mask is worth a retry")
    resume.add_argument("--executor", metavar="E", help="where rollouts run (default: as before)")
    resume.add_argument("--workers", type=int, metavar="N", help="rollouts at a time (default: as before)")
    _add_ends(resume)


def _add_runs(commands: Any) -> None:
    runs = commands.add_parser("runs", help="list runs")
    runs.add_argument("folder", nargs="?", metavar="DIR", help="where they are (default: where new ones are made)")
    runs.add_argument("--json", action="store_true", help="print JSON")


def _add_show(commands: Any) -> None:
    show = commands.add_parser("show", help="look at a run, at one of its rollouts, or at a log")
    add = show.add_argument
    add("path", metavar="RUN", help="the run directory")
    add("rollout", nargs="?", metavar="ROLLOUT", help="one rollout, such as mini__calc-1.0")
    add("--status", action="append", metavar="S", help="only rollouts that are resolved, unresolved, masked, ...")
    add("--page", type=int, default=1, metavar="N", help="which page of rollouts (default: 1)")
    add("--page-size", type=int, default=50, metavar="N", help="rollouts on a page (default: 50)")
    add("--steps", action="store_true", help="print the steps of the rollout")
    add("--patch", action="store_true", help="print the patch of the rollout")
    add("--log", metavar="NAME", help="print the end of one of its files, such as verify-1/test.log")
    add("--lines", type=int, default=50, metavar="N", help="how much of it (default: 50 lines)")
    add("--config", action="store_true", help="print the settings of the run, and where each came from")
    add("--json", action="store_true", help="print JSON")
    add("--rows", metavar="OUT.jsonl", help="write the finished rollouts there as NeMo Gym rows")


def _add_compare(commands: Any) -> None:
    add = commands.add_parser("compare", help="what became of each task from one run to another").add_argument
    given = "a run directory, a results directory, or a file with one Outcome a line"
    add("run_a", metavar="RUN_A", help=given)
    add("run_b", metavar="RUN_B", help="the same")
    add("--all", action="store_true", help="list tasks that did not change as well")
    add("--json", action="store_true", help="print JSON")
    add("--plot", metavar="FILE", help="draw it there, as .png, .svg or .pdf")
    add("--strict", action="store_true", help="exit with 1 where a task passes less often")


def _add_checkpoints(commands: Any) -> None:
    add = commands.add_parser("checkpoints", help="list the checkpoints of a run, or look at one").add_argument
    add("path", metavar="RUN", help="the run directory")
    add("checkpoint", nargs="?", metavar="CHECKPOINT", help="what this one holds of each rollout")
    add("--json", action="store_true", help="print JSON")


def _add_snapshots(commands: Any) -> None:
    add = commands.add_parser("snapshots", help="compare snapshots with what checkpoints need").add_argument
    add("runs", nargs="*", metavar="RUN", help="run directories (default: all where new ones are made)")
    add("--reap", action="store_true", help="delete those that no kept checkpoint needs")
    add("--json", action="store_true", help="print JSON")


def _add_ends(command: argparse.ArgumentParser) -> None:
    command.add_argument("--rows", metavar="OUT.jsonl", help="write the finished rollouts there as NeMo Gym rows")
    command.add_argument("--quiet", action="store_true", help="no progress")
