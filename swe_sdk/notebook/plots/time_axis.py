"""Axes that show time in units that people read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axis import Axis


class Unit(NamedTuple):
    """A unit of time and its length."""

    name: str
    seconds: float


def unit_for(longest_s: float) -> Unit:
    """The unit in which a span is a number of few digits."""
    for unit in (Unit("days", 86400.0), Unit("hours", 3600.0), Unit("minutes", 60.0)):
        if longest_s >= 2 * unit.seconds:
            return unit
    return Unit("seconds", 1.0)


def seconds_ticks(axis: Axis) -> None:
    """Ticks of a logarithmic axis of seconds, as ``1 ms``, ``10 s``, ``5 min``, ``2 h``."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(list(_TICKS)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _TICKS.get(value, "")))
    axis.set_minor_locator(NullLocator())


_TICKS = {
    **{0.001: "1 ms", 0.01: "10 ms", 0.1: "0.1 s", 1.0: "1 s", 10.0: "10 s", 60.0: "1 min", 600.0: "10 min"},
    **{3600.0: "1 h", 36000.0: "10 h", 360000.0: "100 h"},
}
