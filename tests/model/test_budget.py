"""Seconds are spent once, parked time is never charged."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from swe_sdk.model.budget import Budget

SECONDS = st.floats(min_value=0, max_value=1e6)
STEPS = st.lists(st.tuples(st.sampled_from(["spend", "park"]), SECONDS | st.floats(max_value=0, min_value=-1e6)))


@given(SECONDS, STEPS)
def test_spent_parked_and_remaining_add_up(total_s: float, steps: list[tuple[str, float]]) -> None:
    budget = Budget(total_s=total_s)
    for kind, seconds in steps:
        budget = getattr(budget, kind)(seconds)
    spent = math.fsum(max(0.0, seconds) for kind, seconds in steps if kind == "spend")
    parked = math.fsum(max(0.0, seconds) for kind, seconds in steps if kind == "park")
    assert budget.spent_s == pytest.approx(spent)
    assert budget.parked_s == pytest.approx(parked)
    assert budget.remaining_s == pytest.approx(max(0.0, total_s - spent), abs=1e-6)
    assert budget.is_spent == (budget.remaining_s == 0.0)
    assert budget.total_s == total_s


@given(STEPS)
def test_the_order_of_parking_does_not_matter(steps: list[tuple[str, float]]) -> None:
    def run(order: list[tuple[str, float]]) -> Budget:
        budget = Budget(total_s=10)
        for kind, seconds in order:
            budget = getattr(budget, kind)(seconds)
        return budget

    assert run(steps) == run(sorted(steps, key=lambda step: step[0]))


def test_without_a_limit_nothing_is_ever_spent() -> None:
    budget = Budget().spend(1e9)
    assert budget.remaining_s is None
    assert not budget.is_spent


def test_a_budget_of_nothing_is_spent_at_once() -> None:
    assert Budget(total_s=0).is_spent
    assert Budget(total_s=1).spend(2).remaining_s == 0.0


def test_budgets_are_values() -> None:
    budget = Budget(total_s=5)
    assert budget.spend(2).park(3) == Budget(total_s=5, spent_s=2, parked_s=3)
    assert budget == Budget(total_s=5)
    assert Budget.model_validate_json(budget.spend(1).model_dump_json()) == budget.spend(1)


@pytest.mark.parametrize("fields", [{"total_s": -1}, {"spent_s": -1}, {"parked_s": -0.1}, {"seconds": 1}])
def test_negative_and_unknown_fields_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Budget(**fields)


@pytest.mark.parametrize("field", ["total_s", "spent_s", "parked_s"])
def test_what_is_no_number_is_refused(field: str) -> None:
    """A clock that goes wrong must not make a budget that never ends."""
    with pytest.raises(ValidationError):
        Budget(**{field: math.nan})
