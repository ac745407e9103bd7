"""Pictures of runs: each function draws on axes (its own where none are given) and returns them.

Runs and outcomes have them as methods (``run.plot_masks()``). matplotlib is imported when a picture is drawn.
"""

from swe_sdk.notebook.plots.budgets import plot_budgets
from swe_sdk.notebook.plots.comparison import plot_comparison
from swe_sdk.notebook.plots.gantt import Lane, plot_gantt
from swe_sdk.notebook.plots.masks import plot_masks
from swe_sdk.notebook.plots.outcomes import plot_outcomes
from swe_sdk.notebook.plots.retention import plot_retention
from swe_sdk.notebook.plots.stages import plot_stages

__all__ = [
    "Lane",
    "plot_budgets",
    "plot_comparison",
    "plot_gantt",
    "plot_masks",
    "plot_outcomes",
    "plot_retention",
    "plot_stages",
]
