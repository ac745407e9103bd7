"""What a checkpoint can hold of each rollout of this process, now."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal, Protocol

from swe_sdk.agents.contract import Tier
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.rollouts.bookmark import Bookmark
from swe_sdk.rollouts.live import LiveRollout, LiveRollouts

StandingState = Literal["held", "running", "restart"]
"""*held*: it can go on from its bookmark; *running*: between two boundaries, so a checkpoint waits; *restart*: no
checkpoint can hold it, and none waits."""
PATIENCE_S = 20.0
"""How long all others stand for one that is at work, such as in a long command."""
WITH_BOX = ("invoke_agent", "close_agent")
"""Stages whose bookmark is worth nothing without the sandbox."""


@dataclass(frozen=True)
class Standing:
    """One rollout, as a checkpoint sees it."""

    episode_id: EpisodeId
    state: StandingState
    mark: Bookmark | None = None
    """Where it goes on, if it is held."""
    live: LiveRollout | None = None
    """None where the mark is that of an earlier checkpoint."""
    reason: str = ""
    """Why it is a restart."""

    @property
    def needs_box(self) -> bool:
        """Whether its sandbox is part of where it stands."""
        return self.mark is not None and self.mark.next in WITH_BOX

    @property
    def bookmark(self) -> Bookmark | None:
        """The mark with what is spent and parked by now."""
        if self.mark is None or self.live is None or self.live.meter is None:
            return self.mark
        return self.mark.model_copy(update={"budget": self.live.meter.budget})


class CallSession(Protocol):
    """One attempt's calls of the model; see :class:`swe_sdk.agents.gateway.session.GatewaySession`."""

    rollout_id: str
    attempt: int

    @property
    def awaiting_model(self) -> bool:
        """Whether it waits for an answer of which it has seen nothing."""

    def hold(self) -> None:
        """Hold its calls."""

    def release(self) -> None:
        """Let them go on."""


class Calls(Protocol):
    """All calls of the model; see :class:`swe_sdk.agents.gateway.gateway.Gateway`."""

    @property
    def sessions(self) -> tuple[CallSession, ...]:
        """Of the attempts that are under way."""


class Census:
    """All rollouts of a run that are under way, or were restored and wait.

    A rollout that is in its first seed when a checkpoint closes, begins meanwhile, or comes to no boundary within
    :data:`PATIENCE_S`, is held as the checkpoint before holds it, if it does; else it is a restart of this one. An
    agent of the tier *exact* that waits for the model counts as standing at its latest boundary, if it has not used its
    sandbox since: its call is held, and made again by whoever goes on from there. All others are asked to park.
    """

    def __init__(self, lives: LiveRollouts, *, tier: Tier, can_freeze: bool, calls: Calls | None = None) -> None:
        self.lives = lives
        self.saved: dict[str, Bookmark] = {}
        """What the newest checkpoint holds, by rollout: good for those that the next cannot hold as they are."""
        self._finished: set[str] = set()
        self._tier, self._can_freeze, self._calls = tier, can_freeze, calls
        self._left_out: dict[str, str] = {}
        """Whom the open checkpoint cannot hold as they are now, until its end, and why."""
        self._unfrozen: dict[str, str] = {}
        """Whose sandboxes could not be frozen for the open checkpoint, and why."""
        self._avoided: dict[str, str] = {}
        """The same for the one before: left out once, since one of them may not keep all others from being saved."""
        self._late_at = math.inf
        self._seen: set[LiveRollout] = set()
        self._clocks = ExitStack()
        self._stopped: set[LiveRollout] = set()
        self.is_closed = False

    def close(self) -> None:
        """A checkpoint begins: ask everybody to stand who can be held."""
        self.is_closed, self._late_at = True, time.monotonic() + PATIENCE_S
        self._avoided, self._unfrozen = self._unfrozen, {}
        for live in self.lives:
            self._seen.add(live)
            standing = self._look(live, awaits=False)
            if standing.state == "restart":
                self._left_out[live.rollout_id] = standing.reason
            else:
                live.request_park()

    def open(self) -> None:
        """It is over: everybody goes on."""
        self.is_closed = False
        self._clocks.close()
        for session in self._sessions().values():
            session.release()
        for live in self._seen:
            live.resume()
        self._seen, self._left_out, self._stopped = set(), {}, set()

    def finished(self, rollout_id: str) -> None:
        """Its result is written down."""
        self._finished.add(rollout_id)
        self.saved.pop(rollout_id, None)

    def could_not_freeze(self, failed: Mapping[str, Exception]) -> None:
        """The sandboxes of these rollouts; the next checkpoint does without them."""
        self._unfrozen = {name: f"its sandbox could not be frozen: {error}"[:500] for name, error in failed.items()}

    def remember(self, saved: Mapping[str, Bookmark]) -> None:
        """A checkpoint is complete, and holds these."""
        self.saved = {name: mark for name, mark in saved.items() if name not in self._finished}

    def waits_for(self, rollout_id: str) -> bool:
        """Whether the open checkpoint waits for what a rollout does: not for those that it does not hold as they are,
        and for nobody longer than :data:`PATIENCE_S`."""
        seen = any(live.rollout_id == rollout_id for live in self._seen)
        return seen and rollout_id not in self._left_out and time.monotonic() <= self._late_at

    def standings(self) -> list[Standing]:
        """All of them. While a checkpoint is open, this also stops the clocks of those who stand without parking."""
        sessions = self._sessions() if self.is_closed else {}
        found = [self._of(live, sessions) for live in self.lives]
        begun = {one.episode_id.rollout_id for one in found}
        return found + [_saved(mark) for name, mark in self.saved.items() if name not in begun]

    # -- one of them -------------------------------------------------------------------------------------------------

    def _of(self, live: LiveRollout, sessions: Mapping[tuple[str, int], CallSession]) -> Standing:
        new = self.is_closed and live not in self._seen
        reason = "it began while the checkpoint was saved" if new else self._left_out.get(live.rollout_id)
        if reason is not None:
            standing = Standing(_episode(live), "restart", live=live, reason=reason)
        else:
            standing = self._look(live, awaits=self._awaits(live, sessions.get((live.rollout_id, live.attempt))))
        if standing.state == "running" and self.is_closed and time.monotonic() > self._late_at:
            self._left_out[live.rollout_id] = "it came to no boundary in time"
            return self._of(live, sessions)
        if standing.state == "held":
            self._stop_clock(live)
        saved = self.saved.get(live.rollout_id)
        return _saved(saved) if standing.state == "restart" and saved is not None else standing

    def _look(self, live: LiveRollout, *, awaits: bool) -> Standing:
        mark = live.bookmark
        if mark is None or mark.attempt != live.attempt:
            return Standing(_episode(live), "restart", live=live, reason="its first seed is under way")
        if mark.next in ("verify", "return"):  # may be done again, and what they say is held at the next boundary
            return Standing(_episode(live), "held", mark, live)
        if not self._can_freeze:
            return Standing(_episode(live), "restart", live=live, reason="its sandbox cannot be frozen")
        if live.rollout_id in self._avoided:
            return Standing(_episode(live), "restart", live=live, reason=self._avoided[live.rollout_id])
        if self._tier == "restart" and mark.next == "invoke_agent" and not _before_agent(live):
            reason = "its agent is at work, and can only start over"
            return Standing(_episode(live), "restart", live=live, reason=reason)
        return Standing(_episode(live), "held" if live.is_parked or awaits else "running", mark, live)

    def _awaits(self, live: LiveRollout, session: CallSession | None) -> bool:
        """Hold the next call of an agent that has not moved from its boundary; whether it waits for one."""
        if session is None or self._tier != "exact" or live.lent is None or live.stage != "invoke_agent":
            return False
        if live.lent.is_changed:  # it cannot be saved here: let it come to its next boundary
            session.release()
            return False
        session.hold()
        return session.awaiting_model

    def _stop_clock(self, live: LiveRollout) -> None:
        if self.is_closed and live not in self._stopped and live.meter is not None:
            self._stopped.add(live)
            self._clocks.enter_context(live.meter.parked())

    def _sessions(self) -> dict[tuple[str, int], CallSession]:
        sessions: Iterator[CallSession] = iter(self._calls.sessions if self._calls else ())
        return {(session.rollout_id, session.attempt): session for session in sessions}


def _episode(live: LiveRollout) -> EpisodeId:
    return EpisodeId(rollout_id=live.rollout_id, attempt=live.attempt)


def _saved(mark: Bookmark) -> Standing:
    return Standing(EpisodeId(rollout_id=mark.rollout_id, attempt=mark.attempt), "held", mark)


def _before_agent(live: LiveRollout) -> bool:
    """Whether it stands right before its agent begins."""
    return live.is_parked and live.stage == "seed"
