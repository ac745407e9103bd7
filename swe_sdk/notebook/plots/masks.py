"""What could not be measured, and where that happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from swe_sdk.notebook.amounts import many
from swe_sdk.notebook.palette import MASK_KIND, MASK_STAGE, STATUS, style_of
from swe_sdk.notebook.plots.canvas import Canvas, canvas, empty
from swe_sdk.notebook.plots.labels import percent, short
from swe_sdk.store.plotted import MaskCount

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE = "Masks by kind and stage"
_MOST = 24
_UNSAID = "(not said)"


def plot_masks(
    counts: Sequence[MaskCount], *, finished: int, retried: int = 0, what: str = "rollout", ax: Axes | None = None
) -> Axes:
    """A tile for each kind of mask and each stage, with its number; the most frequent kind on top.

    ``finished`` is of how many they are, ``retried`` says how many further attempts were masked and tried again. Beyond
    24 kinds the rarer ones share a row.
    """
    tiles: Counter[tuple[str, str]] = Counter()
    for each in counts:
        tiles[each.kind or _UNSAID, each.stage or _UNSAID] += each.rollouts
    kinds = _kinds(tiles)
    drawn = canvas(ax, rows=len(kinds), row_in=0.34)
    if not tiles:
        why = f"none of {many(finished, f'finished {what}')} is masked" if finished else f"no finished {what} yet"
        return empty(drawn, _TITLE, "; ".join((why, *_retried(retried))))
    shown = _merged(tiles, kinds)
    stages = _stages(shown)
    _draw(drawn, shown, kinds, stages)
    masked = sum(tiles.values())
    share = f"{masked:,} of {many(finished, f'finished {what}')} masked ({percent(masked, finished)})"
    drawn.heading(_TITLE, [f"{share}: no measurements, and in no mean", *_retried(retried)])
    return drawn.ax


def _retried(retried: int) -> list[str]:
    return [f"{many(retried, 'further attempt')} masked and tried again"] if retried else []


def _kinds(tiles: Counter[tuple[str, str]]) -> list[str]:
    totals: Counter[str] = Counter()
    for (kind, _), count in tiles.items():
        totals[kind] += count
    ordered = sorted(totals, key=lambda kind: (-totals[kind], kind))
    return ordered if len(ordered) <= _MOST else [*ordered[: _MOST - 1], f"{len(ordered) - _MOST + 1} other kinds"]


def _merged(tiles: Counter[tuple[str, str]], kinds: Sequence[str]) -> Counter[tuple[str, str]]:
    merged: Counter[tuple[str, str]] = Counter()
    for (kind, stage), count in tiles.items():
        merged[kind if kind in kinds else kinds[-1], stage] += count
    return merged


def _stages(tiles: Counter[tuple[str, str]]) -> list[str]:
    """Those that occur, in the order of a rollout."""
    found = {stage for _, stage in tiles}
    known = [stage for stage in MASK_STAGE if stage in found]
    return known + sorted(found - set(known))


def _draw(drawn: Canvas, tiles: Counter[tuple[str, str]], kinds: Sequence[str], stages: Sequence[str]) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    full = drawn.fill(STATUS["masked"])
    shades = LinearSegmentedColormap.from_list("masks", [drawn.page.empty, full])
    most = max(tiles.values())
    for row, kind in enumerate(kinds):
        for column, stage in enumerate(stages):
            count = tiles[kind, stage]
            depth = 0.25 + 0.75 * count / most if count else 0.0
            tile = Rectangle((column - 0.47, row - 0.44), 0.94, 0.88, facecolor=shades(depth), linewidth=0)
            tile.set_gid(f"{kind}/{stage}")
            drawn.ax.add_patch(tile)
            if count:
                colour = drawn.page.background if depth > 0.6 else drawn.page.foreground
                drawn.write(column, row, f"{count:,}", ha="center", va="center", color=colour)
        total = sum(tiles[kind, stage] for stage in stages)
        drawn.write(len(stages) - 0.42, row, f"{total:,}", va="center", fontweight="bold")
    drawn.rows([f"{short(kind)} {style_of(MASK_KIND, kind).glyph}" for kind in kinds])
    for label, kind in zip(drawn.ax.get_yticklabels(), kinds, strict=True):
        label.set_color(MASK_KIND[kind].text(drawn.theme) if kind in MASK_KIND else drawn.page.foreground)
    drawn.columns([style_of(MASK_STAGE, stage).label for stage in stages], rotation=30 if len(stages) > 6 else 0)
    drawn.ax.set_xlim(-0.5, len(stages) + 0.1)
    drawn.ax.spines[:].set_visible(False)
