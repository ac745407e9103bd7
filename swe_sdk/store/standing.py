"""How rollouts stand, as people read it: where nobody works on a run any more, nothing of it is going on."""

from __future__ import annotations

from swe_sdk.store.rows import RolloutStatus, RunRow

GOING_ON: tuple[RolloutStatus, ...] = ("running", "parked", "retrying")
CUT_OFF = "cut off"


def is_over(run: RunRow) -> bool:
    """Whether nobody works on it any more: it has ended, or its process is gone."""
    return run.ended_at is not None or run.alive is False


def word_of(run: RunRow, status: str) -> str:
    """The status of one of its rollouts; :data:`CUT_OFF` where it was going on when the run ended."""
    return CUT_OFF if is_over(run) and status in GOING_ON else status
