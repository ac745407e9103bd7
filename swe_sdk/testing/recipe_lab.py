"""The workplace of the checks of the recipe suite: one task, variants of it, and a provider to grade them on."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from swe_sdk.grading.verify import grade
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task
from swe_sdk.recipes.contract import Recipe
from swe_sdk.recipes.registry import get_recipe
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.store.results import Results
from swe_sdk.testing.expect import NotApplicable


class RecipeLab:
    """One task on one provider."""

    def __init__(self, task: Task, provider: SandboxProvider) -> None:
        self.task = task
        self.provider = provider
        self._printed: str | None = None

    @property
    def recipe(self) -> Recipe:
        """The recipe of the task's family."""
        return get_recipe(self.task.family)

    @property
    def gold(self) -> Patch:
        """The task's gold patch; ``NotApplicable`` where it has none."""
        if self.task.grading.gold_patch is None:
            raise NotApplicable("the task has no gold patch")
        return self.task.grading.gold_patch

    @property
    def wrong(self) -> Patch:
        """The task's wrong patch; ``NotApplicable`` where it has none."""
        if self.task.grading.wrong_patch is None:
            raise NotApplicable("the task has no wrong patch")
        return self.task.grading.wrong_patch

    def variant(self, **grading: Any) -> Task:
        """The task with another private half."""
        return self.task.model_copy(update={"grading": self.task.grading.model_copy(update=grading)})

    async def grade(self, patch: Patch | None, task: Task | None = None, **settings: Any) -> Outcome:
        """What the patch is worth on the task or a variant of it, measured once."""
        return await grade(task or self.task, patch, provider=self.provider, share=False, retries=0, **settings)

    async def printed_by_gold(self) -> str:
        """What the tests print when the gold patch is in: the best that a forger can know of."""
        if self._printed is None:
            with tempfile.TemporaryDirectory(prefix="swe-sdk-recipe-") as folder:
                outcome = await self.grade(self.gold, results=Results(folder))
                log = next(Path(folder).rglob("test.log")).read_text("utf-8", "replace")
            marker = f">>>>> {outcome.evidence['log_nonce']} "
            inside = log.partition(f"{marker}Start Test Output\n")[2]
            self._printed = inside.partition(f"{marker}End Test Output\n")[0]
        return self._printed
