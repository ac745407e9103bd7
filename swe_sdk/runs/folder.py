"""What a run directory keeps so that the run can go on in another process: its configuration and its tasks.

::

    RUN/artifacts/config.json        the resolved configuration, and where each value came from
    RUN/artifacts/tasks.jsonl[.gz]   a task a line, hidden tests included: for its owner's eyes only
"""

from __future__ import annotations

import gzip
import json
import shlex
import zlib
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field, ValidationError

from swe_sdk.config.model import RunConfig
from swe_sdk.errors import InputError
from swe_sdk.executors.policy_ref import PolicyLine, PolicyRef
from swe_sdk.model.policy import Policy
from swe_sdk.model.record import Record
from swe_sdk.model.task import Task
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.runs.lock import LOCK_FILE
from swe_sdk.store.index import open_index
from swe_sdk.store.layout import RUN_FILE, artifact_folder, events_folder
from swe_sdk.store.writer import RunWriter

CONFIG_FILE, TASKS_FILE = "config.json", "tasks.jsonl"


class RunPlan(Record):
    """What a run was asked for. ``given`` names what was handed over as an object, and cannot be made again by name."""

    config: RunConfig
    origins: dict[str, str] = Field(default_factory=dict)
    """For each key of the configuration, which layer has said so."""
    name: str = ""
    dataset: str = ""
    given: tuple[str, ...] = ()
    policy_lines: tuple[PolicyLine, ...] = ()
    """The whole policy, where it is one of the caller's own."""

    @property
    def policy(self) -> Policy:
        """What failures mean in this run."""
        return PolicyRef(name=self.config.policy, lines=self.policy_lines).policy()

    def ways_on(self, path: Path) -> str:
        """How to go on with a run there: what was handed over as an object, no command line can hand over again."""
        if self.given:
            again = "".join(f", {what}=..." for what in self.given)
            return f"swe.resume({str(path)!r}{again})"
        return f"swe.resume({str(path)!r}), or: swe-sdk resume {shlex.quote(str(path))}"


def never_began(run_dir: Path) -> bool:
    """Whether its maker was killed before it had written down what the run is to be: nothing of it can be lost."""
    if (artifact_folder(run_dir) / CONFIG_FILE).exists():
        return False
    with open_index(run_dir) as index:
        return index.count() == 0


def is_half_made(folder: Path) -> bool:
    """Whether somebody was killed while making a run directory there: it holds what comes first, and nothing else."""
    entries = list(folder.iterdir())
    begun = [entry for entry in entries if entry.name == events_folder(folder).name]
    others = [each for each in entries if each.name == LOCK_FILE or each.name.startswith(f".{RUN_FILE}.")]
    return len(begun) + len(others) == len(entries) and not any(any(entry.iterdir()) for entry in begun)


def save_plan(writer: RunWriter, plan: RunPlan, tasks: Iterable[Task]) -> None:
    """Write both files, the configuration last: with it, the run has begun. Raises ``NoSpace``."""
    for half_made in (TASKS_FILE, f"{TASKS_FILE}.gz"):
        (artifact_folder(writer.path) / half_made).unlink(missing_ok=True)
    lines = b"".join(json.dumps(task.private()).encode() + b"\n" for task in tasks)
    writer.save(TASKS_FILE, lines, private=True)
    writer.save(CONFIG_FILE, json.dumps(plan.model_dump(mode="json"), indent=2).encode() + b"\n")


def load_plan(run_dir: Path) -> RunPlan | None:
    """The plan of a run; None where it has none (it was imported). Raises ``InputError`` for one that is damaged."""
    file = artifact_folder(run_dir) / CONFIG_FILE
    try:
        return RunPlan.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _damaged(file, error.strerror or "") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise _damaged(file, f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")) from None


def load_run_tasks(run_dir: Path) -> TaskSet:
    """The tasks of a run, as they were when it began; none where it was imported. ``InputError`` for damaged ones."""
    plain = artifact_folder(run_dir) / TASKS_FILE
    packed = plain.with_name(f"{TASKS_FILE}.gz")
    try:
        if plain.exists():
            data = plain.read_bytes()
        elif packed.exists():
            data = gzip.decompress(packed.read_bytes())
        else:
            return TaskSet(())
        return TaskSet([Task.model_validate(json.loads(line)) for line in data.splitlines()], name=run_dir.name)
    except ValidationError as error:
        raise _damaged(plain, f"a line is no task: {error.errors()[0]['msg']}") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise _damaged(plain, str(error)) from error


def _damaged(file: Path, problem: str) -> InputError:
    remedy = "restore it from a copy, or use the swe_sdk that wrote it; nothing else of the run is touched"
    return InputError(f"{file} cannot be read: {problem}", remedy=remedy)
