"""The names of ``swe_sdk`` as coroutines, for code that runs its own event loop."""

from swe_sdk.measure import grade, grade_many, validate
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.sandbox.sandbox import Sandbox, prepare

__all__ = ["Sandbox", "grade", "grade_many", "load_tasks", "prepare", "validate"]
