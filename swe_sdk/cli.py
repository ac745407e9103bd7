"""The command ``swe-sdk``: parse, call the face, print.

Exit codes: 0 when the work was done, whatever it found; 1 when it could not be; 2 for bad input, with one line on
standard error; 130 when interrupted, after everything was torn down.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from swe_sdk.errors import InputError, PrerequisiteError, SweError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name); returns its exit code."""
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as ended:  # argparse ends the process itself, for --help as for bad usage
        return ended.code if isinstance(ended.code, int) else 2
    try:
        return _COMMANDS[arguments.command](arguments)
    except SweError as error:
        print(f"swe-sdk: {' '.join(str(error).split())}", file=sys.stderr)
        return 2 if isinstance(error, InputError | PrerequisiteError) else 1
    except KeyboardInterrupt:
        print("swe-sdk: interrupted; every sandbox was torn down", file=sys.stderr)
        return 130


def _grade(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_grade import grade

    return grade(arguments)


def _validate(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_grade import validate

    return validate(arguments)


def _doctor(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_doctor import doctor

    return doctor(arguments)


def _reap(arguments: argparse.Namespace) -> int:
    from swe_sdk.cli_reap import reap_boxes

    return reap_boxes(arguments)


def _demo(arguments: argparse.Namespace) -> int:
    from swe_sdk.demo import demo

    return demo(provider=arguments.provider, results=arguments.results)


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "grade": _grade,
    "validate": _validate,
    "doctor": _doctor,
    "reap": _reap,
    "demo": _demo,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="swe-sdk", description="Grade patches in sandboxes, and say what they are worth."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_grade(commands)
    _add_validate(commands)
    doctor = commands.add_parser("doctor", help="say which sandbox providers work here and, if not, why and what to do")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    _add_reap(commands)
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


def _add_validate(commands: Any) -> None:
    validate = commands.add_parser("validate", help="check tasks: gold resolves each time, empty and wrong never do")
    _add_common(validate)
    validate.add_argument("--n", type=int, default=3, help="runs of each gold patch (default: 3)")
    validate.add_argument("--json", metavar="OUT", help="write the health of each task there")
    validate.add_argument("--strict", action="store_true", help="exit with 1 unless every task is healthy")


def _add_reap(commands: Any) -> None:
    reap = commands.add_parser("reap", help="remove the sandboxes that dead programs have left")
    reap.add_argument("--dry-run", action="store_true", help="say what would be removed, and change nothing")
    reap.add_argument("--provider", metavar="P", help="only this sandbox provider (default: all)")
    reap.add_argument("--json", action="store_true", help="print JSON")


def _add_common(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("tasks", metavar="TASKS", help='a bundled name ("mini"), a .jsonl/.json/.parquet file, or a hub id')
    add("--instance-ids", nargs="+", metavar="ID", help="only these tasks")
    add("--family", help="harness family of the rows (default: detected)")
    add("--unknown-fields", choices=("error", "ignore"), default="error", help="what to do with fields of no meaning")
    add("--provider", default="auto", help="sandbox provider (default: auto)")
    add("--base-image", metavar="IMAGE", help="image to build tasks on, for container providers")
    add("--workers", type=int, metavar="N", help="grades at a time (default: one a processor, at most 8)")
    add("--timeout", type=float, default=1800.0, metavar="S", help="seconds for the tests of one task (default: 1800)")
    add("--policy", default="default", help="what failures mean: default or nemo_gym")
    add("--results", metavar="DIR", help="where outcomes and logs are kept (default: a new directory)")
