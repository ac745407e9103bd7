"""Metrics against values worked out by hand, and what they must never hide."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.metrics import RolloutFacts, bootstrap, pass_at_k, run_metrics, wilson
from swe_sdk.metrics.passes import Counted
from swe_sdk.metrics.summary import spread_of
from swe_sdk.model.budget import Budget


def fact(task: str, sample: int, status: str, **changes: object) -> RolloutFacts:
    mask = {"mask_kind": "sandbox_lost", "mask_stage": "tests"} if status == "masked" else {}
    fields = {"rollout_id": f"{task}.{sample}", "instance_id": task, "status": status, **mask, **changes}
    return RolloutFacts.model_validate(fields)


def test_wilson_interval_has_its_published_values() -> None:
    """5 of 10: the textbook example; 0 and all: the bounds that the simple formula gets wrong."""
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=5e-5)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=5e-5)
    assert wilson(10, 10) == pytest.approx((0.7225, 1.0), abs=5e-5)
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_interval_holds_the_proportion_and_stays_within_bounds(case: tuple[int, int]) -> None:
    successes, trials = case
    low, high = wilson(successes, trials)
    assert 0.0 <= low <= successes / trials <= high <= 1.0
    assert low < high


def test_bootstrap_is_the_same_each_time_and_near_the_normal_interval() -> None:
    values = [0.0, 1.0] * 200
    low, high = bootstrap(values)
    assert bootstrap(values) == (low, high)
    assert (low, high) == pytest.approx((0.5 - 1.96 * 0.025, 0.5 + 1.96 * 0.025), abs=0.006)
    assert bootstrap([0.25, 0.25]) == (0.25, 0.25)
    assert bootstrap([]) == (0.0, 1.0)


@pytest.mark.parametrize(("resolved", "unresolved", "k"), [(1, 3, 1), (1, 3, 2), (2, 3, 3), (0, 4, 2), (4, 0, 4)])
def test_pass_at_k_is_the_part_of_all_choices_with_a_success(resolved: int, unresolved: int, k: int) -> None:
    samples = [1] * resolved + [0] * unresolved
    choices = [any(choice) for choice in combinations(samples, k)]
    found = pass_at_k({"a": Counted(resolved, unresolved, 0)}, k)
    assert found.value == pytest.approx(sum(choices) / len(choices))


def test_one_sample_a_task_has_a_wilson_interval_and_several_have_a_bootstrap() -> None:
    one = pass_at_k({"a": Counted(1, 0, 0), "b": Counted(0, 1, 0), "c": Counted(0, 0, 1)}, 1)
    assert (one.value, one.method, one.tasks, one.left_out) == (0.5, "wilson", 2, 1)
    assert (one.low, one.high) == pytest.approx(wilson(1, 2))
    assert (one.if_masked_failed, one.if_masked_resolved) == pytest.approx((1 / 3, 2 / 3))
    several = pass_at_k({"a": Counted(1, 3, 0), "b": Counted(0, 4, 0)}, 1)
    assert (several.value, several.method) == (0.125, "bootstrap over tasks")
    assert (several.low, several.high) == (0.0, 0.25)
    assert "1 left out" in str(one)
    alike = pass_at_k({"a": Counted(2, 0, 0), "b": Counted(3, 0, 0)}, 1)
    assert (alike.low, alike.high) == wilson(2, 2), "two tasks that came to the same prove little"


def test_tasks_with_too_few_measured_samples_are_left_out_and_counted() -> None:
    tasks = {"a": Counted(1, 1, 2), "b": Counted(2, 2, 0)}
    found = pass_at_k(tasks, 4)
    assert (found.value, found.tasks, found.left_out) == (1.0, 1, 1)
    nothing = pass_at_k({"a": Counted(0, 0, 3)}, 1)
    assert (nothing.value, nothing.low, nothing.high, nothing.left_out) == (None, 0.0, 1.0, 1)
    assert "not measured" in str(nothing)


def test_masks_are_in_no_mean_and_in_every_count() -> None:
    facts = [
        fact("a", 0, "resolved", budget=Budget(total_s=100, spent_s=40, parked_s=5)),
        fact("b", 0, "unresolved", budget=Budget(total_s=100, spent_s=100)),
        fact("c", 0, "masked", attempts=2),
        fact("d", 0, "masked", mask_kind="cancelled", mask_stage="agent"),
        fact("e", 0, "masked", mask_kind="budget_spent", mask_stage="agent"),
        fact("f", 0, "unfinished"),
    ]
    metrics = run_metrics(facts)
    assert (metrics.rollouts, metrics.finished, metrics.unfinished) == (6, 5, 1)
    assert (metrics.resolved, metrics.unresolved, metrics.masked) == (1, 1, 3)
    assert metrics.mean_reward == 0.5
    assert metrics.masked_rate == 0.6
    assert metrics.infra_failed_rate == 0.2, "neither a stop nor the agent's own time is the infrastructure's doing"
    assert metrics.masked_by_kind == {"budget_spent": 1, "cancelled": 1, "sandbox_lost": 1}
    assert metrics.masked_by_stage == {"agent": 2, "tests": 1}
    assert metrics.retried == 1
    assert (metrics.budget.spent_s, metrics.budget.parked_s, metrics.budget.exhausted) == (140, 5, 1)
    assert metrics.budget.used is not None
    assert (metrics.budget.used.count, metrics.budget.used.mean) == (2, pytest.approx(0.7))
    assert metrics.summary == (
        "1 resolved, 1 unresolved, 3 masked (budget_spent 1, cancelled 1, sandbox_lost 1) of 5 finished; 1 unfinished;"
        " mean reward 0.500 over what was measured"
    )


def test_nothing_measured_is_no_zero() -> None:
    for facts in ([], [fact("a", 0, "masked")], [fact("a", 0, "unfinished")]):
        metrics = run_metrics(facts)
        assert metrics.mean_reward is None
        assert metrics.pass_at_1.value is None
        assert "mean" not in metrics.summary


def test_pass_at_more_than_one_for_as_many_samples_as_there_are() -> None:
    facts = [fact("a", n, "resolved" if n == 0 else "unresolved") for n in range(6)]
    metrics = run_metrics(facts)
    assert [each.k for each in metrics.pass_at] == [1, 2, 4, 6]
    assert [each.value for each in metrics.pass_at] == pytest.approx([1 / 6, 1 / 3, 2 / 3, 1.0])


def test_spread_by_hand() -> None:
    spread = spread_of([1.0, 2.0, 3.0, 10.0])
    assert spread is not None
    assert spread.model_dump() == {"count": 4, "total": 16.0, "mean": 4.0, "median": 2.5, "p90": 10.0, "max": 10.0}
    assert spread_of([]) is None
    assert spread_of([float(n) for n in range(1, 11)]).p90 == 9.0  # type: ignore[union-attr]


@given(st.lists(st.sampled_from(["resolved", "unresolved", "masked", "unfinished"]), max_size=40))
def test_counts_add_up(statuses: list[str]) -> None:
    metrics = run_metrics(fact(f"t{n % 5}", n, status) for n, status in enumerate(statuses))
    assert metrics.resolved + metrics.unresolved + metrics.masked == metrics.finished
    assert metrics.finished + metrics.unfinished == metrics.rollouts == len(statuses)
    assert sum(metrics.masked_by_kind.values()) == sum(metrics.masked_by_stage.values()) == metrics.masked
    assert metrics.model_validate_json(metrics.model_dump_json()) == metrics
