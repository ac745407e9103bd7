"""A task with sources of its own as a row of SWE-bench 5.x, whose ``eval_script`` says how it is evaluated. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from benchmarks.parity.tasks import Row
from swe_sdk.model.task import Task
from swe_sdk.sandbox.build import VENV
from swe_sdk.sandbox.prepared import PreparedEnvironment

_END_OF_PATCH = "EOF_114329324912"


def source_row(row: Row, task: Task, prepared: PreparedEnvironment, image: str) -> Row:
    """The row. ``prepared`` is the environment that ``image`` was made of."""
    kept = ("instance_id", "repo", "patch", "wrong_patch", "test_patch", "problem_statement")
    return {
        **{name: row[name] for name in kept if name in row},
        "version": task.version or "",
        "base_commit": prepared.base_commit,
        "FAIL_TO_PASS": list(task.grading.fail_to_pass),
        "PASS_TO_PASS": list(task.grading.pass_to_pass),
        "image": image,
        "eval_script": "".join(f"{line}\n" for line in _script(task, prepared)),
        "log_parser": task.grading.parser,
        "eval_type": task.grading.eval_type,
    }


def _script(task: Task, prepared: PreparedEnvironment) -> Iterator[str]:
    """In the form that the rows of Verified have, with a virtual environment where those have conda's.

    Two lines differ. Markers go to standard error and results to standard output, whose order a busy engine does not
    keep: both are one stream here. ``git show`` is left out: where a source has one commit it prints all of it.
    Installing again, which official scripts do, is left out as in the runs that the tasks were calibrated by.
    """
    base, workdir = prepared.base_commit, shlex.quote(prepared.workdir)
    files = task.grading.test_patch.files
    old = [_quoted(file.old) for file in files if file.old is not None]
    new = [_quoted(file.new) for file in files if file.new is not None and file.old is None]
    reset = [f"git checkout {base} {' '.join(old)}"] if old else []
    yield from ("#!/bin/bash", "set -uxo pipefail", "exec 2>&1")
    if "VIRTUAL_ENV" in prepared.env:
        yield f"source {VENV}/bin/activate"
    kept = {name: value for name, value in prepared.env.items() if name not in ("PATH", "VIRTUAL_ENV")}
    yield from (f"export {name}={shlex.quote(value)}" for name, value in kept.items())
    yield from (f"cd {workdir}", f"git config --global --add safe.directory {workdir}", f"cd {workdir}")
    yield from ("git status", f"git -c core.fileMode=false diff {base}")
    yield from (*reset, *([f"rm -f {' '.join(new)}"] if new else []))
    if task.grading.test_patch.exists:
        patch = task.grading.test_patch.data.decode("utf-8", "surrogateescape").removesuffix("\n")
        yield from (f"git apply -v - <<'{_END_OF_PATCH}'", patch, _END_OF_PATCH)
    yield from (": '>>>>> Start Test Output'", task.grading.test_command, ": '>>>>> End Test Output'", *reset)


def _quoted(path: bytes) -> str:
    return shlex.quote(path.decode("utf-8", "surrogateescape"))
