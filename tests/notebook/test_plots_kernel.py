"""A real notebook shows a picture of its own accord, once, and beside axes of one's own nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.notebook.kernel import Kernel
from tests.notebook.made_run import write_run


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    places = tmp_path_factory.mktemp("plots")
    write_run(places / "run")
    kernel = Kernel(places / "state", places)
    try:
        yield kernel
    finally:
        kernel.close()


def pictures(data: list[dict[str, object]]) -> int:
    return sum("image/png" in each for each in data)


def test_a_picture_shows_itself_once(kernel: Kernel) -> None:
    kernel.good("import swe_sdk as swe; run = swe.open_run('run')")
    cell = kernel.run("ax = run.plot_outcomes()")
    assert (cell.error, cell.streams["stderr"], pictures(cell.data)) == ("", "", 1)
    again = kernel.run("run.plot_gantt();")
    assert pictures(again.data) == 1, "that of the cell before is not drawn again"


def test_axes_of_ones_own_are_shown_once(kernel: Kernel) -> None:
    cell = kernel.run(
        "import matplotlib.pyplot as plt; figure, (a, b) = plt.subplots(1, 2, figsize=(14, 4), layout='constrained');"
        "run.plot_masks(ax=a); run.plot_stages(ax=b);"
    )
    assert (cell.error, pictures(cell.data)) == ("", 1)


def test_a_comparison_is_a_table_and_a_picture(kernel: Kernel) -> None:
    cell = kernel.run("comparison = swe.compare(run, run); comparison")
    assert not cell.error
    assert any("text/html" in each and "exact McNemar" in str(each["text/html"]) for each in cell.data)
    assert pictures(kernel.run("comparison.plot();").data) == 1


def test_the_same_is_awaited_at_the_top(kernel: Kernel) -> None:
    assert "0 gained" in kernel.good("print((await swe.aio.compare(run, run)).summary)")
