"""When an attempt was in which stage: a lane for each attempt, on one axis of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from swe_sdk.dashboard.columns import legend
from swe_sdk.dashboard.components import png_button
from swe_sdk.dashboard.escape import Child, Html, el, join
from swe_sdk.dashboard.show import seconds, tone
from swe_sdk.store.rows import AttemptRow, StageRow

_LEFT, _LANE, _AXIS = 9.0, 34, 22
_LEAST_WIDTH = 0.25
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_MOST_LANES = 40
_FINE_S = 4.0


class _Scale(NamedTuple):
    since: float
    until: float

    def x(self, t: float) -> float:
        share = (t - self.since) / max(self.until - self.since, 1e-6)
        return _LEFT + (99.5 - _LEFT) * min(1.0, max(0.0, share))


def timeline(
    attempts: Sequence[AttemptRow], stages: Sequence[StageRow], steps: Sequence[float], chosen: int, now: float
) -> Html | None:
    """None where nothing has begun. ``steps`` are the times of the steps of the attempt that is ``chosen``."""
    times = [t for stage in stages for t in (stage.started_at, stage.ended_at) if t is not None]
    times += [t for attempt in attempts for t in (attempt.started_at, attempt.ended_at) if t is not None]
    if not times:
        return None
    is_going = any(attempt.started_at is not None and attempt.ended_at is None for attempt in attempts[-1:])
    scale = _Scale(min(times), max(*times, now if is_going and now - max(times) < 86400 else 0.0, min(times) + 0.001))
    shown = list(attempts)[-_MOST_LANES:]
    lanes = [_lane(n, attempt, stages, scale, attempt.attempt == chosen) for n, attempt in enumerate(shown)]
    ticks = _steps(len(shown), [each.attempt for each in shown], steps, chosen, scale)
    height = len(shown) * _LANE + _AXIS
    drawing = el(
        "svg",
        _axis(scale, height),
        lanes,
        ticks,
        cls="chart",
        id="timeline",
        height=height,
        role="img",
        aria_label="stages over time",
    )
    names = list(dict.fromkeys(stage.stage for stage in stages))
    words: list[tuple[str, str, Child]] = [("stage", name, name) for name in names]
    return join(drawing, el("div", legend(words), png_button("timeline"), cls="under"))


def _lane(number: int, attempt: AttemptRow, stages: Sequence[StageRow], scale: _Scale, is_chosen: bool) -> Html:
    y = number * _LANE
    label = el("text", f"attempt {attempt.attempt}", x=0, y=y + 18, cls=None if is_chosen else "dim")
    bars = [_bar(stage, attempt, scale, y) for stage in stages if stage.attempt == attempt.attempt]
    return el("g", label, bars)


def _bar(stage: StageRow, attempt: AttemptRow, scale: _Scale, y: int) -> Html | None:
    end = stage.ended_at or attempt.ended_at or scale.until
    start = stage.started_at if stage.started_at is not None else end - (stage.seconds or 0.0)
    left, right = scale.x(start), scale.x(end)
    told = f"{stage.stage}, {seconds(stage.seconds if stage.seconds is not None else end - start)}"
    told += "" if stage.ended_at is not None else ", not ended"
    told += f": {stage.message}" if stage.message else ""
    width = max(right - left, _LEAST_WIDTH)
    kind = f"{tone('stage', stage.stage)}{' soft' if stage.ended_at is None else ''}"
    failed = None
    if stage.ok is False:
        failed = el("text", "✗", x=f"{left + width / 2:.2f}%", y=y + 17, text_anchor="middle", cls="on-bar")
    bar = el("rect", el("title", told), x=f"{left:.3f}%", y=y + 4, width=f"{width:.3f}%", height=18, rx=3, cls=kind)
    return el("g", bar, failed)


def _steps(lanes: int, numbers: Sequence[int], steps: Sequence[float], chosen: int, scale: _Scale) -> list[Html]:
    if chosen not in numbers:
        return []
    y = numbers.index(chosen) * _LANE + 24
    return [el("rect", x=f"{scale.x(t):.3f}%", y=y, width=1.5, height=5, cls="tick") for t in steps]


def _after(value: float, scale: _Scale) -> str:
    """Where a quarter of all is less than what :func:`seconds` tells apart, with more digits."""
    return seconds(value) if scale.until - scale.since >= _FINE_S else f"{value:.2f} s"


def _axis(scale: _Scale, height: int) -> Html:
    marks = []
    for share in _TICKS:
        t = scale.since + share * (scale.until - scale.since)
        x = f"{scale.x(t):.2f}%"
        anchor = "start" if share == 0 else "end" if share == 1 else "middle"
        marks.append(el("line", x1=x, x2=x, y1=0, y2=height - _AXIS))
        marks.append(el("text", _after(t - scale.since, scale), x=x, y=height - 6, text_anchor=anchor, cls="dim"))
    return el("g", marks)
