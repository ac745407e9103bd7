"""What has been drawn on axes, and what to draw."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.text import Text

from swe_sdk.metrics.comparison import pairs_of
from swe_sdk.metrics.passes import Counted

RUN_PLOTS = ("outcomes", "masks", "budgets", "stages", "gantt", "retention")
PAIRS = pairs_of(
    {**{f"t-{n}": Counted(n % 2, 1 - n % 2, 0) for n in range(10)}, "m": Counted(0, 0, 1)},
    {**{f"t-{n}": Counted(int(n < 7), int(n >= 7), 0) for n in range(10)}, "m": Counted(1, 0, 0)},
)


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


def dots(axes: Axes, which: str) -> dict[str, list[int]]:
    """Columns of the dots of a kind, by snapshot."""
    found = [each for each in axes.collections if isinstance(each, PathCollection)]
    return {
        str(each.get_gid()).split()[1]: sorted(int(x) for x, _ in each.get_offsets())
        for each in found
        if str(each.get_gid()).split()[0] == which
    }
