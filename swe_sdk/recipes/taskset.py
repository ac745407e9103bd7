"""Many tasks: a sequence and a mapping by instance id at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from swe_sdk.errors import UnknownFamily, UnknownParser, UnknownTask
from swe_sdk.model.columns import frame_of, typed
from swe_sdk.model.task import Task
from swe_sdk.recipes.frames import TASKS
from swe_sdk.recipes.registry import get_recipe
from swe_sdk.shown import Shown, one_line

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_IDS = 3
_PUBLIC = [name for name in Task.model_fields if name not in ("metadata", "grading")]


class TaskSet(Shown, Sequence[Task]):
    """Tasks in order, none twice; immutable.

    ``tasks["id"]``, ``tasks[0]``, ``tasks[:5]`` (a TaskSet), ``"id" in tasks``, iteration over tasks.
    """

    def __init__(self, tasks: Iterable[Task], *, name: str = "") -> None:
        self._tasks = tuple(tasks)
        self._by_id = {task.instance_id: task for task in self._tasks}
        self.name = name

    @property
    def ids(self) -> tuple[str, ...]:
        """The instance ids, in order."""
        return tuple(self._by_id)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What to know before using the tasks: which can never be resolved, and which need what is missing here."""
        return tuple(_warnings(self._tasks))

    @overload
    def __getitem__(self, key: int | str) -> Task: ...
    @overload
    def __getitem__(self, key: slice) -> TaskSet: ...
    def __getitem__(self, key: int | str | slice) -> Task | TaskSet:
        """A task by place or by id (``UnknownTask`` where there is none), or a slice of the set."""
        if isinstance(key, slice):
            return self._part(self._tasks[key])
        if isinstance(key, str):
            if key not in self._by_id:
                raise UnknownTask(key, self.ids)
            return self._by_id[key]
        return self._tasks[key]

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks)

    def __contains__(self, item: object) -> bool:
        """Whether there is a task of that id, or that very task."""
        return item in self._by_id if isinstance(item, str) else item in self._tasks

    def filter(self, predicate: Callable[[Task], bool]) -> TaskSet:
        """The tasks for which ``predicate`` is true."""
        return self._part(task for task in self._tasks if predicate(task))

    def public(self) -> list[dict[str, Any]]:
        """What an agent may see of each task, as plain data."""
        return [task.public() for task in self._tasks]

    def to_frame(self) -> pd.DataFrame:
        """A row a task, indexed by instance id: the public fields, those of ``metadata`` as columns of their own."""
        rows = [_columns(task) for task in self._tasks]
        frame = frame_of(TASKS, rows, index="instance_id")
        further = dict.fromkeys(name for row in rows for name in row if name not in _PUBLIC)
        if not further:
            return frame
        import pandas as pd

        columns = {name: typed([row.get(name) for row in rows], frame.index) for name in further}
        return pd.concat([frame, pd.DataFrame(columns)], axis=1)

    def __repr__(self) -> str:
        name = f"{one_line(self.name)!r}, " if self.name else ""
        return f"TaskSet({name}{len(self)} task{'s' * (len(self) != 1)}: {_few(self.ids)})"

    def _part(self, tasks: Iterable[Task]) -> TaskSet:
        return TaskSet(tasks, name=self.name)


def _columns(task: Task) -> dict[str, Any]:
    public = task.public()
    return {name: public[name] for name in _PUBLIC} | {k: v for k, v in task.metadata.items() if k not in _PUBLIC}


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(map(one_line, names[:_SHOWN_IDS]))
    return f"{shown}, ..." if len(names) > _SHOWN_IDS else shown or "none"


def _warnings(tasks: Sequence[Task]) -> Iterator[str]:
    checks: tuple[tuple[str, Callable[[Task], bool]], ...] = (
        ("without a fail_to_pass test can never be resolved", lambda task: not task.grading.fail_to_pass),
        ("with a log parser that is not known here will be masked", _lacks_parser),
        ("with binary test files need them from the network", lambda task: bool(task.grading.test_assets)),
    )
    for problem, applies in checks:
        ids = [task.instance_id for task in tasks if applies(task)]
        if ids:
            yield f"{len(ids)} of {len(tasks)} tasks {problem}: {_few(ids)}"


def _lacks_parser(task: Task) -> bool:
    try:
        get_recipe(task.family).parse(task, "")
    except (UnknownParser, UnknownFamily):
        return True
    return False
