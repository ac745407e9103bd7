"""Held for a checkpoint: nothing new is delivered, nothing undelivered counts, and what is dropped comes again."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import anyio
import httpx
import pytest

from swe_sdk.agents.gateway.settings import ModelAllowance
from swe_sdk.testing import fail, say
from tests.agents.gateway.gates import QUICK, USER, Bench, bench, client_of

pytestmark = pytest.mark.anyio


class Asker:
    """Calls in the background; what became of each, by its name."""

    def __init__(self, b: Bench, tasks: anyio.abc.TaskGroup, client: httpx.AsyncClient | None = None) -> None:
        self._b, self._tasks, self._client = b, tasks, client or b.client
        self.ends: dict[str, str] = {}

    def ask(self, name: str, **body: object) -> None:
        self._tasks.start_soon(self._ask, name, body)

    async def _ask(self, name: str, body: dict[str, object]) -> None:
        asked = {"model": "scripted", "messages": [{"role": "user", "content": name}], **body}
        try:
            answer = await self._client.post("/chat/completions", json=asked)
            self.ends[name] = str(answer.status_code)
        except httpx.TransportError:
            self.ends[name] = "cut"

    async def ended(self, count: int) -> dict[str, str]:
        """What became of its calls, once so many have ended: the gateway has done with a call before its caller has."""
        with anyio.fail_after(10):
            while len(self.ends) < count:
                await anyio.sleep(0.005)
        return self.ends


async def until_states(b: Bench, *states: str) -> None:
    with anyio.fail_after(10):
        while sorted(call.state for call in b.gateway.calls()) != sorted(states):
            await anyio.sleep(0.005)


async def test_a_new_call_waits_and_goes_on(tmp_path: Path) -> None:
    async with bench([say("x")], tmp_path) as b, anyio.create_task_group() as tasks:
        asker = Asker(b, tasks)
        b.gateway.hold()
        b.gateway.hold()  # twice is once
        asker.ask("a")
        await until_states(b, "held")
        await anyio.sleep(0.3)
        assert b.model.calls == ()
        assert b.session.awaiting_model
        assert await b.gateway.quiet() == ()
        (view,) = b.gateway.calls("task__a-1.0")
        assert (view.rollout_id, view.attempt, view.route, view.is_delivered) == (
            "task__a-1.0",
            1,
            "/chat/completions",
            False,
        )
        assert 0.25 < view.held_s <= view.seconds
        assert b.gateway.calls("another") == ()
        b.gateway.release()
        await until_states(b)
        assert await asker.ended(1) == {"a": "200"}
        (call,) = b.ledger.calls
        assert call.held_s >= 0.3
        assert call.seconds < 0.3, "time in the hold is not the model's"
        assert not b.session.awaiting_model


async def test_an_answer_that_comes_during_a_hold_is_held_back(tmp_path: Path) -> None:
    """Also one that is an error, also a stream: the agent sees its first byte after the release."""
    script = {"scripted": [say("x", gate="g", before=(fail(500, delay_s=0.2),))]}
    async with bench(script, tmp_path) as b, anyio.create_task_group() as tasks:
        asker = Asker(b, tasks)
        asker.ask("a", stream=True)
        await b.model.wait_for_async(1)
        b.gateway.hold()
        await until_states(b, "answered")  # the error
        assert b.session.awaiting_model
        assert b.ledger.calls == []
        assert b.session.trouble is None
        b.gateway.release()
        await until_states(b)
        assert b.session.trouble is not None
        asker.ask("a", stream=True)
        await b.model.wait_for_async(2)
        b.gateway.hold()
        b.model.open_gate("g")
        await until_states(b, "answered")
        assert [row.status for row in b.ledger.calls] == [500]
        b.gateway.release()
        await until_states(b)
        assert [row.status for row in b.ledger.calls] == [500, 200]
        assert b.session.trouble is None


async def test_only_a_response_that_is_being_delivered_blocks(tmp_path: Path) -> None:
    async with bench([say("a b c d e f", chunk_delay_s=0.1)], tmp_path) as b, anyio.create_task_group() as tasks:
        asker = Asker(b, tasks)
        asker.ask("a", stream=True)
        await until_states(b, "delivering")
        b.gateway.hold()
        asker.ask("b")
        await until_states(b, "delivering", "held")
        assert not b.session.awaiting_model
        (blocker,) = await b.gateway.quiet(timeout_s=0.1)
        assert blocker.state == "delivering"
        assert b.gateway.drop() == 1, "the one that is being delivered is not dropped"
        assert await b.gateway.quiet(timeout_s=10) == ()
        assert await asker.ended(2) == {"a": "200", "b": "cut"}
        assert [call.end for call in b.ledger.calls] == ["delivered"]


async def test_dropped_calls_leave_nothing_and_come_again(tmp_path: Path) -> None:
    """One that was at the endpoint, and one that was not; after a restore they are charged once."""
    allowance = ModelAllowance(calls=2)
    async with bench([say("x", gate="g")], tmp_path, allowance=allowance) as b, anyio.create_task_group() as tasks:
        asker = Asker(b, tasks)
        asker.ask("sent")
        await b.model.wait_for_async(1)
        b.gateway.hold()
        asker.ask("new")
        await until_states(b, "held", "sent")
        assert b.gateway.drop() == 2
        await until_states(b)
        await b.model.wait_for_async(lambda calls: calls[0].end == "broken")  # the endpoint does not work for nobody
        assert await asker.ended(2) == {"sent": "cut", "new": "cut"}
        assert b.ledger.calls == []
        assert b.session.usage.calls == 0
        b.model.open_gate("g")
        async with b.gateway.session("task__a-1.0", 2, allowance=allowance, used=b.session.usage) as again:
            async with client_of(b.gateway, again) as client:
                restored = Asker(b, tasks, client)
                restored.ask("sent")
                restored.ask("new")
                await until_states(b, "held", "held")
                b.gateway.release()
                await until_states(b)
                assert await restored.ended(2) == {"sent": "200", "new": "200"}
        assert again.is_spent
        assert sorted((row.attempt, row.n) for row in b.ledger.calls) == [(2, 1), (2, 2)]
        assert sorted(played.request.texts[0] for played in b.model.requests[1:] if played.request) == ["new", "sent"]


async def test_one_session_is_held_by_itself(tmp_path: Path) -> None:
    async with bench([say("x")], tmp_path) as b, b.gateway.session("other.0") as other:
        async with client_of(b.gateway, other) as client, anyio.create_task_group() as tasks:
            b.session.hold()
            held, free = Asker(b, tasks), Asker(b, tasks, client)
            held.ask("a")
            free.ask("b")
            await until_states(b, "held")
            assert await free.ended(1) == {"b": "200"}
            assert b.session.awaiting_model
            assert not other.awaiting_model
            b.gateway.hold()
            b.gateway.release()
            await anyio.sleep(0.05)
            assert held.ends == {}, "its own hold goes on"
            assert b.session.drop() == 1
            b.session.release()
        assert await held.ended(1) == {"a": "cut"}


async def test_held_calls_take_no_turn_from_others(tmp_path: Path) -> None:
    settings = QUICK.model_copy(update={"max_calls": 1})
    async with bench([say("x")], tmp_path, settings=settings) as b, b.gateway.session("other.0") as other:
        async with client_of(b.gateway, other) as client, anyio.create_task_group() as tasks:
            b.session.hold()
            Asker(b, tasks).ask("a")
            await until_states(b, "held")
            with anyio.fail_after(5):
                body = {"model": "scripted", "messages": [USER]}
                assert (await client.post("/chat/completions", json=body)).status_code == 200
            b.session.release()


async def test_a_hundred_held_calls(tmp_path: Path) -> None:
    """Of fifty rollouts; half are dropped, and none of the others is lost, repeated or slow to go on."""
    async with bench([say("x")], tmp_path) as b, anyio.create_task_group() as tasks:
        async with anyio.create_task_group(), _Many(b, 50) as sessions:
            b.gateway.hold()
            askers = [Asker(b, tasks, client) for _session, client in sessions]
            for asker in askers:
                asker.ask("one")
                asker.ask("two", stream=True)
            await until_states(b, *["held"] * 100)
            assert all(session.awaiting_model for session, _client in sessions)
            assert sum(session.drop() for session, _client in sessions[:25]) == 50
            await until_states(b, *["held"] * 50)
            assert b.model.calls == ()
            released = time.monotonic()
            b.gateway.release()
            await until_states(b)
            took_s = time.monotonic() - released
            assert [await asker.ended(2) for asker in askers[:25]] == [{"one": "cut", "two": "cut"}] * 25
            assert [await asker.ended(2) for asker in askers[25:]] == [{"one": "200", "two": "200"}] * 25
            assert len(b.model.requests) == len(b.ledger.calls) == 50
            assert took_s < 5


class _Many:
    def __init__(self, b: Bench, count: int) -> None:
        self._b, self._count = b, count

    async def __aenter__(self) -> list[tuple[object, httpx.AsyncClient]]:
        from contextlib import AsyncExitStack

        self._stack = AsyncExitStack()
        pairs = []
        for number in range(self._count):
            session = await self._stack.enter_async_context(self._b.gateway.session(f"many.{number}"))
            client = await self._stack.enter_async_context(client_of(self._b.gateway, session))
            pairs.append((session, client))
        return pairs

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()


async def test_a_client_that_gives_up_in_a_hold_is_forgotten(tmp_path: Path) -> None:
    async with bench([say("x")], tmp_path) as b:
        b.gateway.hold()
        with anyio.move_on_after(0.2):
            await b.ask()
        await until_states(b)
        b.gateway.release()
        assert b.model.calls == ()
        assert b.ledger.calls == []


async def test_a_session_that_ends_breaks_off_its_calls(tmp_path: Path) -> None:
    async with bench([say("x", gate="g")], tmp_path) as b, anyio.create_task_group() as tasks:
        async with b.gateway.session("short.0") as session:
            async with client_of(b.gateway, session) as client:
                asker = Asker(b, tasks, client)
                asker.ask("a")
                await b.model.wait_for_async(1)
                started = time.monotonic()
                session_ends = session
        assert time.monotonic() - started < 5
        assert session_ends.calls == ()
        assert b.gateway.calls() == ()
        assert await asker.ended(1) == {"a": "cut"}


async def test_a_request_that_waits_when_its_session_ends_is_not_made(tmp_path: Path) -> None:
    """Its key was good when it came; by the time it has its turn, it is not."""
    settings = QUICK.model_copy(update={"calls_per_rollout": 1})
    async with bench([say("x", gate="g")], tmp_path, settings=settings) as b, anyio.create_task_group() as tasks:
        async with b.gateway.session("short.0") as session:
            client = client_of(b.gateway, session)
            asker = Asker(b, tasks, client)
            for name in ("first", "second", "third"):
                asker.ask(name)
            await b.model.wait_for_async(1)
            await anyio.sleep(0.1)
        assert sorted((await asker.ended(3)).values()) == ["401", "401", "cut"]
        await client.aclose()
        assert len(b.model.calls) == 1


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_happens_every_delivered_call_is_in_the_ledger_once(tmp_path: Path, seed: int) -> None:
    """Holds, releases, drops and clients that hang up, at random: the ledger has what the agents saw, and only that."""
    chance = random.Random(seed)
    script = {"scripted": [say("a b c", chunk_delay_s=0.005, delay_s=0.01)]}
    async with bench(script, tmp_path) as b:
        seen: list[str] = []
        dropped = 0

        async def agent(number: int) -> None:
            for n in range(6):
                name = f"{number}.{n}"
                with anyio.move_on_after(chance.choice([0.02, 10])):
                    try:
                        answer = await b.ask(messages=[{"role": "user", "content": name}], stream=chance.random() < 0.5)
                        assert answer.status_code == 200
                        seen.append(name)
                    except httpx.TransportError:
                        pass  # dropped

        async def coordinator() -> None:
            nonlocal dropped
            while True:
                await anyio.sleep(chance.random() * 0.05)
                b.gateway.hold()
                assert await b.gateway.quiet(timeout_s=10) == ()
                rows = len(b.ledger.calls)
                await anyio.sleep(chance.random() * 0.05)
                assert len(b.ledger.calls) == rows, "something was delivered during the hold"
                dropped += b.gateway.drop() if chance.random() < 0.4 else 0
                b.gateway.release()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(coordinator)
            async with anyio.create_task_group() as agents:
                for number in range(6):
                    agents.start_soon(agent, number)
            tasks.cancel_scope.cancel()
        b.gateway.release()
        await until_states(b)
        rows = [(row, json.loads(b.ledger.body(row, "request").read_bytes())) for row in b.ledger.calls]
        whole = sorted(asked["messages"][0]["content"] for row, asked in rows if row.end == "delivered")
        assert set(seen) <= set(whole)
        assert len(whole) == len(set(whole))
        assert {row.end for row, _asked in rows} <= {"delivered", "client_gone"}
        assert b.session.usage.calls == len(rows)
        assert sorted(row.n for row, _asked in rows) == list(range(1, len(rows) + 1))


async def test_an_agent_that_asks_for_it_stands_at_its_next_call(tmp_path: Path) -> None:
    """The block begins once a call waits, and not before; nothing of the answer is delivered until it is left."""
    async with bench([say("x", delay_s=0.2), say("y")], tmp_path) as b, anyio.create_task_group() as tasks:
        asker, seen = Asker(b, tasks), list[str]()

        async def park() -> None:
            async with b.session.held_at_call():
                seen.append("stands")
                await anyio.sleep(0.5)
                seen.append("goes on")

        tasks.start_soon(park)
        await anyio.sleep(0.2)
        assert seen == [], "no call is under way"
        b.gateway.release()  # that is another's hold, and not this one
        asker.ask("a")
        await until_states(b, "held")
        await anyio.sleep(0.3)
        assert (seen, asker.ends) == (["stands"], {})
        await until_states(b)
        assert await asker.ended(1) == {"a": "200"}
        assert seen == ["stands", "goes on"]
        assert not b.session.parking.is_held


async def test_who_is_cancelled_while_it_waits_for_a_call_holds_nothing(tmp_path: Path) -> None:
    async with bench([say("x")], tmp_path) as b, anyio.create_task_group() as tasks:
        with anyio.move_on_after(0.1):
            async with b.session.held_at_call():
                raise AssertionError("no call waits")
        asker = Asker(b, tasks)
        asker.ask("a")
        assert await asker.ended(1) == {"a": "200"}
