"""Many at a time: none stops the others, the run ends by its deadline, and a stopped one leaves nothing."""

from __future__ import annotations

import logging
import time
from typing import Any

import anyio
import pytest

from swe_sdk.agents.contract import AgentEnd, Episode
from swe_sdk.agents.scripted import ScriptedAgent, Wait
from swe_sdk.errors import InputError, NoSpace
from swe_sdk.model.budget import Budget
from swe_sdk.rollouts.live import LiveRollouts
from swe_sdk.rollouts.many import Planned, plan, run_many
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.rollouts.settings import RunLimits
from swe_sdk.testing.faults import Fault
from tests.rollouts.world import (
    QUICK,
    FakeVerifier,
    FunctionAgent,
    MemoryJournal,
    answer,
    leaks,
    make_provider,
    make_task,
)

pytestmark = pytest.mark.anyio
TASKS = [make_task(f"fake__task-{number}") for number in range(4)]


async def test_every_task_has_its_samples_and_results_their_order() -> None:
    journal, told = MemoryJournal(), list[RolloutResult]()
    results = await run_many(
        TASKS,
        answer(),
        samples=2,
        provider=make_provider(),
        settings=QUICK,
        verifier=FakeVerifier(),
        journal=journal,
        on_result=told.append,
    )
    wanted = [f"fake__task-{number}.{sample}" for sample in range(2) for number in range(4)]
    assert [result.rollout_id for result in results] == wanted
    assert (results.unfinished, results.stopped) == ((), None)
    assert sorted(result.rollout_id for result in told) == sorted(wanted)
    assert journal.kinds["rollout_queued"] == journal.kinds["rollout_ended"] == 8
    assert [event.kind for event in journal.events[:8]] == ["rollout_queued"] * 8
    journal.check()


async def test_an_environment_is_prepared_once_for_all_of_its_rollouts() -> None:
    provider = make_provider()
    await run_many(TASKS, answer(), samples=5, provider=provider, settings=QUICK, verifier=FakeVerifier())
    assert provider.calls["snapshot"] == 1
    assert provider.calls["create"] == 1 + 20


async def test_no_more_run_at_once_than_is_allowed() -> None:
    running, most = 0, 0

    async def work(episode: Episode) -> AgentEnd:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        await anyio.sleep(0.01)
        running -= 1
        return AgentEnd()

    for limits, wanted in ((RunLimits(episodes=3), 3), (RunLimits(episodes=5, boxes=2), 2)):
        most = 0
        provider = make_provider()
        results = await run_many(
            TASKS,
            FunctionAgent(work),
            samples=3,
            provider=provider,
            settings=QUICK,
            verifier=FakeVerifier(),
            limits=limits,
        )
        assert (most, len(results)) == (wanted, 12)


async def test_boxes_are_made_no_faster_than_is_allowed() -> None:
    provider = make_provider(Fault(op="create", nth=None, match='"rollout"', delay_s=0.05))
    begin = time.monotonic()
    results = await run_many(
        TASKS,
        answer(),
        provider=provider,
        settings=QUICK,
        verifier=FakeVerifier(),
        limits=RunLimits(episodes=4, creates=1),
    )
    assert time.monotonic() - begin > 0.2
    assert [result.outcome.status for result in results] == ["resolved"] * 4
    assert max(result.budget.spent_s for result in results) >= 0.05


async def test_one_that_fails_stops_no_other() -> None:
    async def work(episode: Episode) -> AgentEnd:
        if episode.task.instance_id.endswith("1"):
            raise RuntimeError("only me")
        return AgentEnd()

    results = await run_many(
        TASKS, FunctionAgent(work), provider=make_provider(), settings=QUICK, verifier=FakeVerifier()
    )
    assert [result.outcome.status for result in results] == ["unresolved", "masked", "unresolved", "unresolved"]


async def test_a_run_ends_by_its_deadline(caplog: pytest.LogCaptureFixture) -> None:
    provider, journal = make_provider(), MemoryJournal()
    agent = ScriptedAgent(actions=(Wait(seconds=60),))
    settings = QUICK.model_copy(update={"agent_timeout_s": None})
    begin = time.monotonic()
    with caplog.at_level(logging.WARNING):
        results = await run_many(
            TASKS,
            agent,
            provider=provider,
            settings=settings,
            verifier=FakeVerifier(),
            journal=journal,
            deadline_s=0.3,
            limits=RunLimits(episodes=2),
        )
    assert time.monotonic() - begin < 1.5
    assert (list(results), results.stopped) == ([], "deadline")
    assert results.unfinished == tuple(f"fake__task-{number}.0" for number in range(4))
    assert provider.live == ()
    assert [event.reason for event in journal.of("attempt_ended")] == ["cancelled"] * 2
    assert journal.kinds["rollout_ended"] == 0
    journal.check(cancelled=True)
    assert "0 of 4 rollouts are finished" in caplog.text


async def test_a_cancelled_run_leaves_nothing() -> None:
    for delay_s in (0.0, 0.002, 0.01, 0.03, 0.06):
        provider, journal, live = make_provider(), MemoryJournal(), LiveRollouts()
        agent = ScriptedAgent(actions=(*answer().actions, Wait(seconds=0.02)))
        with anyio.move_on_after(delay_s):
            await run_many(
                TASKS,
                agent,
                samples=3,
                provider=provider,
                settings=QUICK,
                verifier=FakeVerifier(),
                journal=journal,
                live=live,
            )
        assert leaks(provider) == []
        assert len(live) == 0


async def test_a_full_disk_stops_the_run_and_wastes_no_rollout() -> None:
    provider = make_provider(Fault(op="create", nth=3, error=NoSpace("full")))
    results = await run_many(
        TASKS, answer(), provider=provider, settings=QUICK, verifier=FakeVerifier(), limits=RunLimits(episodes=1)
    )
    assert [result.outcome.status for result in results] == ["resolved", "masked"]
    assert (results.stopped, results.unfinished) == ("no_space", ("fake__task-2.0", "fake__task-3.0"))


async def test_an_error_of_the_callers_own_ends_the_run_as_itself() -> None:
    provider = make_provider()

    def complain(result: RolloutResult) -> None:
        raise KeyError(result.rollout_id)

    with pytest.raises(KeyError):
        await run_many(TASKS, answer(), provider=provider, settings=QUICK, verifier=FakeVerifier(), on_result=complain)
    assert leaks(provider) == []


async def test_what_is_planned_goes_on_where_it_says() -> None:
    journal = MemoryJournal()
    planned = [Planned(TASKS[0], sample=2, attempt=3, budget=Budget(total_s=50, spent_s=20)), TASKS[1]]
    results = await run_many(
        planned, answer(), provider=make_provider(), settings=QUICK, verifier=FakeVerifier(), journal=journal
    )
    assert [(result.rollout_id, result.attempt) for result in results] == [("fake__task-0.2", 3), ("fake__task-1.0", 1)]
    assert results[0].budget.spent_s > 20
    assert results[1].budget.total_s is None


async def test_results_need_not_be_kept() -> None:
    told: list[Any] = []
    results = await run_many(
        TASKS,
        "noop",
        provider=make_provider(),
        settings=QUICK,
        verifier=FakeVerifier(),
        on_result=told.append,
        keep_results=False,
    )
    assert (list(results), len(told), results.unfinished) == ([], 4, ())


async def test_no_rollout_is_there_twice() -> None:
    with pytest.raises(InputError, match=r"fake__task-0\.0"):
        await run_many([TASKS[0], TASKS[0]], "noop", provider=make_provider())
    assert [each.rollout_id for each in plan(TASKS[:1], 2)] == ["fake__task-0.0", "fake__task-0.1"]


async def test_what_cannot_be_built_is_tried_once() -> None:
    from swe_sdk.errors import BuildFailed

    provider = make_provider(Fault(op="snapshot", nth=None, error=BuildFailed("scrub the history", "no")))
    results = await run_many(TASKS, answer(), provider=provider, settings=QUICK, verifier=FakeVerifier())
    assert {result.outcome.mask.kind for result in results if result.outcome.mask} == {"environment_failed"}
    assert provider.calls["snapshot"] == 1
