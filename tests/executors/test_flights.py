"""The actor that makes equal jobs of several drivers run once; it needs no Ray to be one."""

from __future__ import annotations

import anyio
import pytest

from swe_sdk.executors.ray.flights import Flights

pytestmark = pytest.mark.anyio


async def test_the_first_one_runs_it_and_the_others_get_the_result() -> None:
    flights = Flights()
    got: list[str | None] = []

    async def claim(holder: str) -> None:
        got.append(await flights.claim("key", holder))

    assert await flights.claim("key", "one") is None
    assert await flights.claim("another key", "two") is None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(claim, "two")
        tasks.start_soon(claim, "three")
        await anyio.wait_all_tasks_blocked()
        await flights.land("key", "one", "the result")
    assert got == ["the result"] * 2
    assert await flights.claim("key", "four") is None, "results are not kept"


@pytest.mark.parametrize("how", ["no result", "it leaves", "it is dead"])
async def test_where_the_holder_gives_up_one_of_those_who_wait_runs_it(how: str) -> None:
    flights = Flights(ttl_s=0.2)
    got: list[str | None] = []

    async def claim(holder: str) -> None:
        got.append(await flights.claim("key", holder))
        if got[-1] is None:
            await flights.renew(holder)
            await anyio.sleep(0.05)
            await flights.land("key", holder, "second result")

    assert await flights.claim("key", "one") is None
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(claim, "two")
            tasks.start_soon(claim, "three")
            await anyio.wait_all_tasks_blocked()
            if how == "no result":
                await flights.land("key", "one", None)
            elif how == "it leaves":
                await flights.leave("one")
    assert sorted(got, key=str) == [None, "second result"]


async def test_one_that_was_taken_for_dead_cannot_land_for_another() -> None:
    flights = Flights(ttl_s=0.05)
    assert await flights.claim("key", "one") is None
    await anyio.sleep(0.1)
    assert await flights.claim("key", "two") is None
    await flights.land("key", "one", "too late")
    with anyio.move_on_after(0.02) as scope:
        await flights.claim("key", "three")
    assert scope.cancelled_caught, "it waits for the second one"
