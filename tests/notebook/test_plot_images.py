"""Pictures beside the ones that somebody has looked at.

Both are blurred and compared: letters that another version of matplotlib draws otherwise count for little then (2 at
most, from 3.8 to 3.11), and a bar that is longer for a lot (14). Words are compared in ``test_plots.py``.

After a change that is meant to be seen, write them anew, and look at them:
``SWE_SDK_BASELINES=write pytest tests/notebook/test_plot_images.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.style import context as style_context
from PIL import Image, ImageFilter

from swe_sdk.grading.outcomes import Outcomes
from swe_sdk.metrics import Comparison
from swe_sdk.notebook import plots
from swe_sdk.runs.run import Run
from swe_sdk.store.plotted import BudgetPoint, StageSpan
from tests.notebook import made_run as made
from tests.notebook.drawing import PAIRS
from tests.notebook.drawing import RUN_PLOTS as OF_RUN

BASELINE = Path(__file__).with_name("baseline")
PAGE_IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images" / "plots"
SHOWN = ("outcomes", "masks", "budgets", "stages", "gantt", "retention", "comparison")
TOLERANCE = 4.0
"""Root mean square of the differences of pixels, of 255."""
BLUR_PX = 3
WRITE = os.environ.get("SWE_SDK_BASELINES") == "write"


def areas_of_budgets(ax: Axes) -> Axes:
    points = [BudgetPoint(f"t-{n}.0", 1800.0, float(n % 1800), 60.0 * (n % 3)) for n in range(5000)]
    return plots.plot_budgets(points, ax=ax)


def counts_over_time(ax: Axes) -> Axes:
    spans = [
        StageSpan(n, f"t-{n}.0", 1, stage, 1.7e9 + 3.0 * n + shift, 1.7e9 + 3.0 * n + shift + length)
        for n in range(500)
        for stage, shift, length in (("seed", 0.0, 60.0), ("invoke_agent", 60.0, 700.0), ("verify", 760.0, 150.0))
    ]
    return plots.plot_gantt(spans, {}, ax=ax)


OWN: dict[str, Callable[[Axes], Axes]] = {
    "budgets_many": areas_of_budgets,
    "gantt_many": counts_over_time,
    "comparison": lambda ax: Comparison(PAIRS, a="old", b="new").plot(ax=ax),
    "empty": lambda ax: Outcomes([]).plot_outcomes(ax=ax),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with Run(made.write_run(tmp_path_factory.mktemp("made") / "run")) as run:
        yield run


def save(image: Path, to: Path, colours: int) -> None:
    """With few colours: some kilobytes."""
    with Image.open(image) as read:
        read.convert("RGB").quantize(colours).save(to, optimize=True)


def show_on_the_page(name: str, draw: Callable[[Axes], Axes], folder: Path) -> None:
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    with style_context("default"):
        draw(figure.add_subplot())
        figure.savefig(folder / "page.png", dpi=110)
    save(folder / "page.png", PAGE_IMAGES / f"{name}.png", 160)


def picture(file: Path, draw: Callable[[Axes], Axes], style: str = "default") -> Path:
    with style_context(["default", style]), mpl.rc_context({"text.hinting": "none", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(8, 4.4))
        figure.subplots_adjust(left=0.26, right=0.8, bottom=0.12, top=0.7)  # whatever the width of texts
        draw(figure.add_subplot())
        figure.savefig(file, dpi=50, metadata={"Software": None})
    return file


def check(name: str, folder: Path, draw: Callable[[Axes], Axes], style: str = "default") -> None:
    found, wanted = picture(folder / f"{name}.png", draw, style), BASELINE / f"{name}.png"
    if WRITE:
        save(found, wanted, 64)
        if name in SHOWN:
            show_on_the_page(name, draw, folder)
    assert wanted.is_file(), f"there is no baseline {wanted}"
    assert difference(found, wanted) < TOLERANCE, f"look at {found} beside {wanted}"


def difference(one: Path, other: Path) -> float:
    pixels = []
    for file in (one, other):
        with Image.open(file) as image:
            pixels.append(np.asarray(image.convert("RGB").filter(ImageFilter.GaussianBlur(BLUR_PX)), dtype=float))
    assert pixels[0].shape == pixels[1].shape
    return float(np.sqrt(np.mean((pixels[0] - pixels[1]) ** 2)))


@pytest.mark.parametrize("name", OF_RUN)
def test_of_a_run(name: str, run: Run, tmp_path: Path) -> None:
    check(name, tmp_path, lambda ax: getattr(run, f"plot_{name}")(ax=ax))


def test_of_a_run_in_the_dark(run: Run, tmp_path: Path) -> None:
    check("outcomes_dark", tmp_path, lambda ax: run.plot_outcomes(ax=ax), "dark_background")


@pytest.mark.parametrize("name", OWN)
def test_of_much_of_nothing_and_of_two(name: str, tmp_path: Path) -> None:
    check(name, tmp_path, OWN[name])


def test_baselines_are_small_and_all_of_them_are_used() -> None:
    files = {file.stem: file.stat().st_size for file in BASELINE.iterdir()}
    assert set(files) == {*OF_RUN, *OWN, "outcomes_dark"}
    assert max(files.values()) < 12_000


def test_the_tolerance_lets_no_missing_or_longer_bar_pass(tmp_path: Path) -> None:
    outcomes = [made.outcome_of(each) for each in made.ROLLOUTS]
    told = picture(tmp_path / "told.png", lambda ax: Outcomes(outcomes).plot_outcomes(ax=ax))
    for name, others in (("missing", outcomes[:-2]), ("longer", [*outcomes, outcomes[0]])):
        other = picture(tmp_path / f"{name}.png", lambda ax, others=others: Outcomes(others).plot_outcomes(ax=ax))
        assert difference(told, other) > 2 * TOLERANCE, name
