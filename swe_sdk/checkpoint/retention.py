"""Which checkpoints are kept. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from swe_sdk.model.record import Record


class Candidate(Record):
    """A complete checkpoint, as the policy sees it."""

    checkpoint_id: str
    number: int = Field(ge=1)
    """Counts the checkpoints of a run, in the order in which they were saved."""
    score: float | None = None
    """Higher is better; None = not rated."""


class Retention(Record):
    """Keep what any of the three asks for, and always the newest."""

    keep_last: int = Field(default=2, ge=1)
    """The newest ones."""
    keep_every: int | None = Field(default=None, ge=1)
    """Every n-th, by number."""
    keep_best: int = Field(default=0, ge=0)
    """Those with the highest scores; of equals the newer one."""


def kept(candidates: Sequence[Candidate], policy: Retention, *, needed: Iterable[str] = ()) -> frozenset[str]:
    """The ids to keep; ``needed`` are kept whatever the policy says, such as what a restore stands on."""
    ordered = sorted(candidates, key=lambda one: one.number)
    rated = sorted((one for one in ordered if one.score is not None), key=lambda one: (one.score, one.number))
    every = [one for one in ordered if policy.keep_every and one.number % policy.keep_every == 0]
    best = rated[-policy.keep_best :] if policy.keep_best else []
    chosen = {one.checkpoint_id for one in (*ordered[-policy.keep_last :], *every, *best)}
    return frozenset(chosen | (set(needed) & {one.checkpoint_id for one in ordered}))
