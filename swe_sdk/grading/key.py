"""The content key of a grade: equal keys mean that nothing which could change the verdict differs."""

from __future__ import annotations

from collections.abc import Mapping

from swe_sdk.model.ids import content_key
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import Policy
from swe_sdk.model.task import Task
from swe_sdk.recipes.contract import Recipe

GRADER_VERSION = "3"
"""Changes whenever this package may give another verdict on the same input."""


def grading_key(
    task: Task,
    patch: Patch,
    *,
    recipe: Recipe | None,
    policy: Policy,
    provider: str,
    environment_key: str | None,
    bounds: Mapping[str, float | None],
) -> str:
    """Sha256 over the whole grading input, hidden tests and versions included.

    A ready environment stands for itself, not the paths that its sources once had. A part that could not be found out
    (an unknown family has no recipe, an environment that failed has no key) enters as null.
    """
    described = task.private() if environment_key is None else {**task.private(), "environment": environment_key}
    return content_key(
        {
            "grader": GRADER_VERSION,
            "task": described,
            "patch": patch.sha256,
            "recipe": recipe and [recipe.family, recipe.version],
            "policy": policy.fingerprint,
            "provider": provider,
            "bounds": dict(bounds),
        }
    )
