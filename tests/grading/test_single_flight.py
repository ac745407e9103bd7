"""One execution for all who ask at the same time, owned by none of them."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_sdk.grading.single_flight import FlightCancelled, SingleFlight

pytestmark = pytest.mark.anyio


class Work:
    """Counts its executions; ends when told to."""

    def __init__(self, result="result", error=None):
        self.started = 0
        self.ended = 0
        self.cancelled = 0
        self.go = anyio.Event()
        self.result = result
        self.error = error

    async def __call__(self):
        self.started += 1
        try:
            await self.go.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)  # a teardown that takes a while
            raise
        finally:
            self.ended += 1
        if self.error is not None:
            raise self.error
        return self.result


async def until(condition):
    with anyio.fail_after(5):
        while not condition():
            await anyio.sleep(0.001)


async def test_equal_calls_share_one_execution():
    flights, work, results = SingleFlight(), Work(), []

    async def call():
        results.append(await flights.run("k", work))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(call)
        await until(lambda: work.started)
        work.go.set()
    assert results == ["result"] * 10
    assert (work.started, len(flights)) == (1, 0)


async def test_different_keys_do_not_wait_for_each_other():
    flights, slow, fast = SingleFlight(), Work(), Work("fast")
    fast.go.set()
    async with anyio.create_task_group() as group:
        group.start_soon(flights.run, "slow", slow)
        assert await flights.run("fast", fast) == "fast"
        group.cancel_scope.cancel()
    assert slow.cancelled == 1


async def test_cancelled_leader_does_not_stop_the_followers():
    flights, work, results = SingleFlight(), Work(), []
    leader = anyio.CancelScope()

    async def lead():
        with leader:
            await flights.run("k", work)

    async def follow():
        results.append(await flights.run("k", work))

    async with anyio.create_task_group() as group:
        group.start_soon(lead)
        await until(lambda: work.started)
        group.start_soon(follow)
        group.start_soon(follow)
        await anyio.sleep(0.01)
        leader.cancel()
        await anyio.sleep(0.01)
        assert leader.cancelled_caught, "the leader itself is free at once"
        work.go.set()
    assert results == ["result", "result"]
    assert (work.started, work.cancelled) == (1, 0)


async def test_cancelled_follower_stops_nobody():
    flights, work, results = SingleFlight(), Work(), []

    async def lead():
        results.append(await flights.run("k", work))

    async with anyio.create_task_group() as group:
        group.start_soon(lead)
        await until(lambda: work.started)
        with anyio.move_on_after(0.01) as scope:
            await flights.run("k", work)
        assert scope.cancelled_caught
        work.go.set()
    assert results == ["result"]
    assert work.cancelled == 0


async def test_last_caller_cancels_the_work_and_waits_for_its_end():
    flights, work = SingleFlight(), Work()
    with anyio.move_on_after(0.01):
        await flights.run("k", work)
    assert (work.started, work.cancelled, work.ended, len(flights)) == (1, 1, 1, 0)


async def test_newcomer_does_not_join_cancelled_work():
    """While abandoned work is still cleaning up, an equal call starts afresh."""
    flights, old, new = SingleFlight(), Work(), Work("new")
    new.go.set()
    results = []

    async def abandon():
        with anyio.move_on_after(0.01):
            await flights.run("k", old)

    async with anyio.create_task_group() as group:
        group.start_soon(abandon)
        await until(lambda: old.cancelled)
        assert not old.ended
        results.append(await flights.run("k", new))
    assert results == ["new"]
    assert len(flights) == 0


async def test_errors_reach_every_caller_and_are_forgotten():
    flights, work, errors = SingleFlight(keep=8), Work(error=ValueError("no")), []

    async def call():
        try:
            await flights.run("k", work, reuse=True)
        except ValueError as error:
            errors.append(str(error))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        group.start_soon(call)
        await until(lambda: work.started)
        work.go.set()
    assert errors == ["no", "no"]
    again = Work("fine")
    again.go.set()
    assert await flights.run("k", again, reuse=True) == "fine"


async def finished(flights, key, result, **options):
    work = Work(result)
    work.go.set()
    return await flights.run(key, work, **options), work.started


async def test_results_are_kept_for_those_who_want_them_only():
    flights = SingleFlight(keep=8)
    assert await finished(flights, "k", 1) == (1, 1)
    assert await finished(flights, "k", 2, reuse=True) == (2, 1), "the first call did not ask to keep"
    assert await finished(flights, "k", 3) == (3, 1), "a call that does not reuse is executed"
    assert await finished(flights, "k", 4, reuse=True) == (2, 0)


async def test_only_keepable_results_are_kept():
    flights = SingleFlight(keep=8, keepable=lambda result: result != "masked")
    assert await finished(flights, "k", "masked", reuse=True) == ("masked", 1)
    assert await finished(flights, "k", "clean", reuse=True) == ("clean", 1)
    assert await finished(flights, "k", "other", reuse=True) == ("clean", 0)


async def test_least_recently_used_results_go_first_and_running_work_never():
    flights, running = SingleFlight(keep=2), Work("running")
    async with anyio.create_task_group() as group:
        group.start_soon(flights.run, "running", running)
        await until(lambda: running.started)
        for key in "abac":
            await finished(flights, key, key, reuse=True)
        assert await finished(flights, "a", "again", reuse=True) == ("a", 0)
        assert await finished(flights, "b", "again", reuse=True) == ("again", 1)
        assert len(flights) == 1
        running.go.set()


async def test_work_that_is_cancelled_from_outside_says_so():
    flights = SingleFlight()

    async def cancels_itself():
        raise anyio.get_cancelled_exc_class()

    with pytest.raises(FlightCancelled):
        await flights.run("k", cancels_itself)
    assert len(flights) == 0


@settings(max_examples=60, deadline=None)
@given(
    callers=st.lists(st.tuples(st.integers(0, 8), st.one_of(st.none(), st.integers(0, 8))), min_size=1, max_size=8),
    ends=st.integers(0, 9),
)
def test_any_schedule(callers, ends):
    """Callers that come at a tick and leave at another one, work that ends at a third: nobody hangs or gets nothing.

    A caller who stays gets the result; executions never overlap; nothing is left behind.
    """

    async def main():
        flights, got, state = SingleFlight(), [], {"now": 0, "most": 0}
        tick = 0.002

        async def work():
            state["now"] += 1
            state["most"] = max(state["most"], state["now"])
            try:
                await anyio.sleep(ends * tick)
                return "result"
            finally:
                state["now"] -= 1

        async def call(index, comes, leaves):
            await anyio.sleep(comes * tick)
            with anyio.move_on_after(None if leaves is None else leaves * tick) as scope:
                assert await flights.run("k", work) == "result"
                got.append(index)
            assert scope.cancelled_caught or index in got

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                for index, (comes, leaves) in enumerate(callers):
                    group.start_soon(call, index, comes, leaves)
        assert {index for index, (_, leaves) in enumerate(callers) if leaves is None} <= set(got)
        assert (state["now"], len(flights)) == (0, 0)
        assert state["most"] <= 1

    anyio.run(main)
