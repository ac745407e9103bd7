"""The command ``swe-sdk``: parse, call the face, print.

Exit codes: 0 when the work was done, whatever it found; 1 when it could not be, or its output not be written; 2 for bad
input, with one line on standard error; 130 when interrupted and 143 when terminated (SIGTERM), after everything was
torn down; 141, and not a word, where whoever read the output has gone (``swe-sdk show ... | head``).
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Sequence
from typing import Any

from swe_sdk.cli_dashboard import add_dashboard_command
from swe_sdk.cli_gym import add_gym_command
from swe_sdk.cli_output import complain, guarded_output
from swe_sdk.cli_run_parsers import add_run_commands
from swe_sdk.errors import InputError, OutputFailed, PrerequisiteError, SweError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name); returns its exit code."""
    try:
        with guarded_output():
            arguments = _parser().parse_args(argv)
            return _COMMANDS[arguments.command](arguments)
    except SystemExit as ended:  # argparse ends the process itself, for --help as for bad usage
        return ended.code if isinstance(ended.code, int) else 2
    except OutputFailed as error:
        if error.is_unread:
            return 128 + signal.SIGPIPE
        complain(str(error))
        return 1
    except SweError as error:
        complain(str(error))
        return 2 if isinstance(error, InputError | PrerequisiteError) else 1
    except KeyboardInterrupt as stopped:
        number = getattr(stopped, "number", signal.SIGINT)
        how = "terminated" if number == signal.SIGTERM else "interrupted"
        complain(f"{how}; every sandbox was torn down")
        return 128 + number


def _grade(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_grade import grade

    return grade(arguments)


def _validate(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_grade import validate

    return validate(arguments)


def _doctor(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_doctor import doctor

    return doctor(arguments)


def _agents(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_agents import agents

    return agents(arguments)


def _reap(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_reap import reap_boxes

    return reap_boxes(arguments)


def _serve(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_serve import serve_posts

    return serve_posts(arguments)


def _gym(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_gym import gym

    return gym(arguments)


def _run(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_run import run

    return run(arguments)


def _resume(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_run import resume

    return resume(arguments)


def _runs(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_runs import runs

    return runs(arguments)


def _show(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_runs import show

    return show(arguments)


def _checkpoints(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_checkpoints import checkpoints

    return checkpoints(arguments)


def _snapshots(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_checkpoints import snapshots

    return snapshots(arguments)


def _dashboard(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_dashboard import dashboard

    return dashboard(arguments)


def _regrade(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_regrade import regrade

    return regrade(arguments)


def _compare(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_compare import compare

    return compare(arguments)


def _demo(arguments: argparse.Namespace) -> int:
    from swe_sdk.demo import demo

    return demo(provider=arguments.provider, results=arguments.results)


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "grade": _grade,
    "validate": _validate,
    "regrade": _regrade,
    "compare": _compare,
    "run": _run,
    "resume": _resume,
    "runs": _runs,
    "show": _show,
    "checkpoints": _checkpoints,
    "snapshots": _snapshots,
    "dashboard": _dashboard,
    "doctor": _doctor,
    "agents": _agents,
    "reap": _reap,
    "serve": _serve,
    "gym": _gym,
    "demo": _demo,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="swe-sdk", description="Run agents in sandboxes, grade their patches, and say what they are worth."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_grade(commands)
    _add_validate(commands)
    _add_regrade(commands)
    add_run_commands(commands)
    add_dashboard_command(commands)
    doctor = commands.add_parser("doctor", help="say which sandbox providers work here and, if not, why and what to do")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    _add_agents(commands)
    _add_reap(commands)
    _add_serve(commands)
    add_gym_command(commands)
    demo = commands.add_parser("demo", help="grade a handful of bundled tasks and show what comes of it")
    demo.add_argument("--provider", default="auto", help="sandbox provider (default: auto)")
    demo.add_argument("--results", metavar="DIR", help="where outcomes and logs are kept")
    return parser


def _add_grade(commands: Any) -> None:
    grade = commands.add_parser("grade", help="grade a patch for each task")
    _add_common(grade)
    patches = "gold, empty or wrong (the tasks' own patches), or a predictions file"
    grade.add_argument("--patches", default="gold", metavar="gold|empty|wrong|FILE", help=patches)
    grade.add_argument("--output", metavar="OUT.jsonl", help="one Outcome a line, written as they finish")
    where = "where grades run: local (default), ray or slurm; --workers is for each node"
    grade.add_argument("--executor", metavar="E", help=where)


def _add_validate(commands: Any) -> None:
    validate = commands.add_parser("validate", help="check tasks: gold resolves each time, empty and wrong never do")
    _add_common(validate)
    validate.add_argument("--n", type=int, default=3, help="runs of each gold patch (default: 3)")
    validate.add_argument("--json", metavar="OUT", help="write the health of each task there")
    validate.add_argument("--strict", action="store_true", help="exit with 1 unless every task is healthy")


def _add_regrade(commands: Any) -> None:
    add = commands.add_parser("regrade", help="grade the patches of a stored run again, without any agent").add_argument
    add("run", metavar="RUN", help="a run directory, or a results directory")
    add("--tasks", metavar="TASKS", help="its tasks, where it has not kept them or others shall stand in their place")
    add("--only", action="extend", nargs="+", choices=("resolved", "unresolved", "masked"), help="only these")
    add("--family", help="harness family of the rows of --tasks (default: detected)")
    add("--unknown-fields", choices=("error", "ignore"), default="error", help="what to do with fields of no meaning")
    _add_grading(add)
    _add_disk(add)
    add("--output", metavar="OUT.jsonl", help="both verdicts of each as one JSON object a line")
    add("--strict", action="store_true", help="exit with 1 where a verdict changed")
    add("--results", metavar="DIR", help="where the new outcomes and logs are kept (default: a new directory)")


def _add_agents(commands: Any) -> None:
    add = commands.add_parser("agents", help="list the agents, or install the harnesses that they drive").add_argument
    add("action", nargs="?", choices=("list", "install"), default="list", help="what to do (default: list)")
    add("names", nargs="*", metavar="AGENT", help="only these (default: all)")
    add("--json", action="store_true", help="print JSON")


def _add_reap(commands: Any) -> None:
    reap = commands.add_parser("reap", help="remove the sandboxes that dead programs have left")
    reap.add_argument("--dry-run", action="store_true", help="say what would be removed, and change nothing")
    reap.add_argument("--provider", metavar="P", help="only this sandbox provider (default: all)")
    reap.add_argument("--json", action="store_true", help="print JSON")


def _add_serve(commands: Any) -> None:
    add = commands.add_parser("serve", help="grade the patches that agents post").add_argument
    add("tasks", nargs="?", metavar="TASKS", help="tasks that posts may name by their id alone (default: none)")
    _add_selection(add)
    add("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    add("--port", type=int, default=8080, help="port; 0 takes a free one (default: 8080)")
    add("--token-file", metavar="FILE", help="the bearer token that every post must show")
    add("--no-token", action="store_true", help="listen beyond this machine without one")
    add("--queue", type=int, metavar="N", help="grades that may wait for a worker (default: 1000)")
    add("--longest-timeout", type=float, metavar="S", help="the most that a post may ask for its tests (default: 7200)")
    add("--request-timeout", type=float, metavar="S", help="for a whole post, waiting included (default: 14400)")
    add("--control", choices=("off", "unresolved", "always"), help="when to grade the gold patch too (default: off)")
    add("--only-loaded", action="store_true", help="take no tasks along with posts")
    add("--local-sources", action="store_true", help="let them name folders of this machine")
    add("--body-mib", type=float, metavar="MIB", help="the largest body of a post (default: 64)")
    add("--drain", type=float, metavar="S", help="how long to finish what was begun when told to stop (default: 600)")
    add("--no-metrics", action="store_true", help="leave /metrics out")
    add("--set", action="append", metavar="NAME=VALUE", help="any other setting, by its name on the page about it")
    add("--results", metavar="DIR", help="where outcomes and logs are kept (default: they are not)")
    _add_grading(add)


def _add_common(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("tasks", metavar="TASKS", help='a bundled name ("mini"), a .jsonl/.json/.parquet file, or a hub id')
    _add_selection(add)
    _add_grading(add)
    _add_disk(add)
    add("--results", metavar="DIR", help="where outcomes and logs are kept (default: a new directory)")


def _add_disk(add: Callable[..., Any]) -> None:
    text = "what all files that a grade writes may take up (default: 16384; 0: no limit)"
    add("--disk-mib", type=int, default=16384, metavar="MIB", help=text)


def _add_selection(add: Callable[..., Any]) -> None:
    add("--instance-ids", action="extend", nargs="+", metavar="ID", help="only these tasks")
    add("--family", help="harness family of the rows (default: detected)")
    add("--unknown-fields", choices=("error", "ignore"), default="error", help="what to do with fields of no meaning")


def _add_grading(add: Callable[..., Any]) -> None:
    add("--provider", default="auto", help="sandbox provider (default: auto)")
    add("--base-image", metavar="IMAGE", help="image to build tasks on, for container providers")
    add("--workers", type=int, metavar="N", help="grades at a time (default: one a processor, at most 8)")
    add("--timeout", type=float, default=1800.0, metavar="S", help="seconds for the tests of one task (default: 1800)")
    add("--policy", default="default", help="what failures mean: default or nemo_gym")
