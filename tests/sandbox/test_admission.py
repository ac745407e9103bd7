"""Limits hold across loops and threads, in the order of asking, and no place is ever lost."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time

import anyio
import pytest
from anyio import to_thread

from swe_sdk.sandbox.admission import Admission, AdmissionLimits, Gate

pytestmark = pytest.mark.anyio


def in_use(gate: Gate) -> tuple[int, int]:
    view = gate.view()
    return len(view.held), view.waiting


async def until_waiting(gate: Gate, number: int) -> None:
    with anyio.fail_after(5):
        while gate.view().waiting != number:
            await anyio.sleep(0.001)


async def test_creates_execs_and_boxes_do_not_wait_for_each_other():
    admission = Admission(AdmissionLimits(creates=1, execs=1, boxes=1))
    with anyio.fail_after(5):
        async with admission.create("a"), admission.exec("b"):
            slot = await admission.box("c")
            view = admission.view()
            held = [[slot.what for slot in gate.held] for gate in (view.creates, view.execs, view.boxes)]
            assert held == [["a"], ["b"], ["c"]]
            assert all(0 <= gate.held[0].since_s < 5 for gate in (view.creates, view.execs, view.boxes))
    assert admission.view().creates.held == admission.view().execs.held == ()
    slot.release()
    assert admission.view().boxes.held == ()


async def test_two_evaluations_run_at_once_where_one_create_may():
    admission = Admission(AdmissionLimits(creates=1))
    most = Most()

    async def evaluate() -> None:
        async with admission.create():
            await anyio.sleep(0.01)
        slot = await admission.box()
        with most:
            await anyio.sleep(0.1)
        slot.release()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(evaluate)
        tasks.start_soon(evaluate)
    assert most.seen == 2


async def test_first_come_first_served():
    gate = Gate(1)
    first = await gate.enter()
    order: list[int] = []

    async def enter(number: int) -> None:
        slot = await gate.enter(str(number))
        order.append(number)
        slot.release()

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(enter, number)
            await until_waiting(gate, number + 1)
        first.release()
        await enter(99)  # comes last, though there is a place just now
    assert order == [*range(10), 99]
    assert in_use(gate) == (0, 0)


async def test_a_place_given_back_twice_is_one_place():
    gate = Gate(1)
    slot = await gate.enter()
    slot.release()
    other = await gate.enter()
    slot.release()
    with anyio.move_on_after(0.05) as scope:
        await gate.enter()
    assert scope.cancelled_caught
    other.release()
    assert in_use(gate) == (0, 0)


async def test_an_exception_gives_the_place_back():
    admission = Admission(AdmissionLimits(execs=1))
    for _ in range(3):
        with pytest.raises(KeyError):
            async with admission.exec():
                raise KeyError


async def test_without_a_limit_all_are_let_in_and_shown():
    gate = Gate(None)
    slots = [await gate.enter(str(number)) for number in range(1000)]
    assert in_use(gate) == (1000, 0)
    for slot in slots:
        slot.release()
    assert in_use(gate) == (0, 0)


async def test_who_gives_up_waiting_takes_no_place_along():
    gate = Gate(1)
    slot = await gate.enter()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gate.enter)
        await until_waiting(gate, 1)
        tasks.cancel_scope.cancel()
    assert in_use(gate) == (1, 0)
    slot.release()
    with anyio.fail_after(1):
        (await gate.enter()).release()


async def test_who_gives_up_when_it_is_let_in_passes_the_place_on():
    gate = Gate(1)
    slot = await gate.enter()
    entered = anyio.Event()

    async def second() -> None:
        (await gate.enter()).release()
        entered.set()

    async with anyio.create_task_group() as others:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gate.enter)
            await until_waiting(gate, 1)
            others.start_soon(second)
            await until_waiting(gate, 2)
            slot.release()  # the first is let in, and cancelled before it can run
            tasks.cancel_scope.cancel()
        with anyio.fail_after(1):
            await entered.wait()
    assert in_use(gate) == (0, 0)


class Most:
    """How many were within at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = self.seen = 0

    def __enter__(self) -> None:
        with self._lock:
            self._now += 1
            self.seen = max(self.seen, self._now)

    def __exit__(self, *_exception: object) -> None:
        with self._lock:
            self._now -= 1


@pytest.mark.parametrize("limit", [1, 3])
def test_many_loops_threads_and_cancellations(limit):
    gate = Gate(limit)
    most = Most()
    finished: list[int] = []

    async def one(chance: random.Random) -> None:
        with anyio.move_on_after(chance.choice([0, 0.0005, 0.002, 60])):
            slot = await gate.enter()
            try:
                with most:
                    await anyio.sleep(chance.choice([0, 0.0002]))
            finally:
                if chance.random() < 0.5:
                    slot.release()
                else:
                    with anyio.CancelScope(shield=True):
                        await to_thread.run_sync(slot.release)
        finished.append(1)

    async def loop(seed: int) -> None:
        chance = random.Random(seed)
        async with anyio.create_task_group() as tasks:
            for _ in range(150):
                tasks.start_soon(one, chance)
                await anyio.sleep(0)

    threads = [threading.Thread(target=anyio.run, args=(loop, seed)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(finished) == 600
    assert most.seen == limit
    assert in_use(gate) == (0, 0)


async def test_a_loop_that_was_closed_with_waiters_in_it_keeps_nobody_out():
    gate = Gate(1)
    slot = await gate.enter()

    def leave_one_waiting():
        loop = asyncio.new_event_loop()
        task = loop.create_task(gate.enter())
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()
        task._log_destroy_pending = False
        return task

    kept = await to_thread.run_sync(leave_one_waiting)
    assert in_use(gate) == (1, 1)
    slot.release()
    with anyio.fail_after(1):
        (await gate.enter()).release()
    assert in_use(gate) == (0, 0)
    kept.get_coro().close()
    assert in_use(gate) == (0, 0)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
async def test_a_forked_child_holds_nothing():
    admission = Admission(AdmissionLimits(boxes=1))
    slot = await admission.box("the parent's")
    if not (pid := os.fork()):
        view = admission.view().boxes
        slot.release()
        os._exit(0 if view.held == () and view.waiting == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert len(admission.view().boxes.held) == 1
    slot.release()


async def test_a_free_place_costs_microseconds():
    admission = Admission()
    began = time.perf_counter()
    for _ in range(1000):
        async with admission.exec("box-1"):
            pass
    assert (time.perf_counter() - began) / 1000 < 0.0002


@pytest.mark.parametrize("limits", [{"creates": 0}, {"boxes": -1}, {"exec": 1}])
def test_limits_are_checked(limits):
    with pytest.raises(ValueError, match="validation error"):
        AdmissionLimits(**limits)
