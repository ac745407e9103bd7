"""A rollout can stand still at every boundary, is charged nothing there, and goes on from a bookmark elsewhere."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from swe_sdk.agents.contract import AgentEnd, Episode
from swe_sdk.agents.scripted import Exec, ScriptedAgent, Wait, Write
from swe_sdk.model.budget import Budget
from swe_sdk.model.patch import Patch
from swe_sdk.rollouts.bookmark import Bookmark
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.rollouts.live import LiveRollout, LiveRollouts
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.testing.fake import FakeProvider
from swe_sdk.testing.faults import Fault
from tests.rollouts.world import (
    ANSWER,
    QUICK,
    WORKS,
    Clock,
    FakeVerifier,
    MemoryJournal,
    answer,
    make_provider,
    make_task,
)

pytestmark = pytest.mark.anyio
TASK = make_task()
ROLLOUT = "fake__task-1.0"


def slow_provider() -> FakeProvider:
    """Boxes slow enough that whoever asks to park is never late for a boundary."""
    return make_provider(*(Fault(op=op, nth=None, delay_s=0.005) for op in ("exec", "read", "write", "close")))


def slow_verifier() -> FakeVerifier:
    return FakeVerifier(lambda: anyio.sleep(0.005))


class Lingering(ScriptedAgent):
    """Takes a moment after its last boundary."""

    async def run(self, episode: Episode) -> AgentEnd:
        end = await super().run(episode)
        await anyio.sleep(0.005)
        return end


class Parked:
    """Parks a rollout at every boundary, and notes where it stood."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.live = LiveRollouts()
        self.stood: list[Bookmark] = []
        self._clock = clock

    async def drive(self) -> None:
        while (rollout := self.live.get(ROLLOUT)) is None:
            await anyio.sleep(0)
        while True:
            rollout.request_park()
            self.stood.append(await rollout.wait_parked())
            assert rollout.is_parked
            if self._clock:
                self._clock.now += 1000
            rollout.resume()
            await anyio.sleep(0)


async def run_parked(parked: Parked, agent: Any, **options: Any) -> RolloutResult:
    async with anyio.create_task_group() as group:
        group.start_soon(parked.drive)
        result = await run_rollout(
            TASK, agent, provider=slow_provider(), settings=QUICK, verifier=slow_verifier(), live=parked.live, **options
        )
        group.cancel_scope.cancel()
    return result


async def test_it_stands_at_every_boundary_and_time_stands_with_it() -> None:
    clock, journal = Clock(), MemoryJournal()
    parked = Parked(clock)
    agent = Lingering(actions=answer().actions)
    result = await run_parked(parked, agent, clock=clock, journal=journal, budget=Budget(total_s=60))
    assert result.outcome.status == "resolved"
    nexts = [bookmark.next for bookmark in parked.stood]
    assert nexts == ["invoke_agent"] * 4 + ["close_agent", "verify", "return"], "before the agent, after each action"
    assert [bookmark.agent_state for bookmark in parked.stood[:4]] == [None, {"done": 1}, {"done": 2}, {"done": 3}]
    assert result.budget == Budget(total_s=60, spent_s=0, parked_s=7000)
    assert journal.kinds["rollout_parked"] == journal.kinds["rollout_unparked"] == 7
    assert parked.stood[-1].outcome is not None
    assert parked.stood[-2].patch == Patch(data=b"42")
    assert all(Bookmark.model_validate_json(each.model_dump_json()) == each for each in parked.stood)


async def test_deadlines_stand_still() -> None:
    live = LiveRollouts()

    async def park_for_long() -> None:
        while (rollout := live.get(ROLLOUT)) is None or rollout.stage != "invoke_agent":
            await anyio.sleep(0.001)
        rollout.request_park()
        await rollout.wait_parked()
        await anyio.sleep(0.5)
        rollout.resume()

    agent = ScriptedAgent(actions=(Wait(seconds=0.15), Write(path=ANSWER, content="42")))
    async with anyio.create_task_group() as group:
        group.start_soon(park_for_long)
        result = await run_rollout(
            TASK, agent, provider=make_provider(), settings=QUICK, verifier=FakeVerifier(), live=live
        )
    assert (result.outcome.status, result.outcome.flags) == ("resolved", ())
    assert result.budget.parked_s >= 0.5
    assert result.last.stages_s["invoke_agent"] < 0.3


async def test_a_parked_rollout_can_be_stopped() -> None:
    live, provider = LiveRollouts(), make_provider()
    async with anyio.create_task_group() as group:

        async def stop_it() -> None:
            while (rollout := live.get(ROLLOUT)) is None:
                await anyio.sleep(0)
            rollout.request_park()
            await rollout.wait_parked()
            group.cancel_scope.cancel()

        group.start_soon(stop_it)
        await run_rollout(TASK, answer(), provider=provider, settings=QUICK, verifier=FakeVerifier(), live=live)
    assert provider.live == ()
    assert len(live) == 0


@pytest.mark.parametrize("following", ["invoke_agent", "close_agent", "verify", "return"])
async def test_it_goes_on_elsewhere_from_where_it_stood(following: str) -> None:
    """Killed at a boundary, with its box frozen there: what was done is not done again."""
    provider, live, verifier = slow_provider(), LiveRollouts(), slow_verifier()
    saved: list[Bookmark] = []
    agent = ScriptedAgent(
        actions=(Write(path=ANSWER, content="4"), Exec(command=WORKS), Write(path="/testbed/x", content=""))
    )

    async def save_and_kill(scope: anyio.CancelScope) -> None:
        while (rollout := live.get(ROLLOUT)) is None:
            await anyio.sleep(0)
        while True:
            rollout.request_park()
            bookmark = await rollout.wait_parked()
            if bookmark.next == following and (following != "invoke_agent" or bookmark.agent_state == {"done": 2}):
                saved.append(bookmark.model_copy(update={"snapshot": await freeze(provider, rollout)}))
                scope.cancel()
            rollout.resume()
            await anyio.sleep(0)

    budget = Budget(total_s=100)
    async with anyio.create_task_group() as group:
        group.start_soon(save_and_kill, group.cancel_scope)
        await run_rollout(TASK, agent, provider=provider, settings=QUICK, verifier=verifier, live=live, budget=budget)
    (bookmark,) = saved
    worked, graded = sum(call.subject == WORKS for call in provider.log), len(verifier.patches)
    result = await run_rollout(
        TASK,
        agent,
        provider=provider,
        settings=QUICK,
        verifier=verifier,
        start=bookmark,
        attempt=bookmark.attempt + 1,
        budget=bookmark.budget,
    )
    assert (result.outcome.status, result.attempt, result.patch.data) == ("unresolved", 2, b"4")
    assert result.last.end == AgentEnd(message="followed 3 actions")
    assert result.budget.spent_s >= bookmark.budget.spent_s
    assert sum(call.subject == WORKS for call in provider.log) == worked, "the action before the boundary"
    assert len(verifier.patches) == graded + (following != "return")
    assert provider.live == ()


async def freeze(provider: Any, rollout: LiveRollout) -> str | None:
    return None if rollout.box is None else (await provider.snapshot(rollout.box)).id
