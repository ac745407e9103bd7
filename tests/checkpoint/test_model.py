"""The model participant, in front of calls of this process and of the real HTTP gateway."""

from __future__ import annotations

import time
from pathlib import Path

import anyio
import pytest

from swe_sdk.checkpoint import CallGate, ModelParticipant
from swe_sdk.checkpoint.messages import PrepareRequest, ResumeRequest
from swe_sdk.testing import say
from tests.agents.gateway.gates import bench
from tests.checkpoint.house import commit, ep, prepare, refused, restore, resume, retire, saved, settled
from tests.checkpoint.virtual import clock, simulated


@simulated
async def test_new_calls_are_refused_and_admitted_ones_are_held_and_not_in_the_ledger(tmp_path: Path) -> None:
    gate = CallGate()
    async with ModelParticipant(gate=gate, rows=gate.rows, clock=clock) as house, anyio.create_task_group() as tasks:
        done: list[str] = []

        async def call(name: str, seconds: float, *, wait: bool = False) -> None:
            async with gate.call(ep("r"), wait=wait) as one:
                await anyio.sleep(seconds)
                await one.deliver({"call": name})
                done.append(name)

        await call("before", 0)
        tasks.start_soon(call, "in flight", 5)
        await settled()
        assert (await prepare(house)).report.counts == {"held": 1, "delivering": 0}
        with refused("admission_closed"):
            await call("new", 0)
        tasks.start_soon(lambda: call("patient", 0, wait=True))
        await anyio.sleep(10)
        await commit(house, tmp_path)
        (record,) = saved(house, tmp_path)
        assert (record.episode_id, record.rows) == (ep("r"), [{"call": "before"}])
        assert done == ["before"]
        await resume(house)
        await settled()
        assert done == ["before", "in flight", "patient"]
    gate = CallGate()
    async with ModelParticipant(gate=gate, rows=gate.rows, clock=clock) as house:
        await restore(house, tmp_path, [ep("r")])
        await resume(house)
        async with gate.call(ep("r", 2)) as one:
            await one.deliver({"call": "again"})
        assert gate.rows.captured() == {ep("r", 2): [{"call": "before"}, {"call": "again"}]}
        await retire(house, ep("r", 2))
        assert gate.rows.captured() == {}


@simulated
async def test_a_retire_that_comes_late_breaks_off_no_call_of_the_next_attempt() -> None:
    gate = CallGate()
    async with ModelParticipant(gate=gate, rows=gate.rows, clock=clock) as house, anyio.create_task_group() as tasks:
        done: list[int] = []

        async def call(attempt: int) -> None:
            async with gate.call(ep("r", attempt)) as one:
                await anyio.sleep(5)
                await one.deliver({"attempt": attempt})
                done.append(attempt)

        tasks.start_soon(call, 2)
        await settled()
        await retire(house, ep("r"), seconds=1)
        await retire(house, ep("r"), seconds=1)
        await anyio.sleep(10)
    assert done == [2]
    assert gate.rows.captured() == {ep("r", 2): [{"attempt": 2}]}


@simulated
async def test_only_a_reply_that_is_being_delivered_blocks() -> None:
    gate = CallGate()
    async with ModelParticipant(gate=gate, rows=gate.rows, clock=clock) as house, anyio.create_task_group() as tasks:

        async def streams() -> None:
            async with gate.call(ep("r")) as one:
                await one.deliver({"call": 1})
                await anyio.sleep(5)

        tasks.start_soon(streams)
        await settled()
        started = anyio.current_time()
        assert (await prepare(house)).report.ready
        assert anyio.current_time() - started == pytest.approx(5, abs=0.1)
        await resume(house)


@pytest.mark.anyio
async def test_the_http_gateway_is_held_and_goes_on(tmp_path: Path) -> None:
    script = {"scripted": [say("hello", gate="g")]}
    async with bench(script, tmp_path) as b, ModelParticipant(gate=b.gateway) as house:
        answers: list[int] = []

        async def ask() -> None:
            asked = {"model": "scripted", "messages": [{"role": "user", "content": "x"}]}
            answers.append((await b.client.post("/chat/completions", json=asked)).status_code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            with anyio.fail_after(10):
                while not any(call.state == "sent" for call in b.gateway.calls()):
                    await anyio.sleep(0.005)
            request = PrepareRequest(checkpoint_id="c1", deadline_ts=time.time() + 10)
            report = (await house.prepare(request)).report
            assert report.ready
            assert report.counts == {"held": 1, "delivering": 0}
            b.model.open_gate("g")
            with anyio.fail_after(10):
                while not any(call.state == "answered" for call in b.gateway.calls()):
                    await anyio.sleep(0.005)
            assert answers == []
            assert b.ledger.calls == [], "what was not delivered is not in the ledger"
            await house.resume(ResumeRequest(checkpoint_id="c1", deadline_ts=time.time() + 10))
        assert answers == [200]
        assert len(b.ledger.calls) == 1
