"""Sums over many rollouts are what the rows say, one by one; the made-up store has in it what it claims."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.made_up_store import MadeUp, main, write_store
from swe_sdk.model.budget import Budget
from swe_sdk.runs.run import Run
from swe_sdk.store import events as ev
from swe_sdk.store.filters import GroupColumn, RolloutFilter
from swe_sdk.store.index import RunIndex, open_index
from swe_sdk.store.rows import SnapshotRow
from swe_sdk.store.writer import RunWriter
from tests.store.made import MASK, all_rollouts, whole_rollout, write

CHOSEN = (RolloutFilter(), RolloutFilter(provider=("docker",)), RolloutFilter(text="django", family=("swe-bench",)))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[MadeUp, RunIndex]:
    folder = tmp_path_factory.mktemp("made-up")
    found = write_store(folder, runs=9, rollouts=1800, huge_log_bytes=2_000_000)
    with open_index(folder, index_dir=tmp_path_factory.mktemp("ix")) as index:
        yield found, index


@pytest.mark.parametrize("chosen", CHOSEN, ids=("all", "docker", "django"))
def test_cells_and_buckets_count_each_mask_once(made: tuple[MadeUp, RunIndex], chosen: RolloutFilter) -> None:
    _made, index = made
    masks = index.masks(chosen, limit=10_000)
    cells = index.mask_cells(chosen)
    assert Counter(
        (row.run, row.mask.kind, row.mask.stage, row.provider, row.is_final, row.mask.retryable) for row in masks.rows
    ) == {
        (cell.run, cell.kind, cell.stage, cell.provider, cell.is_final, cell.retryable): cell.attempts for cell in cells
    }
    times = index.mask_times(chosen, buckets=7)
    assert times is not None
    assert Counter(row.mask.kind for row in masks.rows) == sum(
        (Counter({bucket.kind: bucket.attempts}) for bucket in times.buckets), Counter()
    )
    assert {bucket.bucket for bucket in times.buckets} <= set(range(7))
    assert times.since == min(row.at for row in masks.rows)


def test_masks_by_kind_stage_and_what_came_after(made: tuple[MadeUp, RunIndex]) -> None:
    _made, index = made
    every = index.masks(limit=10_000).rows
    kinds = Counter((row.mask.kind, row.mask.stage) for row in every)
    assert len({kind for kind, _stage in kinds}) > 10, "masks of all kinds"
    (kind, stage), number = kinds.most_common(1)[0]
    assert index.masks(kind=kind, stage=stage).total == number
    worth_it = index.masks(final=True, retryable=True, limit=10_000)
    assert {row.rollout_id for row in worth_it.rows} == {
        row.rollout_id for row in every if row.is_final and row.mask.retryable
    }
    assert index.count(RolloutFilter(status=("masked",))) == index.masks(final=True).total
    assert index.masks(final=False).total == len([row for row in every if not row.is_final]) > 0


@pytest.mark.parametrize("chosen", CHOSEN, ids=("all", "docker", "django"))
def test_budgets_of_runs_are_those_of_their_rollouts(made: tuple[MadeUp, RunIndex], chosen: RolloutFilter) -> None:
    _made, index = made
    rows = index.rollouts(chosen, limit=10_000).rows
    for budget in index.run_budgets(chosen):
        own = [row for row in rows if row.run == budget.run]
        assert budget.rollouts == len(own)
        assert budget.spent_s == pytest.approx(sum(row.spent_s for row in own))
        assert budget.parked_s == pytest.approx(sum(row.parked_s for row in own))
        assert budget.limited == sum(row.total_s is not None for row in own)
        assert budget.exhausted == sum(row.remaining_s == 0 for row in own)
    bins = Counter()
    for found in index.budget_bins(chosen, bins=11):
        bins[found.bin] += found.rollouts
    assert bins == Counter(
        10 if row.spent_s >= row.total_s else int(row.spent_s / row.total_s * 10) for row in rows if row.total_s
    )


@pytest.mark.parametrize("chosen", CHOSEN, ids=("all", "docker", "django"))
@pytest.mark.parametrize("column", ["run", "family", "provider", "agent", "model", "status", "mask_kind"])
def test_facets_are_the_groups_of_every_column(
    made: tuple[MadeUp, RunIndex], chosen: RolloutFilter, column: GroupColumn
) -> None:
    _made, index = made
    found: Counter[str | None] = Counter()
    for facet in index.facets(chosen):
        found[getattr(facet, column)] += facet.rollouts
    assert found == {group.value: group.rollouts for group in index.groups(column, chosen)}


def test_nothing_is_masked_nothing_is_summed(tmp_path: Path) -> None:
    write(tmp_path / "run", *whole_rollout("a.0"))
    with open_index(tmp_path, index_dir=tmp_path / "ix") as index:
        assert index.mask_cells() == []
        assert index.mask_times() is None
        assert index.budget_bins() == []
        assert index.under_way(now=0.0) == []
        assert index.snapshot_totals() == []


def test_what_is_left_goes_by_the_clock_while_a_rollout_works(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", sync=False) as writer:
        for name in ("works", "parked", "went-on", "waits", "over"):
            of = {"rollout_id": f"{name}.0", "attempt": 1}
            writer.append(ev.RolloutQueued(rollout_id=f"{name}.0", instance_id=name), at=100.0)
            writer.append(ev.AttemptStarted(**of), at=100.0)
            writer.append(ev.StageStarted(**of, stage="seed"), at=100.0)
            writer.append(ev.StageEnded(**of, stage="seed", seconds=10.0), at=110.0)
            budget = Budget(total_s=100.0, spent_s=10.0)
            writer.append(ev.BudgetCharged(**of, budget=budget), at=110.0)
            if name != "waits":
                writer.append(ev.StageStarted(**of, stage="invoke_agent"), at=120.0)
            if name in ("parked", "went-on"):
                writer.append(ev.RolloutParked(**of), at=130.0)
            if name == "went-on":
                writer.append(ev.RolloutUnparked(**of), at=140.0)
            if name == "over":
                writer.append(ev.RolloutEnded(**of, status="resolved", reward=1.0), at=130.0)
    with open_index(tmp_path, index_dir=tmp_path / "ix") as index:
        found = {row.instance_id: (row.working_s, row.left_s) for row in index.under_way(now=150.0)}
        assert found == {"works": (30.0, 60.0), "parked": (0.0, 90.0), "went-on": (10.0, 80.0), "waits": (0.0, 90.0)}
        assert [row.instance_id for row in index.under_way(now=1e6, limit=2)] == ["works", "went-on"]
        assert index.under_way(now=1e6, limit=1)[0].left_s == 0.0


def test_snapshot_totals_are_those_of_the_rows(made: tuple[MadeUp, RunIndex]) -> None:
    found, index = made
    rows = index.snapshots()
    totals = {one.run: one for one in index.snapshot_totals()}
    assert totals.keys() == {row.run for row in rows}
    for run, total in totals.items():
        own = [row for row in rows if row.run == run]
        there = [row for row in own if row.released_at is None]
        leaks = [row for row in own if row.trouble == "leak"]
        assert (total.snapshots, total.there, total.released) == (len(own), len(there), len(own) - len(there))
        assert (total.there_bytes, total.leaked_bytes) == (bytes_of(there), bytes_of(leaks))
        assert total.leaks == len(leaks)
        assert total.violations == sum(row.trouble == "violation" for row in own)
    assert {row.snapshot_id: row.trouble for row in rows if row.trouble} == {
        found.leaked: "leak",
        found.violated: "violation",
    }


def test_the_made_up_store_has_what_it_claims(made: tuple[MadeUp, RunIndex]) -> None:
    found, index = made
    rows = all_rollouts(index)
    assert len(rows) == found.rollouts
    assert {row.status for row in rows} >= {"resolved", "unresolved", "masked", "running", "queued", "stopped"}
    assert {run.end_reason for run in index.runs()} == {"finished", "stopped", "failed", None}
    resumed = [row for row in rows if row.restored_from]
    assert resumed, "some go on from a checkpoint"
    assert any(row.parked_s > 0 and row.attempt > 1 for row in rows)
    (run,) = {row.run for row in rows if row.rollout_id == found.huge_log and row.run.startswith("00")}
    (log,) = [each for each in index.artifacts(found.huge_log, run=run) if each.name == "huge.log"]
    with index.open_artifact(log) as file:
        assert file.size == 2_000_000
        assert file.find("this line is in the log once") is not None
    kept = [row for row in index.checkpoints() if row.state == "kept"]
    assert {row.run for row in kept} >= {found.live_run}


def test_the_same_seed_makes_the_same_store(tmp_path: Path) -> None:
    first, again = (write_store(tmp_path / name, runs=4, rollouts=120) for name in ("one", "two"))
    assert first == again
    assert first.leaked != write_store(tmp_path / "other", runs=4, rollouts=120, seed=8).leaked


def test_a_mask_that_was_graded_after_all_is_in_no_sum(tmp_path: Path) -> None:
    masked = ev.AttemptMasked(rollout_id="a.0", attempt=1, mask=MASK)
    write(tmp_path / "run", *whole_rollout("a.0")[:2], masked, *whole_rollout("a.0")[2:])
    with open_index(tmp_path, index_dir=tmp_path / "ix") as index:
        assert index.mask_cells() == []
        assert index.masks().total == 0


def test_the_live_run_goes_on_before_the_eyes_of_its_viewers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--runs", "4", "--rollouts", "400", "--huge-log-mb", "0", "--play-s", "0.5", "--speed", "500"]
    assert main([str(tmp_path / "runs"), *options]) == 0
    assert "400 rollouts in 4 runs" in capsys.readouterr().out
    with open_index(tmp_path / "runs", index_dir=tmp_path / "ix") as index:
        live = index.runs()[0]
        assert live.run.startswith("03")
        assert len(list((Path(live.path) / "events").iterdir())) == 2, "one journal for what was, one for what came"
        assert live.end_reason is None
        finished = sum(live.counts.get(status, 0) for status in ("resolved", "unresolved", "masked"))
    assert finished > 90, "nine tenths were over before"


def bytes_of(rows: list[SnapshotRow]) -> int | None:
    return sum(row.size_bytes or 0 for row in rows) if rows else None


def test_sizes_that_nobody_has_measured_are_not_zero(tmp_path: Path) -> None:
    """As in journals of before, which say 0 for it; a total is over what was measured."""
    with RunWriter(tmp_path / "old", sync=False) as writer:
        for name in ("a", "b"):
            writer.append(ev.SnapshotTaken(checkpoint_id="c", snapshot_id=name))
        path = writer.journal_path
    assert path.read_bytes().count(b'"size_bytes":null') == 2
    path.write_bytes(path.read_bytes().replace(b'"size_bytes":null', b'"size_bytes":0'))
    with RunWriter(tmp_path / "new", sync=False) as writer:
        writer.append(ev.SnapshotTaken(checkpoint_id="c", snapshot_id="a", size_bytes=7))
        writer.append(ev.SnapshotTaken(checkpoint_id="c", snapshot_id="b"))
    with open_index(tmp_path, index_dir=tmp_path / "ix") as index:
        assert [row.size_bytes for row in index.snapshots("old")] == [None, None]
        assert [row.size_bytes for row in index.snapshots("new")] == [7, None]
        totals = {one.run: one for one in index.snapshot_totals()}
        assert (totals["old"].there_bytes, totals["old"].leaked_bytes, totals["old"].leaks) == (None, None, 2)
        assert (totals["new"].there_bytes, totals["new"].leaked_bytes) == (7, 7)
    with Run(tmp_path / "old") as old, Run(tmp_path / "new") as new:
        assert old.snapshots.summary == "2 leaked"
        assert new.snapshots.summary == "2 leaked; 0.0 MiB there"
        assert old.snapshots.to_frame()["size_bytes"].isna().all()
