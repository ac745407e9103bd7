"""What a recipe needs besides the task's environment: folders of this machine, files that must be in the box."""

from __future__ import annotations

from pathlib import Path

from swe_sdk.errors import CapabilityMissing
from swe_sdk.grading.box_git import BoxGit
from swe_sdk.grading.job import Job
from swe_sdk.model.task import Task
from swe_sdk.recipes.contract import NeedsFiles, Recipe
from swe_sdk.sandbox.contract import Mount
from swe_sdk.sandbox.prepared import PreparedEnvironment


def with_mounts(prepared: PreparedEnvironment, recipe: Recipe, task: Task) -> PreparedEnvironment:
    """The environment with the folders that the recipe brings along, where this machine has them."""
    if not isinstance(recipe, NeedsFiles):
        return prepared
    brought = [Mount(source=source, target=target) for source, target in recipe.brings(task) if Path(source).is_dir()]
    return prepared.model_copy(update={"mounts": (*prepared.mounts, *brought)})


async def require_needed(git: BoxGit, job: Job) -> None:
    """Look for the needed files before anything of the submission is in the box.

    Raises ``CapabilityMissing`` where none of several alternatives is there, and what the sandbox raises.
    """
    if not isinstance(job.recipe, NeedsFiles):
        return
    for alternatives in job.recipe.needs(job.task):
        look = 'for path do if [ -e "$path" ]; then exit 0; fi; done; exit 1'
        found = await git.run(["sh", "-c", look, "needs", *alternatives])
        if not found.ok:
            missing = f"the box has no {' or '.join(alternatives)}, which {job.recipe.family} needs"
            raise CapabilityMissing(missing, remedy=job.recipe.remedy)
