"""What was going on when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from swe_sdk.notebook.amounts import many, seconds
from swe_sdk.notebook.palette import ROLLOUT, STAGE, style_of
from swe_sdk.notebook.plots.canvas import HATCH, Canvas, canvas, empty
from swe_sdk.notebook.plots.labels import drawable, short
from swe_sdk.notebook.plots.time_axis import Unit, unit_for
from swe_sdk.store.plotted import StageSpan

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.float64]

_TITLE = "Rollouts over time"
LANES = 40
_BINS = 400


class Lane(NamedTuple):
    """A rollout: what it is called, and what came of it."""

    name: str
    status: str


def plot_gantt(
    spans: Sequence[StageSpan], lanes: Mapping[int, Lane], *, until: float | None = None, ax: Axes | None = None
) -> Axes:
    """A lane a rollout, and in it the stages of all its attempts over wall clock; its status stands at the end.

    A stage that goes on, or was cut off, is hatched and ends where the next attempt begins, else at ``until`` (Unix
    seconds; default: the newest time that is known). Further attempts are marked by a line. Without any lanes the
    picture shows how many rollouts were in each stage at a time.
    """
    drawn = canvas(ax, rows=len(lanes) or 10, row_in=0.26)
    if not spans:
        return empty(drawn, _TITLE, "no stage has begun")
    start = min(span.started_at for span in spans)
    known = max(max(span.started_at, span.ended_at or 0.0) for span in spans)
    end = max(known, until or 0.0) if any(span.ended_at is None for span in spans) else known
    unit = unit_for(end - start)
    if lanes:
        _lanes(drawn, spans, lanes, start, end, unit)
    else:
        _counts(drawn, spans, start, end, unit)
    drawn.ax.set_xlabel(f"{unit.name} since {datetime.fromtimestamp(start, UTC):%Y-%m-%d %H:%M:%S} UTC")
    stages = [stage for stage in STAGE if any(span.stage == stage for span in spans)]
    rollouts = len({span.rollout for span in spans})
    title = _TITLE if lanes else f"{_TITLE}: {many(rollouts, 'rollout')} by stage"
    attempts = len({(span.rollout, span.attempt) for span in spans})
    told = f"{many(rollouts, 'rollout')} in {many(attempts, 'attempt')}, over {seconds(end - start)}"
    drawn.heading(title, [told + _cut_off(spans)], [(STAGE[stage], "plain") for stage in stages])
    return drawn.ax


def _cut_off(spans: Sequence[StageSpan]) -> str:
    count = sum(span.ended_at is None for span in spans)
    return f"; {many(count, 'stage')} going on or cut off (hatched)" if count else ""


def _ends(spans: Sequence[StageSpan], end: float) -> list[float]:
    """When each was over: of what has no end of its own, nothing is left when the next attempt begins."""
    begun: dict[int, list[tuple[int, float]]] = {}
    for span in spans:
        begun.setdefault(span.rollout, []).append((span.attempt, span.started_at))
    return [
        min((at for attempt, at in begun[span.rollout] if attempt > span.attempt), default=end)
        if span.ended_at is None
        else span.ended_at
        for span in spans
    ]


def _lanes(
    drawn: Canvas, spans: Sequence[StageSpan], lanes: Mapping[int, Lane], start: float, end: float, unit: Unit
) -> None:
    row_of = {rollout: row for row, rollout in enumerate(lanes)}
    last = dict.fromkeys(row_of, 0.0)
    least = (end - start) * 0.0015  # what is shorter would not be seen
    begun: dict[tuple[int, int], float] = {}
    for span, until in zip(spans, _ends(spans, end), strict=True):
        left, length = span.started_at - start, max(least, until - span.started_at)
        begun.setdefault((span.rollout, span.attempt), left)
        last[span.rollout] = max(last[span.rollout], left + length)
        bar = drawn.ax.barh(
            row_of[span.rollout],
            length / unit.seconds,
            left=left / unit.seconds,
            height=0.66,
            color=drawn.fill(STAGE[span.stage]),
            hatch=HATCH if span.ended_at is None else None,
            edgecolor=drawn.page.background,
            linewidth=0,
        )
        bar.set_label(f"{lanes[span.rollout].name} {span.attempt} {span.stage}")
    for (rollout, attempt), at in begun.items():
        if attempt > 1:
            row, x = row_of[rollout], at / unit.seconds
            drawn.ax.plot([x, x], [row - 0.45, row + 0.45], color=drawn.page.foreground, linewidth=1.6)
    for rollout, lane in lanes.items():
        attempts = max(attempt for of, attempt in begun if of == rollout)
        _status(drawn, row_of[rollout], lane, attempts, last[rollout] / unit.seconds)
    drawn.rows([short(lane.name) for lane in lanes.values()])
    room = 1.27 if any(attempt > 1 for _, attempt in begun) else 1.18  # for the words at the ends
    drawn.ax.set_xlim(0, max((end - start) / unit.seconds * room, 1e-6))
    drawn.grid()


def _status(drawn: Canvas, row: int, lane: Lane, attempts: int, at: float) -> None:
    style = style_of(ROLLOUT, lane.status)
    drawn.ax.annotate(
        drawable(f"{style.glyph} {style.label}" + (f", attempt {attempts}" if attempts > 1 else "")),
        (at, row),
        xytext=(4, 0),
        textcoords="offset points",
        fontsize=8,
        color=style.text(drawn.theme),
        va="center",
        parse_math=False,
    )


def _counts(drawn: Canvas, spans: Sequence[StageSpan], start: float, end: float, unit: Unit) -> None:
    """How many were in each stage, on average over each of up to 400 pieces of time."""
    import numpy as np

    edges = np.linspace(start, max(end, start + 1e-3), _BINS + 1)
    lower, ends = np.zeros(_BINS), _ends(spans, end)
    for stage in STAGE:
        of_stage = [(span.started_at, until) for span, until in zip(spans, ends, strict=True) if span.stage == stage]
        if not of_stage:
            continue
        upper = lower + _mean_count(np.asarray(of_stage), edges)
        x = (edges - start) / unit.seconds
        drawn.ax.stairs(upper, x, baseline=lower, fill=True, color=drawn.fill(STAGE[stage]), label=stage)
        lower = upper
    drawn.ax.set_xlim(0, (edges[-1] - start) / unit.seconds)
    drawn.ax.set_ylim(0, 1.05 * float(lower.max()) or 1)
    drawn.ax.set_ylabel("rollouts at a time")
    drawn.grid("y")


def _mean_count(spans: Numbers, edges: Numbers) -> Numbers:
    """How many of the spans (a start and an end each) were going on, on average from each edge to the next."""
    import numpy as np

    mean: Numbers = np.diff(_since(spans[:, 0], edges) - _since(spans[:, 1], edges)) / np.diff(edges)
    return mean


def _since(moments: Numbers, edges: Numbers) -> Numbers:
    """At each edge, the time since each moment before it, summed over the moments."""
    import numpy as np

    ordered = np.sort(moments) - edges[0]
    at = edges - edges[0]
    count = np.searchsorted(ordered, at)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    passed: Numbers = count * at - sums[count]
    return passed
