"""A run that saves itself twice a second: ``python -m tests.chaos.checkpointed_program FOLDER RUN``.

It may be killed at any time and started again: then it goes on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import swe_sdk as swe
from swe_sdk.model.task import Task
from swe_sdk.store.layout import artifact_folder
from tests.grading.tiny import make_task
from tests.runs.checkpointed import steps

ROLLOUTS, STEPS, BUDGET_S = 4, 5, 300.0
AGENT = steps(STEPS, wait_s=0.2)


def save_tasks(folder: Path) -> None:
    """Write the tasks of the run to a folder."""
    task = make_task(folder / "repo")
    tasks = [task.model_copy(update={"instance_id": f"tiny__answer-{number}"}) for number in range(ROLLOUTS)]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(each.private()) + "\n" for each in tasks))


def main(folder: Path, path: Path) -> None:
    """Begin, or go on; the provider is the local one of ``$SWE_SDK_STATE``."""
    if (artifact_folder(path) / "config.json").exists():
        swe.resume(path, progress=False).close()
        return
    tasks = [Task.model_validate_json(line) for line in (folder / "tasks.jsonl").read_text().splitlines()]
    swe.run(
        tasks,
        AGENT,
        provider="local",
        path=path,
        limit=ROLLOUTS - 1,
        budget=BUDGET_S,
        checkpoint_every=0.5,
        progress=False,
    ).close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
