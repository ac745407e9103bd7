from __future__ import annotations

import anyio
import pytest

from swe_sdk.executors.ray.slots import NoWorkers, Slots

pytestmark = pytest.mark.anyio


async def test_slots_come_from_the_worker_that_has_most() -> None:
    slots: Slots[str] = Slots()
    slots.add("small", 1)
    slots.add("large", 3)
    assert sorted([await slots.acquire() for _ in range(4)]) == ["large", "large", "large", "small"]


async def test_who_waits_first_is_served_first_and_a_cancelled_one_takes_nothing() -> None:
    slots: Slots[str] = Slots()
    order: list[int] = []

    async def want(number: int) -> None:
        worker = await slots.acquire()
        order.append(number)
        slots.release(worker)

    async with anyio.create_task_group() as tasks:
        gives_up = anyio.CancelScope()

        async def give_up() -> None:
            with gives_up:
                await slots.acquire()

        tasks.start_soon(give_up)
        for number in range(5):
            tasks.start_soon(want, number)
        await anyio.wait_all_tasks_blocked()
        assert slots.waiting == 6
        gives_up.cancel()
        await anyio.wait_all_tasks_blocked()
        slots.add("worker", 1)
    assert order == [0, 1, 2, 3, 4]
    assert await slots.acquire() == "worker"


async def test_a_slot_that_comes_with_the_cancellation_is_not_lost() -> None:
    slots: Slots[str] = Slots()
    got: list[str] = []

    async def want() -> None:
        got.append(await slots.acquire())

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(want)
            await anyio.wait_all_tasks_blocked()
            slots.add("worker", 1)
            scope.cancel()
    for worker in got:
        slots.release(worker)
    with anyio.fail_after(1):
        assert await slots.acquire() == "worker"


async def test_the_slots_of_a_worker_that_is_gone_are_gone() -> None:
    slots: Slots[str] = Slots()
    slots.add("old", 2)
    assert await slots.acquire() == "old"
    slots.remove("old")
    slots.release("old")
    assert slots.workers == []
    slots.add("new", 1)
    assert await slots.acquire() == "new"


async def test_where_nobody_will_come_nobody_waits() -> None:
    slots: Slots[str] = Slots()
    told: list[str] = []

    async def want() -> None:
        try:
            await slots.acquire()
        except NoWorkers as error:
            told.append(str(error))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(want)
            tasks.start_soon(want)
            await anyio.wait_all_tasks_blocked()
            slots.give_up("no node")
        await want()
    assert told == ["no node"] * 3
    slots.add("after all", 1)
    assert await slots.acquire() == "after all"


async def test_who_wants_a_certain_worker_waits_for_that_and_holds_up_nobody() -> None:
    slots: Slots[str] = Slots()
    got: dict[str, str] = {}

    async def want(who: str, only: str | None) -> None:
        got[who] = await slots.acquire(None if only is None else lambda worker: worker == only)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for who, only in (("first", "rare"), ("second", None), ("third", "rare"), ("fourth", None)):
                tasks.start_soon(want, who, only)
                await anyio.wait_all_tasks_blocked()
            slots.add("common", 1)
            await anyio.wait_all_tasks_blocked()
            assert got == {"second": "common"}
            slots.add("rare", 1)
            await anyio.wait_all_tasks_blocked()
            assert got == {"second": "common", "first": "rare"}, "who has waited longest comes first"
            slots.release("rare")
            await anyio.wait_all_tasks_blocked()
            assert got["third"] == "rare"
            slots.release("common")
    assert got == {"first": "rare", "second": "common", "third": "rare", "fourth": "common"}


async def test_who_gives_up_waiting_for_a_certain_worker_takes_nothing() -> None:
    slots: Slots[str] = Slots()
    slots.add("common", 1)
    with anyio.move_on_after(0.01) as patience:
        await slots.acquire(lambda worker: worker == "rare")
    assert patience.cancelled_caught
    assert slots.waiting == 0
    assert await slots.acquire() == "common"
