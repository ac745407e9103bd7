"""How rollouts stand, as people read it: where nobody works on a run any more, nothing of it is going on."""

from __future__ import annotations

from collections.abc import Sequence

from swe_sdk.store.rows import AttemptRow, RolloutRow, RolloutStatus, RunRow

GOING_ON: tuple[RolloutStatus, ...] = ("running", "parked", "retrying")
CUT_OFF = "cut off"


def is_over(run: RunRow) -> bool:
    """Whether nobody works on it any more: it has ended, or its process is gone."""
    return run.ended_at is not None or run.alive is False


def word_of(run: RunRow, status: str) -> str:
    """The status of one of its rollouts; :data:`CUT_OFF` where it was going on when the run ended."""
    return CUT_OFF if is_over(run) and status in GOING_ON else status


def attempts_end(run: RunRow, rollout: RolloutRow, attempts: Sequence[AttemptRow]) -> dict[int, float | None]:
    """When each attempt of a rollout was over; None where it goes on.

    Of one that was cut off nobody wrote that down: it ended before the next one began, or with what was last heard.
    """
    last = rollout.updated_at if rollout.is_final or is_over(run) else None
    bounds = [*(attempt.started_at for attempt in attempts[1:]), last]
    return {
        attempt.attempt: bound if attempt.ended_at is None else attempt.ended_at
        for attempt, bound in zip(attempts, bounds, strict=False)
    }
