"""A results directory: every outcome on disk before anybody hears of it.

::

    <directory>/outcomes.jsonl                          one Outcome a line, in the order they finished
    <directory>/artifacts/<task>/<key>-<n>/test.log     what the tests printed
                                          /patch.diff   the bytes that were graded
                                          /outcome.json
"""

from __future__ import annotations

import json
import os
import secrets
import warnings
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path

from pydantic import ValidationError

from swe_sdk import paths
from swe_sdk.errors import InputError
from swe_sdk.files import write_atomic
from swe_sdk.model.ids import safe_name
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.store.atomic import append_line, disk_full_is_typed

OUTCOMES_FILE = "outcomes.jsonl"


class BadOutcomeLine(UserWarning):
    """A line of an outcomes file was skipped, because a crash left it half-written."""


class Results:
    """One results directory; implements :class:`swe_sdk.grading.sink.OutcomeSink`.

    ``path`` is made where it is missing; without one it is ``<paths.results_dir()>/<UTC time>-<random>``. Several
    processes may write to one directory. ``InputError`` where there can be no directory, ``NoSpace`` on a full disk.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self.path = _new_path() if path is None else Path(path).absolute()
        try:
            with disk_full_is_typed(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot make the results directory {self.path}: {error.strerror}",
                remedy="name a folder that can be written, by results=..., --results or SWE_SDK_RESULTS",
            ) from error

    def __repr__(self) -> str:
        return f"Results({str(self.path)!r})"

    @property
    def outcomes_path(self) -> Path:
        """The file of outcomes."""
        return self.path / OUTCOMES_FILE

    def folder(self, instance_id: str, key: str) -> Path:
        """A new, empty folder for the artifacts of one grade."""
        parent = self.path / "artifacts" / safe_name(instance_id)
        with disk_full_is_typed(parent):
            parent.mkdir(parents=True, exist_ok=True)
            for number in count(1):
                folder = parent / f"{key[:12]}-{number}"
                try:
                    folder.mkdir()
                except FileExistsError:
                    continue
                return folder
        raise AssertionError("count() has no end")

    def save(self, folder: Path, patch: Patch, outcome: Outcome) -> Outcome:
        """Write the artifacts of an outcome; returns it with their absolute paths in ``artifacts``."""
        return save_files(folder, patch, outcome, folder / "test.log")

    def append(self, outcome: Outcome) -> None:
        """Add an outcome to ``outcomes.jsonl``; on disk when this returns."""
        append_line(self.outcomes_path, outcome_json(outcome).encode())

    def read(self) -> list[Outcome]:
        """What was written so far."""
        return read_outcomes(self.outcomes_path) if self.outcomes_path.exists() else []


def save_files(folder: Path, patch: Patch, outcome: Outcome, log: Path) -> Outcome:
    """Write patch and outcome into ``folder``; returns the outcome with the paths of both and of ``log``."""
    files = {"log": log, "patch": folder / "patch.diff", "outcome": folder / "outcome.json"}
    saved = outcome.model_copy(update={"artifacts": {label: str(path) for label, path in files.items()}})
    with disk_full_is_typed(folder):
        write_atomic(files["patch"], patch.data)
        write_atomic(files["outcome"], outcome_json(saved).encode() + b"\n")
    return saved


def outcome_json(outcome: Outcome) -> str:
    """One outcome as one line of JSON (ASCII, so that no reader can stumble over its encoding)."""
    return json.dumps(outcome.model_dump(mode="json"))


def read_outcomes(path: Path | str) -> list[Outcome]:
    """The outcomes of a results directory, or of a file with one Outcome a line.

    Lines that are no outcome (a crash can leave the last one half-written) are skipped with a ``BadOutcomeLine``
    warning. Raises ``InputError`` where there is no such file.
    """
    file = Path(path)
    file = file / OUTCOMES_FILE if file.is_dir() else file
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"cannot read outcomes from {file}: {error.strerror}") from error
    outcomes = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                outcomes.append(Outcome.model_validate_json(line))
            except ValidationError:
                warnings.warn(f"{file}:{number}: skipped a line that is no outcome", BadOutcomeLine, stacklevel=2)
    return outcomes


def process_results() -> Results:
    """The default directory of this process, for single grades: many of them share one."""
    return _process_results(paths.results_dir(), os.getpid())


@cache
def _process_results(root: Path, pid: int) -> Results:
    return Results(root / _stamp())


def _new_path() -> Path:
    return paths.results_dir() / _stamp()


def _stamp() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
