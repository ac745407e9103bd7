"""A participant's control state, and the only functions that change it.

Pure: no I/O, and no clock but the ``now`` of each call (unix seconds). A shell around it does the work between
:func:`begin` and :func:`finish`; see :mod:`swe_sdk.checkpoint.participants.base`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from swe_sdk.checkpoint.codes import Code, refuse
from swe_sdk.checkpoint.messages import Operation, Phase
from swe_sdk.checkpoint.protocol.table import RESUMED_MEMORY, RULES, Rule

Action = Literal["work", "join", "replay", "nothing"]
"""``work``: do it, then call :func:`finish`. ``join``: the same work is under way, await that. ``replay``: it was done,
here is its reply. ``nothing``: there is nothing to do."""
Outcome = Literal["done", "unready", "failed"]
_BACKGROUND = ("commit", "restore")
"""Work that others may await, and that must not be begun twice."""


@dataclass(frozen=True)
class Call:
    """One request: ``arguments`` identifies all of it but its id and deadline."""

    operation: Operation
    checkpoint_id: str
    deadline_ts: float
    arguments: str = ""


@dataclass(frozen=True)
class Answer:
    """What a call came to, for its repetition."""

    checkpoint_id: str
    arguments: str
    reply: Any


@dataclass(frozen=True)
class Control:
    """Where a participant stands between two calls."""

    phase: Phase = "idle"
    checkpoint_id: str | None = None
    """The open checkpoint; None in idle."""
    lease_expires_at: float | None = None
    working: Call | None = None
    """A commit or restore under way."""
    answers: Mapping[Operation, Answer] = field(default_factory=dict)
    resumed: tuple[str, ...] = ()
    """The last ids that were resumed, oldest first: stale."""
    newest: str | None = None
    """The id that was resumed last, whether or not it was open here: the only one that may release. All participants
    agree on it, also after a checkpoint that not all of them had begun."""

    @property
    def is_closed(self) -> bool:
        """Whether admission is closed."""
        return self.phase != "idle"


@dataclass(frozen=True)
class Step:
    """The state after :func:`begin`, and what to do now."""

    control: Control
    action: Action
    reply: Any = None


def begin(control: Control, call: Call, *, now: float, grace_s: float) -> Step:
    """Accept a call, or raise ``CheckpointError`` with one of :data:`swe_sdk.checkpoint.codes.CODES`."""
    rule = RULES[call.operation]
    _check_time(rule, call, now)
    _check_fence(rule, control, call)
    if call.operation == "resume":
        return _begin_resume(control, call)
    answer = control.answers.get(call.operation)
    if answer is not None and answer.checkpoint_id == call.checkpoint_id and control.is_closed != rule.idle:
        if answer.arguments == call.arguments:
            return Step(_leased(rule, control, call, grace_s), "replay", answer.reply)
        if not rule.idle:  # the newest checkpoint may release more and more
            raise refuse("checkpoint_conflict", f"{call.operation} was done with other arguments")
    if control.working is not None and control.checkpoint_id == call.checkpoint_id and call.operation != "renew":
        return _meet(control, control.working, call)
    _check_phase(rule, control, call)
    return Step(_started(rule, control, call, grace_s), "work")


def finish(control: Control, call: Call, outcome: Outcome, reply: Any = None) -> Control:
    """The state after the work of ``call``; without effect if its checkpoint was resumed meanwhile."""
    rule = RULES[call.operation]
    own = control.checkpoint_id == call.checkpoint_id
    if not (own or rule.idle) or not _is_awaited(rule, control, call):
        return control
    ended = replace(control, working=None) if control.working == call else control
    if outcome == "unready":
        return ended
    if outcome == "failed":
        return _opened(ended) if own and rule.failed == "idle" else ended
    if rule.done == "idle":
        return _opened(ended)
    if rule.keeps_reply:
        answer = Answer(call.checkpoint_id, call.arguments, reply)
        ended = replace(ended, answers={**ended.answers, call.operation: answer})
    return replace(ended, phase=rule.done or ended.phase)


def expiry(control: Control, now: float) -> Call | None:
    """The resume that a participant owes itself where its lease has run out."""
    if control.checkpoint_id is None or control.lease_expires_at is None or now < control.lease_expires_at:
        return None
    return Call("resume", control.checkpoint_id, now)


def _is_awaited(rule: Rule, control: Control, call: Call) -> bool:
    """Whether nothing has overtaken the work of a call."""
    if call.operation in _BACKGROUND:
        return control.working == call
    return rule.during is None or control.phase == rule.during


def _check_time(rule: Rule, call: Call, now: float) -> None:
    if rule.needs_time and now >= call.deadline_ts:
        raise refuse("deadline_exceeded", f"the deadline of {call.operation} has passed")


def _check_fence(rule: Rule, control: Control, call: Call) -> None:
    if rule.fence == "resumed" and call.checkpoint_id in control.resumed:
        raise refuse("stale_checkpoint", f"checkpoint {call.checkpoint_id} was resumed")
    if rule.fence == "not newest" and not control.is_closed and call.checkpoint_id != control.newest:
        newest = f"the newest is {control.newest}" if control.newest else "none was resumed here"
        raise refuse("stale_checkpoint", f"only the newest resumed checkpoint may {call.operation}: {newest}")


def _check_phase(rule: Rule, control: Control, call: Call) -> None:
    if not control.is_closed:
        if not (rule.opens or rule.idle):
            raise refuse("invalid_phase", f"{call.operation} needs an open checkpoint")
        return
    if control.phase not in rule.open_phases and control.checkpoint_id == call.checkpoint_id:
        raise refuse("invalid_phase", f"{call.operation} is not allowed while {control.phase}", remedy="resume first")
    if control.checkpoint_id != call.checkpoint_id:
        code: Code = "checkpoint_conflict" if rule.open_phases and not rule.idle else "invalid_phase"
        raise refuse(code, f"checkpoint {control.checkpoint_id} is open ({control.phase})", remedy="resume first")


def _meet(control: Control, working: Call, call: Call) -> Step:
    """What to do with a call while a commit or restore is under way."""
    if working.operation != call.operation:
        raise refuse("invalid_phase", f"{working.operation} is under way", remedy="wait for it, or resume")
    if working.arguments != call.arguments:
        raise refuse("checkpoint_conflict", f"{call.operation} is under way with other arguments")
    return Step(control, "join")


def _started(rule: Rule, control: Control, call: Call, grace_s: float) -> Control:
    started = control
    if rule.opens and not control.is_closed:
        started = replace(control, checkpoint_id=call.checkpoint_id)
    if rule.during is not None:
        started = replace(started, phase=rule.during)
    if call.operation in _BACKGROUND:
        started = replace(started, working=call)
    return _leased(rule, started, call, grace_s)


def _leased(rule: Rule, control: Control, call: Call, grace_s: float) -> Control:
    """Never shorter than it was: an old call may arrive late."""
    if not rule.leases or not control.is_closed:
        return control
    until = max(call.deadline_ts + grace_s, control.lease_expires_at or 0.0)
    return replace(control, lease_expires_at=until)


def _begin_resume(control: Control, call: Call) -> Step:
    fenced = control
    if call.checkpoint_id not in control.resumed:
        resumed = (*control.resumed, call.checkpoint_id)[-RESUMED_MEMORY:]
        fenced = replace(control, resumed=resumed, newest=call.checkpoint_id)
    return Step(fenced, "work" if control.checkpoint_id == call.checkpoint_id else "nothing")


def _opened(control: Control) -> Control:
    kept: Mapping[Operation, Answer] = {name: answer for name, answer in control.answers.items() if name == "release"}
    return replace(control, phase="idle", checkpoint_id=None, lease_expires_at=None, working=None, answers=kept)
