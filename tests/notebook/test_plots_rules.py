"""Pictures of runs: what holds for all of them."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from math import ceil
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.style import context as style_context

from swe_sdk.grading.outcomes import Outcomes
from swe_sdk.metrics import Comparison
from swe_sdk.metrics.comparison import pairs_of
from swe_sdk.metrics.passes import Counted
from swe_sdk.notebook import plots
from swe_sdk.notebook.palette import BUDGET, CHANGE, STATUS
from swe_sdk.runs.run import Run
from swe_sdk.store.plotted import BudgetPoint, MaskCount, StageSpan
from swe_sdk.store.rows import CheckpointRow, GroupRow
from tests.notebook import made_run as made
from tests.notebook.drawing import RUN_PLOTS, bars, drawn, said, title

pytestmark = pytest.mark.usefixtures("as_it_ships")


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


@pytest.mark.parametrize("columns", [2, 3])
def test_headings_stay_above_their_own_picture(run: Run, columns: int) -> None:
    figure = Figure(figsize=(12, 8), layout="constrained")
    axes = figure.subplots(ceil(len(RUN_PLOTS) / columns), columns)
    for name, ax in zip(RUN_PLOTS, axes.flat, strict=True):
        getattr(run, f"plot_{name}")(ax=ax)
    figure.draw_without_rendering()
    for row in axes:
        for left, right in itertools.pairwise(row):
            ends = [part.get_window_extent().x1 for part in heading_of(left)]
            assert max(ends) < min(part.get_window_extent().x0 for part in heading_of(right))
        assert max(part.get_window_extent().x1 for part in heading_of(row[-1])) < figure.bbox.width


def test_long_titles_go_on_in_a_second_line(ax: Axes) -> None:
    comparison = Comparison(pairs_of({"t": Counted(1, 0, 0)}, {"t": Counted(0, 1, 0)}), a="a" * 40, b="b" * 40)
    assert title(comparison.plot(ax=ax)).count("\n") == 1


def test_the_first_median_is_below_the_heading(run: Run) -> None:
    axes = drawn(run.plot_stages(ax=Figure(layout="constrained").add_subplot()))
    top = axes.get_window_extent().y1
    medians = [text for text in axes.texts if text.get_zorder() == 5]
    assert len(medians) == 5
    assert max(text.get_window_extent().y1 for text in medians) <= top


def heading_of(axes: Axes) -> list[Artist]:
    told = [text for text in axes.texts if text.get_gid() == "told"]
    legend = axes.get_legend()
    return [axes._left_title, *told, *([legend] if legend else [])]  # type: ignore[attr-defined]


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
