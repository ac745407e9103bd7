"""What all pictures share: axes, titles above them, a legend that never covers data, colours of the page around.

With ``ax`` given, nothing here touches pyplot or its state; without, pyplot makes the figure, so that a notebook shows
it. ``plt.show()`` is never called.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from textwrap import wrap
from typing import TYPE_CHECKING, Literal, NamedTuple

from swe_sdk.notebook.palette import PAGES, Page, Style, Theme
from swe_sdk.notebook.plots.labels import drawable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

_WIDTH_IN = 8.0
_TITLE_PT, _SMALL_PT, _LINE_PT = 12, 9, 12.5
_LETTER_PT, _TITLE_LETTER_PT = 5.05, 7.6
"""How wide a letter is on average: texts are wrapped before they are drawn."""
_LEGEND_ROW_PT, _HANDLE_PT = 13.5, 23.5
_LEAST_LETTERS = 20

Look = Literal["plain", "hatched", "faint"]
"""How an area is filled."""


class Canvas(NamedTuple):
    """Axes to draw on, and the colours that stand out from what is around them."""

    ax: Axes
    theme: Theme
    page: Page

    def fill(self, style: Style) -> str:
        """The colour of an area."""
        return style.fill(self.theme)

    def write(self, x: float, y: float, text: str, **options: object) -> Text:
        """Small text at a place of the axes' data: as it is, never read as mathematics."""
        given = {"fontsize": _SMALL_PT, "color": self.page.foreground, "parse_math": False, **options}
        return self.ax.text(x, y, drawable(text), **given)  # type: ignore[arg-type]

    def inside(self, x: float, y: float, text: str, style: Style) -> Text:
        """Text within an area of a style, hatched or not."""
        box = {"facecolor": self.fill(style), "edgecolor": "none", "boxstyle": "round,pad=0.35"}
        return self.write(x, y, text, ha="center", va="center", color=self.page.background, bbox=box)

    def rows(self, names: Sequence[str]) -> None:
        """One row a name, the first one on top."""
        self.ax.set_yticks(range(len(names)), [drawable(name) for name in names])
        for label in self.ax.get_yticklabels():
            label.set_parse_math(False)
        self.ax.set_ylim(max(len(names), 2) - 0.5, -0.5)
        self.ax.tick_params(axis="y", length=0)

    def columns(self, names: Sequence[str], *, rotation: float = 0) -> None:
        """One column a name."""
        self.ax.set_xticks(range(len(names)), [drawable(name) for name in names])
        for label in self.ax.get_xticklabels():
            label.set_parse_math(False)
            if rotation:
                label.set(rotation=rotation, ha="right", rotation_mode="anchor")
        self.ax.set_xlim(-0.5, max(len(names), 1) - 0.5)
        self.ax.tick_params(axis="x", length=0)

    def counts(self, what: str) -> None:
        """The lower axis counts something: whole numbers, with commas."""
        self.ax.locator_params(axis="x", integer=True)
        self.ax.xaxis.set_major_formatter("{x:,.0f}")
        self.ax.set_xlabel(what)

    def grid(self, axis: str = "x") -> None:
        """Fine lines behind the data."""
        self.ax.set_axisbelow(True)
        self.ax.grid(axis=axis, color=self.page.grid, linewidth=0.8)  # type: ignore[arg-type]

    def heading(self, title: str, told: Iterable[str] = (), legend: Sequence[tuple[Style, Look]] = ()) -> None:
        """A title, lines that say what is and is not in the picture, and a legend."""
        lines = [line for text in told for line in self._wrapped(text, _LETTER_PT)]
        up = 6.0
        if legend:
            up += 1.5 + _LEGEND_ROW_PT * self._legend(legend)
        note = "\n".join(drawable(line) for line in lines)
        self.ax.annotate(
            note,
            (0, 1),
            xytext=(0, up),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=_SMALL_PT,
            color=self.page.muted,
            va="bottom",
            parse_math=False,
            annotation_clip=False,
        ).set_gid("told")
        self.ax.set_title(
            "\n".join(map(drawable, self._wrapped(title, _TITLE_LETTER_PT))),
            loc="left",
            y=1,
            pad=up + 5 + _LINE_PT * len(lines),
            fontsize=_TITLE_PT,
            fontweight="bold",
            color=self.page.foreground,
            parse_math=False,
        )

    @property
    def _width_pt(self) -> float:
        """What is wider would run into the picture beside it.

        Of the axes before any layout, which takes room for names: of narrow ones a larger part than of wide ones.
        """
        width_pt = float(self.ax.bbox.width) / self.ax.figure.dpi * 72
        return min(width_pt, 1.2 * width_pt - 90)

    def _wrapped(self, text: str, letter_pt: float) -> list[str]:
        return wrap(text, max(_LEAST_LETTERS, int(self._width_pt / letter_pt)))

    def _legend(self, entries: Sequence[tuple[Style, Look]]) -> int:
        """Returns how many rows it has."""
        from matplotlib.patches import Patch

        widths = [_HANDLE_PT + _LETTER_PT * len(style.label) for style, _ in entries]
        columns = len(entries) if sum(widths) <= self._width_pt else max(1, int(self._width_pt / max(widths)))

        handles = [
            Patch(
                facecolor=self.fill(style),
                edgecolor=self.page.background,
                hatch=HATCH if look == "hatched" else None,
                alpha=FAINT if look == "faint" else None,
                linewidth=0,
                label=drawable(style.label),
            )
            for style, look in entries
        ]
        legend = self.ax.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=columns,
            frameon=False,
            fontsize=_SMALL_PT,
            borderaxespad=0.2,
            borderpad=0.1,
            handlelength=1.0,
            handletextpad=0.4,
            columnspacing=1.2,
        )
        for text in legend.get_texts():
            text.set_color(self.page.foreground)
            text.set_parse_math(False)
        return ceil(len(entries) / columns)


HATCH = "////"
FAINT = 0.45


def canvas(ax: Axes | None, *, rows: int = 8, row_in: float = 0.3, width_in: float = _WIDTH_IN) -> Canvas:
    """The given axes, or new ones that are high enough for ``rows`` rows."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(width_in, 1.5 + row_in * max(rows, 3)), layout="constrained")
    theme = _theme_around(ax)
    drawn = Canvas(ax, theme, PAGES[theme])
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(drawn.page.grid)
    ax.tick_params(labelsize=_SMALL_PT, colors=drawn.page.foreground, color=drawn.page.grid)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set(fontsize=_SMALL_PT, color=drawn.page.muted)
    return drawn


def empty(drawn: Canvas, title: str, why: str) -> Axes:
    """A picture that says that there is nothing to show, and why."""
    drawn.heading(title)
    drawn.ax.set(xticks=[], yticks=[])
    drawn.ax.spines[:].set_visible(False)
    drawn.ax.set_facecolor(drawn.page.empty)
    drawn.ax.text(
        *(0.5, 0.5, drawable(why)),
        transform=drawn.ax.transAxes,
        ha="center",
        va="center",
        color=drawn.page.muted,
        fontsize=_TITLE_PT,
        wrap=True,
        parse_math=False,
    )
    return drawn.ax


def _theme_around(ax: Axes) -> Theme:
    """Dark where the axes are: whoever chose a dark style for matplotlib has dark pictures."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(ax.get_facecolor())
    return "dark" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "light"
