"""Where things lie in a run directory.

::

    RUN/run.json                                     format and schema version
    RUN/events/<host>-<pid>-<ns>.jsonl               one journal for each writer
    RUN/artifacts/<name>                             files of the whole run
    RUN/rollouts/<rollout>/<attempt>/<name>[.gz]     files of an attempt
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from pydantic import ValidationError

from swe_sdk.errors import InputError
from swe_sdk.files import write_atomic
from swe_sdk.model.ids import safe_name
from swe_sdk.model.record import Record
from swe_sdk.store.atomic import disk_full_is_typed
from swe_sdk.store.events import SCHEMA

RUN_FILE = "run.json"
FORMAT = "swe_sdk.run"


class RunFile(Record):
    """What ``run.json`` says. ``layout`` is the version of the paths above."""

    format: str = FORMAT
    layout: int = SCHEMA
    created_at: float
    """Unix seconds."""


def events_folder(run_dir: Path) -> Path:
    """Where the journals are."""
    return run_dir / "events"


def artifact_folder(run_dir: Path, rollout_id: str | None = None, attempt: int | None = None) -> Path:
    """Where the files of an attempt are; those of the whole run without a rollout."""
    if rollout_id is None:
        return run_dir / "artifacts"
    return run_dir / "rollouts" / safe_name(rollout_id) / str(attempt or 0)


def last_attempt(run_dir: Path, rollout_id: str) -> int:
    """The highest attempt of a rollout that has files, 0 = none: the journal may have lost it with its end."""
    folder = artifact_folder(run_dir, rollout_id).parent
    numbers = [int(entry.name) for entry in folder.glob("*") if entry.name.isdecimal()]
    return max(numbers, default=0)


def is_run(path: Path) -> bool:
    """Whether there is a run directory, and we may look into it."""
    return _is_named(path) and os.access(path, os.R_OK | os.X_OK) and (path / RUN_FILE).is_file()


def _is_named(path: Path) -> bool:
    """Whether its name is text: others cannot be kept in an index."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def make_run(run_dir: Path) -> RunFile:
    """Make a run directory, or read that which is there.

    Raises ``InputError`` where there can be none or it is of a version that is not known, ``NoSpace`` on a full disk.
    """
    _require_name(run_dir)
    try:
        with disk_full_is_typed(run_dir):
            events_folder(run_dir).mkdir(parents=True, exist_ok=True)
            if not is_run(run_dir):
                content = RunFile(created_at=time.time()).model_dump_json().encode()
                write_atomic(
                    run_dir / RUN_FILE, content + b"\n"
                )  # of several at once the last one wins: all say the same
    except OSError as error:
        raise InputError(
            f"cannot make the run directory {run_dir}: {error.strerror}",
            remedy="name a folder that can be written, by path=..., --path or SWE_SDK_RUNS",
        ) from error
    return read_run(run_dir)


def read_run(run_dir: Path) -> RunFile:
    """What ``run.json`` says; ``InputError`` where there is none, or one of a version that is not known."""
    _require_name(run_dir)
    try:
        found = RunFile.model_validate_json((run_dir / RUN_FILE).read_bytes())
    except OSError as error:
        raise InputError(
            f"{run_dir} is no run directory: {error.strerror} ({RUN_FILE})", remedy="swe-sdk runs lists those there are"
        ) from error
    except ValidationError as error:
        raise InputError(
            f"{run_dir / RUN_FILE} cannot be read", remedy="restore it from a copy; that of any other run will do"
        ) from error
    if found.format != FORMAT or found.layout > SCHEMA:
        raise InputError(
            f"{run_dir} is of format {found.format!r}, version {found.layout}; this swe_sdk reads up to {SCHEMA}",
            remedy="use a newer swe_sdk",
        )
    return found


def _require_name(run_dir: Path) -> None:
    if not _is_named(run_dir):
        raise InputError(f"the path {str(run_dir)!r} is not UTF-8", remedy="give the run directory another name")
