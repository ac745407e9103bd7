"""The names of ``swe_sdk`` as coroutines, for code that runs its own event loop."""

from swe_sdk.measure import grade, grade_many, validate
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.reverify import regrade
from swe_sdk.runs.run import Run
from swe_sdk.runs.start import open_run, resume, run
from swe_sdk.sandbox.sandbox import Sandbox, prepare
from swe_sdk.server.call import verify

__all__ = [
    "Run",
    "Sandbox",
    "grade",
    "grade_many",
    "load_tasks",
    "open_run",
    "prepare",
    "regrade",
    "resume",
    "run",
    "validate",
    "verify",
]
