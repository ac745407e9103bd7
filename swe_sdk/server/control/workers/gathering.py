"""Whose reports count, and what they come to together. Pure.

Every close of admission is a new generation. A worker numbers its reports of a generation; one of an older generation,
or with a number not above the last one, came late and is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from swe_sdk.checkpoint.messages import PrepareReport


@dataclass(frozen=True)
class Numbered:
    """A worker's report."""

    generation: int
    number: int
    report: PrepareReport


@dataclass(frozen=True)
class Gathering:
    """Which workers there are, and what they have said since admission was closed."""

    generation: int = 0
    is_closed: bool = False
    workers: frozenset[str] = frozenset()
    reports: Mapping[str, Numbered] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    """Workers that were lost while admission was closed, with all that they had."""


def closed(gathering: Gathering) -> Gathering:
    """A new generation: nothing that was reported before counts."""
    return replace(gathering, generation=gathering.generation + 1, is_closed=True, reports={}, lost=frozenset())


def opened(gathering: Gathering) -> Gathering:
    """Admission is open; nobody needs to report."""
    return replace(gathering, is_closed=False, reports={}, lost=frozenset())


def joined(gathering: Gathering, worker: str) -> Gathering:
    """One more, which has reported nothing yet."""
    return replace(gathering, workers=gathering.workers | {worker})


def left(gathering: Gathering, worker: str) -> Gathering:
    """One less. While admission is closed what it had is missed."""
    if worker not in gathering.workers:
        return gathering
    reports = {name: one for name, one in gathering.reports.items() if name != worker}
    lost = gathering.lost | {worker} if gathering.is_closed else gathering.lost
    return replace(gathering, workers=gathering.workers - {worker}, reports=reports, lost=lost)


def reported(gathering: Gathering, worker: str, told: Numbered) -> Gathering:
    """A report has come; one that is late or of somebody unknown changes nothing."""
    last = gathering.reports.get(worker)
    is_late = told.generation != gathering.generation or (last is not None and told.number <= last.number)
    if is_late or not gathering.is_closed or worker not in gathering.workers:
        return gathering
    return replace(gathering, reports={**gathering.reports, worker: told})


def silent(gathering: Gathering) -> list[str]:
    """Workers that have to report, and have not."""
    return sorted(gathering.workers - set(gathering.reports)) if gathering.is_closed else []


def merged(gathering: Gathering, own: PrepareReport) -> PrepareReport:
    """What all workers and the coordinator itself come to. A worker without a report blocks, and so does a lost one."""
    told = {name: gathering.reports[name].report for name in sorted(gathering.reports)}
    blockers = [f"worker {name} was lost while the checkpoint was open" for name in sorted(gathering.lost)]
    blockers += [f"worker {name} has not reported" for name in silent(gathering)]
    listed = [*blockers, *own.blockers, *(f"{name}: {one}" for name, report in told.items() for one in report.blockers)]
    reports = (own, *told.values())
    joint = PrepareReport.of(
        listed,
        counts=_sums(report.counts for report in reports),
        restarts=tuple(dict.fromkeys(one for report in reports for one in report.restarts)),
        episodes=tuple(dict.fromkeys(one for report in reports for one in report.episodes)),
    )
    count = len(blockers) + sum(report.blocker_count for report in reports)
    ready = joint.ready and all(report.ready for report in reports)
    return joint.model_copy(update={"ready": ready, "blocker_count": count})


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)
