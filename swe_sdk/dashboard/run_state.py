"""What a run is doing: going, over, or left behind by a process that was killed."""

from __future__ import annotations

from typing import NamedTuple

from swe_sdk.dashboard.escape import Html, el
from swe_sdk.dashboard.show import tone
from swe_sdk.store.rows import FINAL, RunRow

_LEAST_FOR_ETA = 3


class RunState(NamedTuple):
    """``word`` is going, finished, stopped, failed, killed or unknown; ``why`` says more."""

    word: str
    status: str
    """The status of rollouts whose colour it has."""
    glyph: str
    why: str

    @property
    def is_going(self) -> bool:
        """Whether more is to come."""
        return self.word == "going"

    @property
    def is_over(self) -> bool:
        """Whether it ended by itself, or was ended."""
        return self.word in ("finished", "stopped", "failed")

    @property
    def pill(self) -> Html:
        """For tables."""
        sign = el("i", self.glyph, aria_hidden="true")
        return el("span", sign, self.word, cls=f"pill {tone('status', self.status)}", title=self.why)


def state_of(run: RunRow) -> RunState:
    """From what was written, and from whether its writers live."""
    if run.end_reason == "finished":
        return RunState("finished", "resolved", "✓", "every rollout is over")
    if run.end_reason is not None:
        word = run.end_reason
        glyph, status = ("■", "stopped") if word == "stopped" else ("✗", "unresolved")
        return RunState(word, status, glyph, run.message or "it can be resumed")
    if run.alive:
        return RunState("going", "running", "▶", "its process lives")
    if run.alive is False:
        return RunState("killed", "masked", "⊘", f"its process is gone: swe-sdk resume {run.path}")
    return RunState("unknown", "queued", "○", "its process is on another machine")


def finished(run: RunRow) -> int:
    """How many of its rollouts are over."""
    return sum(run.counts.get(status, 0) for status in FINAL)


def planned(run: RunRow) -> int:
    """How many there will be."""
    return max(run.rollouts, run.expected or 0)


def eta(run: RunRow, now: float) -> float | None:
    """When it will be over (Unix seconds) if it goes on as since its start; None where that cannot be told."""
    done, whole = finished(run), planned(run)
    if not state_of(run).is_going or run.started_at is None or done < _LEAST_FOR_ETA or done >= whole:
        return None
    return now + (now - run.started_at) * (whole - done) / done
