"""Spent, parked and remaining seconds."""

from __future__ import annotations

from swe_sdk.model.budget import Budget
from swe_sdk.notebook.amounts import seconds
from swe_sdk.notebook.blocks import Badge, Bar, Segment, View, Word
from swe_sdk.notebook.palette import BUDGET


def budget_bar(budget: Budget, title: str = "budget") -> Bar:
    """One bar: what is charged, what is left of it, and beside them what was parked, which is never charged."""
    sizes = {"spent": budget.spent_s, "parked": budget.parked_s or None, "remaining": budget.remaining_s}
    segments = [Segment(BUDGET[name], size, seconds(size)) for name, size in sizes.items() if size is not None]
    whole = "without limit" if budget.total_s is None else f"of {seconds(budget.total_s)}"
    return Bar(tuple(segments), f"{title} {whole}")


def budget_view(budget: Budget) -> View:
    """The bar alone."""
    state = (" ", Badge(BUDGET["spent"], "all of it is spent")) if budget.is_spent else ()
    return View((Word("Budget", "strong"), *state), (budget_bar(budget),))
