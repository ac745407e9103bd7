"""The pure machine under any interleaving of calls, retries, late calls, failures and time.

``SWE_SDK_PROTOCOL_STEPS`` sets how many steps are taken (100,000 by default).
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from swe_sdk.checkpoint.messages import Operation
from swe_sdk.checkpoint.protocol.machine import Call, Control, begin, expiry, finish
from swe_sdk.checkpoint.protocol.table import RESUMED_MEMORY, RULES
from swe_sdk.errors import CheckpointError

STEPS = int(os.environ.get("SWE_SDK_PROTOCOL_STEPS", "100000"))
PER_EXAMPLE = 200
GRACE_S = 20.0
ARGUMENTS = ("", "a", "b")
OUTCOMES: tuple[Any, ...] = ("done", "done", "unready", "failed")
OPERATIONS: tuple[Operation | None, ...] = (*RULES, "prepare", "commit", "restore", "release", *[None] * 4)
"""None = some work that was begun comes to its end."""
steps = st.lists(st.binary(min_size=5, max_size=5), min_size=PER_EXAMPLE, max_size=PER_EXAMPLE)


class World:
    """A participant as its callers see it, and what must hold of it whatever they do.

    The five bytes of a step: operation, id, arguments, deadline or outcome, and the time that passes before it.
    """

    def __init__(self) -> None:
        self.control = Control()
        self.now = 0.0
        self.under_way: list[Call] = []
        self.replies: dict[tuple[str, Operation, str], Any] = {}
        self.completed: dict[tuple[str, Operation], int] = {}
        self.over: list[str] = []
        self.newest: str | None = None
        self.numbers = itertools.count()
        self.last: Call | None = None
        self.reached: Counter[tuple[str, str]] = Counter()

    def step(self, code: bytes) -> None:
        operation = OPERATIONS[code[0] % len(OPERATIONS)]
        self.now += code[4] % 8
        self._expire()
        if operation is None:
            self._end(code)
        else:
            call = Call(operation, self._id(operation, code[1]), 0.0, ARGUMENTS[code[2] % len(ARGUMENTS)])
            if code[0] >= 170 and self.last is not None:
                call = self.last  # a retry, perhaps a late one
            else:
                self.last = call
            self._call(replace(call, deadline_ts=self.now + code[3] % 24 - 2))
        self._check()

    def _id(self, operation: Operation, code: int) -> str:
        """Mostly the open checkpoint or the next one; sometimes an older one, or one that is not due yet."""
        if self.control.checkpoint_id and code < 180:
            return self.control.checkpoint_id
        if operation == "release" and self.newest and code < 180:
            return self.newest
        return f"c{max(0, len(self.over) + (0, 0, 0, 0, -1, -2, 1)[code % 7])}"

    def _expire(self) -> None:
        owed = expiry(self.control, self.now)
        if owed is not None:
            self.reached["lease", "expired"] += 1
            step = begin(self.control, owed, now=self.now, grace_s=GRACE_S)
            self._opened(finish(step.control, owed, "done"), owed)

    def _opened(self, control: Control, call: Call) -> None:
        self.control = control
        self.over.append(call.checkpoint_id)
        self.newest = call.checkpoint_id

    def _call(self, call: Call) -> None:
        before = self.control
        try:
            step = begin(before, call, now=self.now, grace_s=GRACE_S)
        except CheckpointError as error:
            assert self.control == before, "a refusal changes nothing"
            self._check_refusal(call, error.code)
            self.reached[call.operation, error.code] += 1
            return
        self.reached[call.operation, step.action] += 1
        self._check_accepted(before, call)
        self.control = step.control
        if step.action == "replay":
            assert step.reply == self.replies[call.checkpoint_id, call.operation, call.arguments], "another reply"
        if call.operation == "resume":
            if step.action == "work":
                self._opened(finish(step.control, call, "done"), call)
            elif call.checkpoint_id not in self.over[-RESUMED_MEMORY:]:
                self.over.append(call.checkpoint_id)
                self.newest = call.checkpoint_id
        elif step.action == "work" and call.operation != "renew":
            twin = [other for other in self.under_way if _is_same_work(other, call)]
            assert call.operation not in ("commit", "restore") or not twin, "the same work was begun twice"
            self.under_way.append(call)

    def _check_accepted(self, before: Control, call: Call) -> None:
        if call.operation not in ("resume", "release"):
            assert call.checkpoint_id not in self.over[-RESUMED_MEMORY:], "a resumed checkpoint is used again"
        if call.operation != "resume":
            assert call.deadline_ts > self.now
        if call.operation == "release":
            assert not before.is_closed
            assert call.checkpoint_id == self.newest, "an older checkpoint releases"
        if call.operation == "retire":
            assert before.phase in ("idle", "restored")
        if before.is_closed and call.operation != "resume":
            assert call.checkpoint_id == before.checkpoint_id, "two checkpoints at once"

    def _check_refusal(self, call: Call, code: str) -> None:
        assert call.operation != "resume", "a resume is never refused"
        if code == "stale_checkpoint" and call.operation != "release":
            assert call.checkpoint_id in self.over[-RESUMED_MEMORY:]

    def _end(self, code: bytes) -> None:
        """Some work that was begun comes to an end, perhaps long after it was overtaken."""
        if not self.under_way:
            return
        call = self.under_way.pop(-1 if code[1] < 160 else code[1] % len(self.under_way))
        outcome, reply = OUTCOMES[code[3] % len(OUTCOMES)], f"{call.operation} {next(self.numbers)}"
        before = self.control
        self.control = finish(before, call, outcome, reply)
        answer = self.control.answers.get(call.operation)
        if answer is not None and answer.reply == reply:
            self.replies[call.checkpoint_id, call.operation, call.arguments] = reply
            done = self.completed[call.checkpoint_id, call.operation] = (
                self.completed.get((call.checkpoint_id, call.operation), 0) + 1
            )
            assert call.operation not in ("commit", "restore") or done == 1, "work was done twice"
        if call.checkpoint_id in self.over and call.operation != "release":
            assert self.control == before, "work of a checkpoint that is over still had an effect"

    def _check(self) -> None:
        control = self.control
        assert control.is_closed == (control.checkpoint_id is not None) == (control.lease_expires_at is not None)
        assert control.lease_expires_at is None or self.now < control.lease_expires_at, "closed past its lease"
        assert control.checkpoint_id not in control.resumed
        assert control.newest == self.newest
        assert len(control.resumed) <= RESUMED_MEMORY
        assert control.working is None or control.phase in ("prepared", "restored")


def _is_same_work(one: Call, other: Call) -> bool:
    return (one.operation, one.checkpoint_id) == (other.operation, other.checkpoint_id)


def test_random_calls_reach_everything() -> None:
    reached: Counter[tuple[str, str]] = Counter()
    for seed in range(60):
        world, random = World(), Random(seed)
        for _ in range(PER_EXAMPLE):
            world.step(random.randbytes(5))
        reached += world.reached
    for operation in RULES:
        assert reached[operation, "work"] >= 10, operation
    wanted = {("commit", "join"), ("commit", "replay"), ("commit", "checkpoint_conflict"), ("restore", "join")}
    wanted |= {("restore", "replay"), ("prepare", "replay"), ("release", "replay"), ("release", "stale_checkpoint")}
    wanted |= {("lease", "expired"), ("retire", "invalid_phase"), ("resume", "nothing"), ("renew", "stale_checkpoint")}
    assert {one for one in wanted if reached[one] < 5} == set()


@settings(
    max_examples=max(1, STEPS // PER_EXAMPLE),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(steps)
def test_nothing_that_callers_do_breaks_the_protocol(codes: list[bytes]) -> None:
    world = World()
    for code in codes:
        world.step(code)
