"""Pictures of runs: the numbers that are drawn, and what may not happen while they are."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.style import context as style_context
from matplotlib.text import Text

from swe_sdk.grading.outcomes import Outcomes
from swe_sdk.metrics import Comparison
from swe_sdk.metrics.comparison import pairs_of
from swe_sdk.metrics.passes import Counted
from swe_sdk.notebook import plots
from swe_sdk.notebook.amounts import seconds
from swe_sdk.notebook.palette import BUDGET, CHANGE, SNAPSHOT, STATUS
from swe_sdk.runs.run import Run
from swe_sdk.store.plotted import BudgetPoint, MaskCount, StageSpan
from swe_sdk.store.rows import CheckpointRow, GroupRow, SnapshotRow
from tests.notebook import made_run as made

RUN_PLOTS = ("outcomes", "masks", "budgets", "stages", "gantt", "retention")


@pytest.fixture(scope="module", autouse=True)
def _as_it_ships() -> Iterator[None]:
    with mpl.rc_context(dict(mpl.rcParamsDefault) | {"backend": "agg"}):
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with Run(made.write_run(tmp_path_factory.mktemp("made") / "run")) as run:
        yield run


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(8, 5), layout="constrained").add_subplot()


def drawn(axes: Axes) -> Axes:
    """Drawn to the end: fonts and layouts complain only then."""
    axes.figure.canvas.draw()
    return axes


def bars(axes: Axes) -> dict[str, list[float]]:
    """Lengths of bars by their label."""
    return {str(box.get_label()): [patch.get_width() for patch in box.patches] for box in axes.containers}


def said(axes: Axes) -> str:
    return "\n".join(text.get_text() for text in axes.findobj(Text))


def title(axes: Axes) -> str:
    return axes.get_title(loc="left")


# -- numbers ----------------------------------------------------------------------------------------------------------


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


def dots(axes: Axes, which: str) -> dict[str, list[int]]:
    """Columns of the dots of a kind, by snapshot."""
    found = [each for each in axes.collections if isinstance(each, PathCollection)]
    return {
        str(each.get_gid()).split()[1]: sorted(int(x) for x, _ in each.get_offsets())
        for each in found
        if str(each.get_gid()).split()[0] == which
    }


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
    assert "6 older checkpoints not shown" in said(ax)
    assert "5 kept, 10 released" in said(ax)


PAIRS = pairs_of(
    {**{f"t-{n}": Counted(n % 2, 1 - n % 2, 0) for n in range(10)}, "m": Counted(0, 0, 1)},
    {**{f"t-{n}": Counted(int(n < 7), int(n >= 7), 0) for n in range(10)}, "m": Counted(1, 0, 0)},
)


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


# -- what must hold for all of them ------------------------------------------------------------------------------------


def test_some_of_the_rollouts_are_drawn_alone(run: Run, ax: Axes) -> None:
    some = run.rollouts.where(family="r2e-gym")
    assert set(bars(some.plot_outcomes(ax=ax))) == {"resolved r2e-gym", "masked r2e-gym"}
    assert len(bars(some.plot_budgets(ax=Figure().add_subplot()))["spent"]) == 2
    lanes = {name.split()[0] for name in bars(some.plot_gantt(ax=Figure().add_subplot()))}
    assert lanes == set(some)


@pytest.mark.parametrize("name", RUN_PLOTS)
def test_given_axes_are_used_and_pyplot_is_left_alone(run: Run, name: str, ax: Axes) -> None:
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    assert getattr(run, f"plot_{name}")(ax=ax) is ax
    drawn(ax)
    assert plt.get_fignums() == before
    assert title(ax)


@pytest.mark.parametrize("name", RUN_PLOTS)
def test_own_axes_come_from_pyplot_so_that_a_notebook_shows_them(run: Run, name: str) -> None:
    import matplotlib.pyplot as plt

    axes = drawn(getattr(run, f"plot_{name}")())
    assert plt.fignum_exists(axes.figure.number)  # type: ignore[union-attr]
    plt.close(axes.figure)  # type: ignore[arg-type]


def test_pyplot_is_not_even_imported_where_axes_are_given(run: Run) -> None:
    program = (
        "import sys; from matplotlib.figure import Figure; from swe_sdk.runs.run import Run\n"
        f"run = Run({str(run.path)!r})\n"
        f"for name in {RUN_PLOTS}: getattr(run, 'plot_' + name)(ax=Figure().add_subplot())\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_nothing_heavy_is_imported_before_a_picture_is_drawn() -> None:
    program = "import sys, swe_sdk.notebook.plots.sources; print({'matplotlib', 'pandas', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("name", RUN_PLOTS)
def test_a_run_of_nothing_says_so(name: str, tmp_path: Path, ax: Axes) -> None:
    with Run(made.write_run(tmp_path / "run", (), checkpoints=False)) as run:
        drawn(getattr(run, f"plot_{name}")(ax=ax))
    assert "no " in said(ax)
    assert not ax.containers
    assert Outcomes([]).plot_outcomes(ax=Figure().add_subplot()).get_title(loc="left") == "Outcomes by family"


def test_no_mask_is_said_to_be_none(ax: Axes) -> None:
    drawn(Outcomes([made.outcome_of(made.ROLLOUTS[0])]).plot_masks(ax=ax))
    assert "none of 1 finished outcome is masked" in said(ax)


@pytest.mark.parametrize("name", RUN_PLOTS)
def test_one_rollout_is_a_picture_too(name: str, tmp_path: Path, ax: Axes) -> None:
    with Run(made.write_run(tmp_path / "run", made.ROLLOUTS[:1], checkpoints=False)) as run:
        drawn(getattr(run, f"plot_{name}")(ax=ax))


EVIL = "$\\frac{x}$_" + "漢字" + "\x1b[31m\u202e" + "x" * 300


def test_names_of_others_are_shown_as_they_are_and_short(ax: Axes) -> None:
    """No mathematics is read into them, no font complains, nothing runs over the picture."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn(plots.plot_outcomes([GroupRow(value=EVIL, rollouts=1, resolved=1, unresolved=0, masked=0)], ax=ax))
        drawn(plots.plot_masks([MaskCount(EVIL, EVIL, 1)], finished=1, ax=Figure().add_subplot()))
        drawn(plots.plot_budgets([BudgetPoint(EVIL, 1.0, 1.0, 0.0)], ax=Figure().add_subplot()))
        spans = [StageSpan(1, EVIL, 1, "seed", 1.0, 2.0)]
        drawn(plots.plot_gantt(spans, {1: plots.Lane(EVIL, EVIL)}, ax=Figure().add_subplot()))
        drawn(plots.plot_retention([CheckpointRow(run="r", checkpoint_id=EVIL)], [], ax=Figure().add_subplot()))
        one = Comparison(pairs_of({EVIL: Counted(1, 0, 0)}, {EVIL: Counted(0, 1, 0)}), a=EVIL, b=EVIL)
        drawn(one.plot(ax=Figure().add_subplot()))
    (label,) = ax.get_yticklabels()
    assert label.get_text().startswith("$\\frac{x}$_□□")
    assert len(label.get_text()) <= 30


def test_labels_do_not_overlap(run: Run) -> None:
    for name in RUN_PLOTS:
        axes = drawn(getattr(run, f"plot_{name}")(ax=Figure(figsize=(8, 6), layout="constrained").add_subplot()))
        boxes = [label.get_window_extent() for label in axes.get_yticklabels() if label.get_text()]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :]), name
        told = next(each for each in axes.texts if each.get_gid() == "told").get_window_extent()
        assert not told.overlaps(axes.get_window_extent()), f"{name}: words lie on the data"
        legend = axes.get_legend()
        assert legend is None or not told.overlaps(legend.get_window_extent()), name


def test_colours_are_those_of_the_palette_light_and_dark(run: Run) -> None:
    for style, theme in (("default", "light"), ("dark_background", "dark")):
        with style_context(style):
            axes = run.plot_outcomes(ax=Figure().add_subplot())
            resolved = next(box for box in axes.containers if str(box.get_label()).startswith("resolved"))
            assert mpl.colors.to_hex(resolved.patches[0].get_facecolor()).upper() == STATUS["resolved"].fill(theme)  # type: ignore[arg-type]
            axes = run.plot_budgets(ax=Figure().add_subplot())
            spent = next(box for box in axes.containers if box.get_label() == "spent")
            assert mpl.colors.to_hex(spent.patches[0].get_facecolor()).upper() == BUDGET["spent"].fill(theme)  # type: ignore[arg-type]
    assert CHANGE["gained"].light == STATUS["resolved"].light


def test_settings_of_matplotlib_stay_as_they_were(run: Run) -> None:
    before = dict(mpl.rcParams)
    for name in RUN_PLOTS:
        getattr(run, f"plot_{name}")(ax=Figure().add_subplot())
    assert dict(mpl.rcParams) == before


def many_budgets(ax: Axes) -> Axes:
    return plots.plot_budgets([BudgetPoint(f"t-{n}.0", 1800.0, n % 1800, 1.0) for n in range(100_000)], ax=ax)


def many_stages(ax: Axes) -> Axes:
    return plots.plot_stages({stage: [0.1 + n % 900 for n in range(100_000)] for stage in made.STAGES}, ax=ax)


def many_spans(ax: Axes) -> Axes:
    spans = [StageSpan(n, f"t-{n}.0", 1, "invoke_agent", 1e9 + n, 1e9 + n + 600) for n in range(100_000)]
    return plots.plot_gantt(spans, {}, ax=ax)


def many_families(ax: Axes) -> Axes:
    rows = [GroupRow(value=f"family-{n}", rollouts=9, resolved=3, unresolved=3, masked=3) for n in range(5000)]
    return plots.plot_outcomes(rows, ax=ax)


@pytest.mark.parametrize("draw", [many_budgets, many_stages, many_spans, many_families])
def test_a_hundred_thousand_are_drawn_in_seconds(draw: Callable[[Axes], Axes], ax: Axes) -> None:
    started = time.process_time()
    drawn(draw(ax))
    assert time.process_time() - started < 8
    assert len(ax.patches) + len(ax.lines) + len(ax.texts) < 500, "as many things to draw as a few hundred"
