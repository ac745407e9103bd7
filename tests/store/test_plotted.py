"""Columns for pictures, beside what one finds row by row in runs with masks, retries, restores and crashes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.made_up_store import write_store
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import RunIndex, open_index
from swe_sdk.store.rows import RolloutRow


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunIndex]:
    folder = tmp_path_factory.mktemp("made_up")
    write_store(folder / "runs", runs=5, rollouts=400, steps=1)
    with open_index(folder / "runs", index_dir=folder / "index") as index:
        yield index


@pytest.fixture(params=["all", "one run", "one family that was measured", "none"])
def chosen(request: pytest.FixtureRequest, index: RunIndex) -> RolloutFilter:
    run = index.runs()[0].run
    family = index.groups("family")[0].value or ""
    return {
        "all": RolloutFilter(),
        "one run": RolloutFilter(run=(run,)),
        "one family that was measured": RolloutFilter(family=(family,), status=("resolved", "unresolved")),
        "none": RolloutFilter(instance_id=("nothing",)),
    }[request.param]


@pytest.fixture
def rows(index: RunIndex, chosen: RolloutFilter) -> tuple[RolloutRow, ...]:
    return index.rollouts(chosen, limit=100_000).rows


def test_tasks(index: RunIndex, chosen: RolloutFilter, rows: tuple[RolloutRow, ...]) -> None:
    by_hand: dict[str, Counter[str]] = {}
    for row in rows:
        by_hand.setdefault(row.instance_id, Counter())[row.status] += 1
    found = {each.instance_id: (each.resolved, each.unresolved, each.masked) for each in index.task_counts(chosen)}
    assert found == {name: (n["resolved"], n["unresolved"], n["masked"]) for name, n in by_hand.items()}
    families = {row.instance_id: row.family for row in rows}
    assert {each.instance_id: each.family for each in index.task_counts(chosen)} == families


def test_masks(index: RunIndex, chosen: RolloutFilter, rows: tuple[RolloutRow, ...]) -> None:
    by_hand = Counter((row.mask_kind, row.mask_stage) for row in rows if row.status == "masked")
    assert {(each.kind, each.stage): each.rollouts for each in index.mask_counts(chosen)} == by_hand
    retried = sum(each.will_retry for row in rows for each in index.attempts(row.rollout_id, run=row.run))
    assert index.retried_masks(chosen) == retried


def test_budgets(index: RunIndex, chosen: RolloutFilter, rows: tuple[RolloutRow, ...]) -> None:
    found = index.budget_points(chosen)
    begun = [(r.rollout_id, r.total_s, r.spent_s, r.parked_s) for r in rows if r.attempt]
    assert sorted(map(tuple, found), key=str) == sorted(begun, key=str)
    assert [point.spent_s for point in found] == sorted((point.spent_s for point in found), reverse=True)


def test_stages(index: RunIndex, chosen: RolloutFilter, rows: tuple[RolloutRow, ...]) -> None:
    stages = [(row, stage) for row in rows for stage in index.stages(row.rollout_id, run=row.run)]
    by_hand: dict[str, list[float]] = {}
    for _, stage in stages:
        if stage.ended_at is not None and stage.seconds is not None:
            by_hand.setdefault(stage.stage, []).append(stage.seconds)
    assert index.stage_points(chosen) == {name: sorted(points) for name, points in by_hand.items()}
    sums = {each.stage: (each.count, each.total_s) for each in index.stage_seconds(chosen)}
    assert sums == {name: (len(points), pytest.approx(sum(points))) for name, points in by_hand.items()}


def test_spans(index: RunIndex, chosen: RolloutFilter, rows: tuple[RolloutRow, ...]) -> None:
    ends = {
        (row.run, row.rollout_id, each.attempt): each.ended_at
        for row in rows
        for each in index.attempts(row.rollout_id, run=row.run)
    }
    by_hand = Counter(
        (row.rollout_id, s.attempt, s.stage, s.started_at, s.ended_at or ends[row.run, row.rollout_id, s.attempt])
        for row in rows
        for s in index.stages(row.rollout_id, run=row.run)
        if s.started_at is not None
    )
    found = index.stage_spans(chosen)
    assert Counter((s.rollout_id, s.attempt, s.stage, s.started_at, s.ended_at) for s in found) == by_hand
    assert [span.started_at for span in found] == sorted(span.started_at for span in found)
    assert len({span.rollout for span in found}) == len({(row.run, row.rollout_id) for row in rows if row.attempt})
