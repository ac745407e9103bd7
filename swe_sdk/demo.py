"""``swe-sdk demo``: a handful of patches, one for each thing that can come of a patch."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from swe_sdk import measure
from swe_sdk.cli_show import console, outcome_cells, outcome_table, plain, show_masks
from swe_sdk.cli_stop import run_stoppable
from swe_sdk.grading.batch import limiter_of
from swe_sdk.model.outcome import Outcome, Status
from swe_sdk.model.patch import EMPTY_PATCH, Patch
from swe_sdk.model.task import Task
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.store.results import Results

_GARBAGE = b"""\
--- a/no_such_file.py
+++ b/no_such_file.py
@@ -1,2 +1,2 @@
 def answer():
-    return 41
+    return 42
"""
_NEXT = {
    "grade mini --patches gold --output gold.jsonl": "grade all bundled tasks",
    "validate mini --n 3": "are they sound, and is none of them flaky?",
    "doctor": "which sandboxes work on this machine?",
}


@dataclass(frozen=True)
class Example:
    """A patch, and what should come of it; ``kind`` is that of the mask, if there should be one."""

    label: str
    task: Task
    patch: Patch
    status: Status
    kind: str | None = None

    def is_kept_by(self, outcome: Outcome) -> bool:
        """Whether the outcome is the promised one."""
        kind = outcome.mask.kind if outcome.mask else None
        return outcome.status == self.status and kind == self.kind


def examples(tasks: TaskSet) -> list[Example]:
    """The rows of the demo, out of the bundled tasks."""
    calc, cache, split = (tasks[f"mini__{name}-1"] for name in ("calc", "ttlcache", "fairsplit"))
    return [
        Example("gold", calc, _gold(calc), "resolved"),
        Example("gold", cache, _gold(cache), "resolved"),
        Example("gold", split, _gold(split), "resolved"),
        Example("wrong fix", calc, calc.grading.wrong_patch or EMPTY_PATCH, "unresolved"),
        Example("wrong fix", split, split.grading.wrong_patch or EMPTY_PATCH, "unresolved"),
        Example("empty", cache, EMPTY_PATCH, "unresolved"),
        Example("garbage", split, Patch.of(_GARBAGE), "unresolved"),
        Example("gold", _broken(calc), _gold(calc), "masked", "test_patch_failed"),
    ]


def demo(*, provider: str = "auto", results: str | Path | None = None) -> int:
    """Grade the examples and show them; 0 if each came out as it should, else 1."""
    store = Results(results)
    rows = examples(load_tasks("mini"))
    with _status() as say:
        outcomes = run_stoppable(partial(_grade_all, rows, provider, store, say))
    _show(rows, outcomes, store)
    return int(not all(row.is_kept_by(outcome) for row, outcome in zip(rows, outcomes, strict=True)))


async def _grade_all(rows: list[Example], provider: str, store: Results, say: Callable[[str], None]) -> list[Outcome]:
    outcomes: dict[int, Outcome] = {}
    limiter = limiter_of(None)

    async def one(index: int, row: Example) -> None:
        async with limiter:
            outcomes[index] = await measure.grade(
                row.task,
                row.patch,
                provider=provider,
                results=store,
                on_progress=lambda step: say(f"{row.task.instance_id}: {step}"),
            )
        say(f"graded {len(outcomes)} of {len(rows)}")

    async with anyio.create_task_group() as group:
        for index, row in enumerate(rows):
            group.start_soon(one, index, row)
    return [outcomes[index] for index in range(len(rows))]


def _gold(task: Task) -> Patch:
    assert task.grading.gold_patch is not None, f"the bundled task {task.instance_id} has a gold patch"
    return task.grading.gold_patch


def _broken(task: Task) -> Task:
    """A copy whose hidden tests cannot be installed, patch or no patch: nothing can be measured on it."""
    grading = task.grading.model_copy(update={"test_patch": Patch.of(_GARBAGE)})
    return task.model_copy(update={"instance_id": f"{task.instance_id}-broken", "grading": grading})


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    """Tells on standard error what goes on: a spinner on a terminal, else lines."""
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lambda line: screen.print(line, markup=False)
        return
    with screen.status("grading") as spinner:
        yield lambda line: spinner.update(plain(line))


def _show(rows: list[Example], outcomes: list[Outcome], store: Results) -> None:
    screen = console()
    table, unexpected = outcome_table("task", "patch"), []
    for row, outcome in zip(rows, outcomes, strict=True):
        table.add_row(plain(row.task.instance_id), plain(row.label), *outcome_cells(outcome))
        if not row.is_kept_by(outcome):
            table.add_row("", "", plain(f"should be {row.status}"))
            unexpected.append(outcome)
    screen.print(table)
    show_masks(screen, unexpected)
    screen.print("\nA masked outcome is no measurement: leave it out of every mean.")
    screen.print(f"results, logs and patches: {store.path}", markup=False, soft_wrap=True)
    screen.print("\nwhat to try next:")
    for arguments, what in _NEXT.items():
        screen.print(f"  {f'{_program()} {arguments}':<66}{what}", markup=False, soft_wrap=True)


def _program() -> str:
    """How the reader can call this program: by its name where that finds it, else by its path from here."""
    ours = Path(sys.executable).with_name("swe-sdk")
    found = shutil.which("swe-sdk")
    return "swe-sdk" if found and os.path.realpath(found) == os.path.realpath(ours) else os.path.relpath(ours)
