"""One budget on one clock: work is spent, parked time never, and deadlines stand still while it is parked."""

from __future__ import annotations

import math

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from swe_sdk.model.budget import Budget
from swe_sdk.rollouts.meter import Deadline, Meter, OutOfTime
from tests.rollouts.world import Clock

pytestmark = pytest.mark.anyio


class Charging(RuleBasedStateMachine):
    """Any interleaving of work and parks of several, against a model in three numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.meter = Meter(Budget(total_s=1000.0, spent_s=5.0, parked_s=7.0), self.clock)
        self.spent, self.parked, self.idle = 5.0, 7.0, 0.0
        self.working: list[object] = []
        self.parks: list[object] = []

    @rule(seconds=st.floats(min_value=0, max_value=50))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds
        if self.parks:
            self.parked += seconds
        elif self.working:
            self.spent += seconds
        else:
            self.idle += seconds

    @rule(which=st.sampled_from(["working", "parks"]))
    def enter(self, which: str) -> None:
        context = self.meter.working() if which == "working" else self.meter.parked()
        context.__enter__()
        getattr(self, which).append(context)

    @precondition(lambda self: self.working or self.parks)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        which = data.draw(st.sampled_from([name for name in ("working", "parks") if getattr(self, name)]))
        contexts = getattr(self, which)
        contexts.pop(data.draw(st.integers(0, len(contexts) - 1))).__exit__(None, None, None)

    @invariant()
    def it_adds_up(self) -> None:
        budget = self.meter.budget
        assert budget.spent_s == pytest.approx(self.spent)
        assert budget.parked_s == pytest.approx(self.parked)
        assert budget.remaining_s == pytest.approx(max(0.0, 1000 - self.spent))


TestCharging = Charging.TestCase


async def test_time_before_between_and_after_work_is_nobodys() -> None:
    clock = Clock()
    meter = Meter(Budget(total_s=10), clock)
    clock.now += 3
    with meter.working():
        clock.now += 2
    clock.now += 4
    with meter.working():
        clock.now += 1
        assert meter.remaining_s == 7
    assert (meter.budget.spent_s, meter.idle_s) == (3, 7)


@given(cap_s=st.none() | st.floats(0.001, 1e6), left_s=st.none() | st.floats(0, 1e6))
def test_a_deadline_is_the_first_of_cap_and_budget(cap_s: float | None, left_s: float | None) -> None:
    async def make() -> Deadline:
        return Deadline(cap_s, left_s)

    deadline = anyio.run(make)
    wanted = min(math.inf if cap_s is None else cap_s, math.inf if left_s is None else left_s)
    assert deadline._left_s == wanted
    assert deadline.kind == ("budget_spent" if left_s is not None and left_s == wanted else "timeout")


async def test_it_cuts_short_and_says_why() -> None:
    meter = Meter(Budget(total_s=0.05))
    with meter.working(), meter.deadline(5) as deadline:
        await anyio.sleep(5)
    assert deadline.passed
    with pytest.raises(OutOfTime, match="it stood: the budget was spent") as caught:
        deadline.check("it stood")
    assert caught.value.kind == "budget_spent"
    with meter.deadline(0.01, bound_by_budget=False) as deadline:
        await anyio.sleep(5)
    assert deadline.kind == "timeout"


async def test_it_lets_pass_what_is_in_time() -> None:
    with Meter(Budget(total_s=5)).deadline(1) as deadline:
        assert 0.5 < (deadline.remaining_s or 0) <= 1
    assert not deadline.passed
    deadline.check("nothing")


async def test_it_stands_still_while_anybody_parks() -> None:
    meter = Meter(Budget(total_s=10))
    with meter.working(), meter.deadline(0.1) as deadline:
        with meter.parked(), meter.parked():
            left = deadline.remaining_s
            await anyio.sleep(0.2)
            assert deadline.remaining_s == left
        assert (deadline.remaining_s or 0) > 0.05
        await anyio.sleep(5)
    assert deadline.passed
    assert 0.09 < meter.budget.spent_s < 0.19
    assert meter.budget.parked_s >= 0.2


async def test_without_an_end_there_is_none() -> None:
    with Meter(Budget()).deadline(None) as deadline:
        assert deadline.remaining_s is None
        with Meter(Budget()).parked():
            assert deadline.remaining_s is None
