"""Pictures of runs: the numbers that are drawn."""

from __future__ import annotations

import re
from statistics import median

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swe_sdk.grading.outcomes import Outcomes
from swe_sdk.metrics import Comparison
from swe_sdk.metrics.comparison import pairs_of
from swe_sdk.metrics.passes import Counted
from swe_sdk.notebook import plots
from swe_sdk.notebook.amounts import seconds
from swe_sdk.notebook.palette import SNAPSHOT
from swe_sdk.runs.run import Run
from swe_sdk.store.plotted import BudgetPoint, MaskCount, StageSpan
from swe_sdk.store.rows import CheckpointRow, SnapshotRow
from tests.notebook import made_run as made
from tests.notebook.drawing import PAIRS, bars, dots, drawn, said, title

pytestmark = pytest.mark.usefixtures("as_it_ships")


def test_outcomes_are_bars_as_long_as_their_counts(run: Run, ax: Axes) -> None:
    found = bars(drawn(run.plot_outcomes(ax=ax)))
    frame = run.to_frame()
    counted = frame.groupby(["status", "family"]).size()
    assert found == {f"{status} {family}": [count] for (status, family), count in counted.items()}
    assert "57 % of 7 measured resolved; 3 masked, which are in no rate" in said(ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["swe-bench", "multi-swe", "r2e-gym"]


def test_outcomes_of_grades_are_drawn_alike(ax: Axes) -> None:
    outcomes = Outcomes([made.outcome_of(each) for each in made.ROLLOUTS])
    found = bars(drawn(outcomes.plot_outcomes(ax=ax)))
    for status, count in made.STATUS_COUNTS.items():
        assert sum(length for name, (length,) in found.items() if name.startswith(f"{status} ")) == count


def test_masks_are_tiles_with_their_numbers(run: Run, ax: Axes) -> None:
    drawn(run.plot_masks(ax=ax))
    filled = {patch.get_gid() for patch in ax.patches if patch.get_facecolor()[:3] != (244 / 255,) * 3}
    assert filled == {"host_oom/tests", "sandbox_lost/agent", "verifier_unreachable/verify"}
    assert "3 of 10 finished rollouts masked (30 %): no measurements, and in no mean" in said(ax)
    assert "3 further attempts masked and tried again" in said(ax)
    other = Figure().add_subplot()
    Outcomes([made.outcome_of(each) for each in made.ROLLOUTS]).plot_masks(ax=other)
    assert {patch.get_gid() for patch in other.patches} == {patch.get_gid() for patch in ax.patches}


def test_many_kinds_of_masks_share_the_last_row(ax: Axes) -> None:
    counts = [MaskCount(f"kind_{n}", "tests", 100 - n) for n in range(40)]
    drawn(plots.plot_masks(counts, finished=10_000, ax=ax))
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert len(labels) == 24
    assert labels[-1].startswith("17 other kinds")
    assert f"{sum(100 - n for n in range(23, 40)):,}" in said(ax)


def test_budgets_are_spent_remaining_and_parked(run: Run, ax: Axes) -> None:
    found = bars(drawn(run.plot_budgets(ax=ax)))
    rows = run.to_frame().sort_values("spent_s", ascending=False, kind="stable")
    assert [60 * length for length in found["spent"]] == pytest.approx(rows["spent_s"].tolist())
    assert [60 * length for length in found["remaining"]] == pytest.approx(rows["remaining_s"].tolist())
    assert [60 * length for length in found["parked"]] == pytest.approx(rows["parked_s"].tolist())
    parked = next(box for box in ax.containers if box.get_label() == "parked")
    assert all(patch.get_x() * 60 == made.TOTAL_S for patch in parked.patches), "beyond the budget: never charged"
    assert "1 rollout has nothing left" in said(ax)


def test_a_budget_without_a_limit_has_no_end(ax: Axes) -> None:
    drawn(plots.plot_budgets([BudgetPoint("a.0", None, 300.0, 0.0), BudgetPoint("b.0", 600.0, 700.0, 0.0)], ax=ax))
    assert bars(ax)["remaining"] == [0.0, 0.0]
    assert len(ax.lines) == 1
    assert "1 rollout without a limit" in said(ax)


def test_areas_of_many_budgets_keep_the_sums(ax: Axes) -> None:
    points = [BudgetPoint(f"t-{n}.0", 1800.0, float(n % 1800), 60.0 * (n % 3)) for n in range(12_345)]
    drawn(plots.plot_budgets(points, ax=ax))
    assert title(ax) == "Budgets of 12,345 rollouts"
    areas = {patch.get_label(): patch.get_data() for patch in ax.patches}
    for name, wanted in (("spent", sum(p.spent_s for p in points)), ("parked", sum(p.parked_s for p in points))):
        area = areas[name]
        whole = sum((area.values - area.baseline) * (area.edges[1:] - area.edges[:-1]))
        assert whole * 60 == pytest.approx(wanted, rel=1e-9)


def test_stages_have_their_sums_and_medians(run: Run, ax: Axes) -> None:
    drawn(run.plot_stages(ax=ax))
    words = said(ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(made.STAGES)
    for stage in run.metrics.stages:
        assert f"{seconds(stage.total_s)} in all" in words
    verify = [each.seconds[3] for each in made.ROLLOUTS if each.seconds[3]]
    assert f"{seconds(sum(verify))} in all" in words
    assert f"{seconds(median(verify))}\n" in words
    box = next(box for box in ax.containers if box.get_label() == "invoke_agent").patches[0]
    assert box.get_x() < 420 < box.get_x() + box.get_width()


def test_gantt_has_every_stage_where_it_was(run: Run, ax: Axes) -> None:
    drawn(run.plot_gantt(ax=ax))
    places = {str(box.get_label()): box.patches[0] for box in ax.containers}
    for row, rollout in enumerate(run.rollouts.page(1, 50, sort="started_at")):
        for stage in rollout.stages:
            bar = places[f"{rollout.id} {stage.attempt} {stage.stage}"]
            assert stage.started_at is not None
            assert bar.get_x() * 60 == pytest.approx(stage.started_at - made.START, abs=1e-3)
            assert bar.get_y() + bar.get_height() / 2 == pytest.approx(row)
            if stage.ended_at is not None and stage.ended_at - stage.started_at > 10:
                assert bar.get_width() * 60 == pytest.approx(stage.ended_at - stage.started_at)
    assert len(places) == sum(len(rollout.stages) for rollout in run.rollouts.values())
    assert "✗ unresolved, attempt 2" in said(ax)
    assert "10 rollouts in 13 attempts" in said(ax)


def test_a_stage_without_an_end_reaches_the_end_and_is_hatched(ax: Axes) -> None:
    spans = [StageSpan(1, "a.0", 1, "seed", 100.0, 110.0), StageSpan(1, "a.0", 1, "invoke_agent", 110.0, None)]
    drawn(plots.plot_gantt(spans, {1: plots.Lane("a.0", "running")}, until=160.0, ax=ax))
    bar = next(box for box in ax.containers if "invoke_agent" in str(box.get_label())).patches[0]
    assert (bar.get_x(), bar.get_width(), bool(bar.get_hatch())) == (10.0, 50.0, True)
    assert "1 stage going on or cut off" in said(ax)


def test_a_stage_that_was_cut_off_ends_where_the_next_attempt_begins(ax: Axes) -> None:
    spans = [
        StageSpan(1, "a.0", 1, "invoke_agent", 100.0, None),
        StageSpan(1, "a.0", 2, "invoke_agent", 120.0, 140.0),
        StageSpan(2, "b.0", 1, "invoke_agent", 110.0, None),
    ]
    lanes = {1: plots.Lane("a.0", "resolved"), 2: plots.Lane("b.0", "running")}
    drawn(plots.plot_gantt(spans, lanes, until=160.0, ax=ax))
    bars = {str(box.get_label()): box.patches[0] for box in ax.containers}
    cut, going_on = bars["a.0 1 invoke_agent"], bars["b.0 1 invoke_agent"]
    assert (cut.get_x(), cut.get_width(), bool(cut.get_hatch())) == (0.0, 20.0, True)
    assert (going_on.get_x(), going_on.get_width()) == (10.0, 50.0)


def test_counts_over_time_keep_the_time_that_was_spent(ax: Axes) -> None:
    spans = [
        StageSpan(n, f"t-{n}.0", 1, stage, 1e9 + 3.0 * n + shift, 1e9 + 3.0 * n + shift + length)
        for n in range(500)
        for stage, shift, length in (("seed", 0.0, 2.0), ("invoke_agent", 2.0, 700.0), ("verify", 702.0, 33.0))
    ]
    drawn(plots.plot_gantt(spans, {}, ax=ax))
    assert title(ax) == "Rollouts over time: 500 rollouts by stage"
    areas = {patch.get_label(): patch.get_data() for patch in ax.patches}
    for stage, length in (("seed", 2.0), ("invoke_agent", 700.0), ("verify", 33.0)):
        area = areas[stage]
        spent = sum((area.values - area.baseline) * (area.edges[1:] - area.edges[:-1])) * 60
        assert spent == pytest.approx(500 * length, rel=1e-6)


def test_retention_has_a_dot_where_a_checkpoint_needs_a_snapshot(run: Run, ax: Axes) -> None:
    drawn(run.plot_retention(ax=ax))
    for name, (_, _, needed, _) in made.SNAPSHOTS.items():
        kept = [n - 1 for n in needed if n in made.KEPT_CHECKPOINTS]
        assert dots(ax, "kept")[name] == kept
        assert dots(ax, "released")[name] == [n - 1 for n in needed if n - 1 not in kept]
    words = said(ax)
    assert "2 of 4 checkpoints kept; 6 snapshots: 547 MiB there, 107 MiB released" in words
    assert "wrong: 1 violated, 1 leaked" in words
    for name, state in made.STATES.items():
        assert f"{SNAPSHOT[state].glyph} {state}  {made.SNAPSHOTS[name][3] >> 20} MiB" in words


def test_bytes_of_many_snapshots_are_all_in_a_bar(ax: Axes) -> None:
    checkpoints = [CheckpointRow(run="r", checkpoint_id=f"checkpoint-{n:06}-ab", state="kept") for n in range(1, 31)]
    snapshots = [
        SnapshotRow(
            run="r",
            snapshot_id=f"s-{n}",
            checkpoint_id=checkpoints[10 + n % 20].checkpoint_id,
            size_bytes=(n + 1) << 20,
            released_at=1.0 if n % 3 else None,
            kept_by=() if n % 3 else ("checkpoint",),
        )
        for n in range(300)
    ]
    drawn(plots.plot_retention(checkpoints, snapshots, ax=ax))
    gib = sum(length for lengths in bars(ax).values() for length in lengths)
    assert gib * 1024 == pytest.approx(sum(n + 1 for n in range(300)))
    assert "6 older checkpoints in no row of their own" in said(ax)
    assert "5 kept, 10 released" in said(ax)


def test_snapshots_of_no_checkpoint_are_shown(ax: Axes) -> None:
    """As a crash in the midst of the first one leaves them."""
    rows = [SnapshotRow(run="r", snapshot_id=f"s-{n}", checkpoint_id="c", size_bytes=1 << 20) for n in range(41)]
    drawn(plots.plot_retention([], rows, ax=ax))
    assert bars(ax) == {"older, or never complete leaked": [41.0]}
    few = drawn(plots.plot_retention([], rows[:3], ax=Figure().add_subplot()))
    assert "wrong: 3 leaked" in said(few)


def test_snapshots_that_nobody_has_measured_are_counted(ax: Axes) -> None:
    """A size of zero would be a claim; a bar of that length, no picture."""
    checkpoints = [CheckpointRow(run="r", checkpoint_id=f"checkpoint-{n:06}-ab", state="kept") for n in (1, 2)]
    rows = [
        SnapshotRow(run="r", snapshot_id=f"s-{n}", checkpoint_id=checkpoints[n % 2].checkpoint_id, kept_by=("c",))
        for n in range(50)
    ]
    drawn(plots.plot_retention(checkpoints, rows, ax=ax))
    assert sorted(length for lengths in bars(ax).values() for length in lengths) == [25.0, 25.0]
    words = said(ax)
    assert "2 of 2 checkpoints kept; 50 snapshots: 50 there, 0 released" in words
    few = said(drawn(plots.plot_retention(checkpoints, rows[:3], ax=Figure().add_subplot())))
    for told in (words, few):
        assert not any(re.search(r"\b0 (B|bytes)", one) for one in told), told


def test_checkpoints_are_called_by_their_numbers_or_their_names(ax: Axes) -> None:
    names = ("checkpoint-000012-ab3f", "checkpoint-7", "before-the-change", "nightly-5")
    drawn(plots.plot_retention([CheckpointRow(run="r", checkpoint_id=name) for name in names], [], ax=ax))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["12", "7", "before…-change", "nightly-5"]


def test_a_comparison_has_a_bar_for_each_flip_and_the_test(ax: Axes) -> None:
    comparison = Comparison(PAIRS, a="old", b="new")
    drawn(comparison.plot(ax=ax))
    wanted = {pair.instance_id: [1.0 if pair.change == "gained" else -1.0] for pair in comparison.flips}
    assert bars(ax) == wanted
    assert (len(comparison.gained), len(comparison.lost)) == (4, 2)
    words = said(ax)
    assert "4 gained, 2 lost of 10 tasks measured in both; 1 masked" in words
    assert f"exact McNemar p = {comparison.p_value:.3g}" in words
    assert title(ax) == "new beside old"


def test_a_comparison_of_many_flips_has_a_bar_for_each_group(ax: Axes) -> None:
    a = {f"t-{n}": Counted(n % 2, 1 - n % 2, 0) for n in range(1000)} | {"m": Counted(0, 0, 3)}
    b = {f"t-{n}": Counted(1 - n % 2, n % 2, 0) for n in range(900)} | {"m": Counted(1, 0, 0)}
    comparison = Comparison(pairs_of(a, b))
    drawn(comparison.plot(ax=ax))
    found = {name: length for name, (length,) in bars(ax).items()}
    assert found == {"gained in b": 450, "lost in b": 450, "masked in a alone": 1, "only in a": 100}
    assert sum(found.values()) == len(comparison)
