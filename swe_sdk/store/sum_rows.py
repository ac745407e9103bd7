"""What queries over many rollouts return that sum, count or estimate. Times are Unix seconds."""

from __future__ import annotations

from typing import NamedTuple

from swe_sdk.model.record import Record
from swe_sdk.store.events import RolloutStage
from swe_sdk.store.rows import RolloutStatus


class Facet(NamedTuple):
    """Rollouts that have all of these in common."""

    run: str
    family: str
    provider: str
    agent: str
    model: str
    status: str
    mask_kind: str | None
    rollouts: int


class MaskCell(Record):
    """Masked attempts that have all of these in common."""

    run: str
    kind: str
    stage: str
    provider: str
    is_final: bool
    """Whether their rollouts ended with it; the others were tried again."""
    retryable: bool
    attempts: int


class MaskBucket(Record):
    """Masked attempts of one kind in one stretch of time."""

    kind: str
    bucket: int
    """Number of the stretch, from 0."""
    attempts: int


class MaskTimes(Record):
    """When attempts were masked: stretches of ``width_s`` seconds from ``since`` on."""

    since: float
    width_s: float
    buckets: tuple[MaskBucket, ...] = ()


class BudgetBin(Record):
    """Rollouts that have spent about the same share of their budget."""

    bin: int
    """0 = nothing; the last one = all of it."""
    status: RolloutStatus
    rollouts: int


class RunBudget(Record):
    """Budgets of one run's rollouts, summed. A rollout without a limit adds nothing to ``total_s``."""

    run: str
    rollouts: int
    limited: int
    """How many have a limit."""
    total_s: float
    spent_s: float
    parked_s: float
    queued_s: float
    exhausted: int
    """How many have spent all of it."""


class UnderWay(Record):
    """A rollout that is not over, and what is left of its budget by the clock."""

    run: str
    rollout_id: str
    instance_id: str
    status: RolloutStatus
    stage: RolloutStage | None = None
    attempt: int
    provider: str = ""
    total_s: float
    spent_s: float
    """As it was last written down, when its last stage ended."""
    parked_s: float
    working_s: float
    """Since then, if it has been working all the time: an estimate from above. 0 while it is parked or waits."""
    left_s: float
    """What is left by that estimate, never below 0."""


class SnapshotTotals(Record):
    """Snapshots of one run, counted."""

    run: str
    snapshots: int
    there: int
    """Not released."""
    there_bytes: int | None
    """Of those whose size is known; None where none is, as for ``leaked_bytes``."""
    released: int
    leaks: int
    """There, though no kept checkpoint needs them."""
    leaked_bytes: int | None
    violations: int
    """Released, though a kept checkpoint needs them."""
