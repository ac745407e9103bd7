"""Several ways to do the same thing, measured in turns, so that a busy moment of the machine meets all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio

from benchmarks.meter import Meter
from benchmarks.rows import Row, Target


@dataclass
class Series:
    """The times of one contender."""

    name: str
    walls_s: list[float] = field(default_factory=list)
    cpu_s: float | None = 0.0
    """Of all cycles together; None where it cannot be counted."""

    @property
    def wall_ms(self) -> float:
        """The median."""
        return statistics.median(self.walls_s) * 1e3

    @property
    def least_ms(self) -> float:
        """The smallest: what it takes when nothing comes in between."""
        return min(self.walls_s) * 1e3

    @property
    def cpu_ms(self) -> float | None:
        """The mean of a cycle."""
        return None if self.cpu_s is None else self.cpu_s / len(self.walls_s) * 1e3


@dataclass(frozen=True)
class Contender:
    """``run(n)`` does it n times, one after the other, and returns the seconds of each."""

    name: str
    run: Callable[[int], Awaitable[list[float]]]
    batch: int
    settle_s: float = 0.0
    """Waited for after a turn; what goes on meanwhile is counted as the contender's."""
    is_metered: bool = True
    """False where daemons outside of the meter do the work."""


async def contest(contenders: Sequence[Contender], rounds: int, meter: Meter) -> dict[str, Series]:
    """Everybody's series, by name."""
    results = {contender.name: Series(contender.name) for contender in contenders}
    for _ in range(rounds):
        for contender in contenders:
            await _turn(contender, results[contender.name], meter)
    return results


async def _turn(contender: Contender, series: Series, meter: Meter) -> None:
    """One cycle goes first and does not count: it finds the caches as another contender has left them."""
    await contender.run(1)
    await anyio.sleep(contender.settle_s)
    before = meter.seconds()
    series.walls_s += await contender.run(contender.batch)
    if contender.settle_s:
        await anyio.sleep(contender.settle_s)
    used = meter.seconds() - before
    series.cpu_s = series.cpu_s + used if series.cpu_s is not None and contender.is_metered else None


async def timed(times: int, work: Callable[[], Awaitable[object]]) -> list[float]:
    """Do ``work`` a number of times; the seconds of each."""
    walls = []
    for _ in range(times):
        start = time.perf_counter()
        await work()
        walls.append(time.perf_counter() - start)
    return walls


def wall_row(series: Series, base: Series | None = None, target: Target | None = None) -> Row:
    """A row of wall-clock time, and its ratio to that of ``base``."""
    ratio = None if base is None else series.wall_ms / base.wall_ms
    to = "" if base is None else base.name
    return Row(f"{series.name}, wall", series.wall_ms, "ms", series.least_ms, ratio, to, target)


def cpu_row(series: Series, base: Series | None = None, target: Target | None = None) -> Row:
    """A row of processor time, and its ratio to that of ``base``."""
    name, value = f"{series.name}, CPU", series.cpu_ms
    other = None if base is None else base.cpu_ms
    if value is None:
        return Row(name, note="done by a daemon that was running before: not counted")
    ratio = value / other if other else None
    return Row(name, value, "ms", None, ratio, base.name if base is not None else "", target)
