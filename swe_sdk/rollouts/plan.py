"""Which rollouts there are to be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from swe_sdk.model.budget import Budget
from swe_sdk.model.task import Task
from swe_sdk.rollouts.bookmark import Bookmark


@dataclass(frozen=True)
class Planned:
    """A rollout that is to be: a task, a sample, and where it goes on if it does not begin."""

    task: Task
    sample: int = 0
    attempt: int = 1
    """The number of its next attempt."""
    budget: Budget | None = None
    """None = that of the run."""
    start: Bookmark | None = None
    """Where it goes on; its budget and its attempt are no part of that."""
    restart_reason: str = ""
    """Why it does not go on, though a checkpoint holds it."""

    def going_on(self, mark: Bookmark) -> Planned:
        """From a bookmark, with what is left of its budget."""
        return replace(self, start=mark, budget=mark.budget, attempt=max(self.attempt, mark.attempt + 1))

    def starting_over(self, reason: str) -> Planned:
        """From the beginning, though it is held."""
        return replace(self, start=None, budget=None, restart_reason=reason)

    @property
    def rollout_id(self) -> str:
        """``<instance id>.<sample>``."""
        return f"{self.task.instance_id}.{self.sample}"


def plan(tasks: Iterable[Task | Planned], samples: int = 1) -> list[Planned]:
    """``samples`` rollouts of each task, all first samples before the second ones; what is planned already stays."""
    listed = list(tasks)
    fresh = [task for task in listed if isinstance(task, Task)]
    planned = [each for each in listed if isinstance(each, Planned)]
    return planned + [Planned(task, sample) for sample in range(samples) for task in fresh]
