"""The episode participant: steps, bookmarks, deadlines and budgets (CK-3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.checkpoint import EpisodeParticipant
from swe_sdk.checkpoint.messages import ForgetRequest
from swe_sdk.checkpoint.participants.episode import Episode
from swe_sdk.checkpoint.records import EpisodeRecord
from tests.checkpoint.house import commit, ep, prepare, refused, restore, resume, retire, saved, settled, within
from tests.checkpoint.virtual import clock, simulated

TASK = {"instance_id": "a"}


async def run_turn(
    house: EpisodeParticipant, one: Any, *, total_s: float | None, work_s: float, seen: list[Episode], task: Any = TASK
) -> None:
    """Seed for a moment, then work in a replay step, then wait to close."""
    async with house.episode(one, task=task, total_s=total_s) as episode:
        seen.append(episode)
        if episode.take_continuation() is None:
            await episode.boundary({"next": "invoke_agent"})
        async with episode.step("replay"):
            await anyio.sleep(work_s)
        await episode.boundary({"next": "close_agent"})
        async with episode.step("wait"):
            await anyio.sleep(1)


@simulated
async def test_ck3_what_is_spent_is_sampled_at_the_cut_and_a_restored_episode_gets_only_the_rest(
    tmp_path: Path,
) -> None:
    seen: list[Episode] = []
    async with EpisodeParticipant(clock=clock) as house, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: run_turn(house, ep("r"), total_s=30, work_s=1000, seen=seen))
        await anyio.sleep(20)
        assert (await prepare(house)).report.ready
        await anyio.sleep(7)  # parked: not charged
        await commit(house, tmp_path)
        (record,) = saved(house, tmp_path)
        assert record.budget_spent_s == pytest.approx(20, abs=0.05)
        assert record.boundary == {"next": "invoke_agent"}, "the saved stage is not advanced"
        budget = seen[0].budget
        assert budget.parked_s == pytest.approx(7, abs=0.05)
        assert budget.spent_s + (budget.remaining_s or 0) == pytest.approx(30, abs=0.05)
        await resume(house)
        await anyio.sleep(9.9)
        assert seen[0].ended_by is None
        await anyio.sleep(0.2)
        assert seen[0].ended_by == "budget"

    async with EpisodeParticipant(clock=clock) as house:
        await restore(house, tmp_path, [ep("r")])
        await resume(house)
        async with house.episode(ep("r", 2), task=TASK, total_s=30) as replacement:
            assert replacement.take_continuation() == {"next": "invoke_agent"}
            assert replacement.take_continuation() is None, "a continuation is delivered once"
            started = anyio.current_time()
            async with replacement.step("replay"):
                await anyio.sleep(11)
        assert replacement.ended_by == "budget"
        assert anyio.current_time() - started == pytest.approx(10, abs=0.05)


@simulated
async def test_ck3_two_restores_accumulate(tmp_path: Path) -> None:
    for turn in (1, 2, 3):
        async with EpisodeParticipant(clock=clock) as house, anyio.create_task_group() as tasks:
            if turn > 1:
                await restore(house, tmp_path, [ep("r", turn - 1)], f"c{turn - 1}")
                await resume(house, f"c{turn - 1}")
            seen: list[Episode] = []
            tasks.start_soon(lambda: run_turn(house, ep("r", turn), total_s=100, work_s=50, seen=seen))  # noqa: B023
            await anyio.sleep(8)
            await prepare(house, f"c{turn}")
            await anyio.sleep(100)
            await commit(house, tmp_path, f"c{turn}")
            assert saved(house, tmp_path, f"c{turn}")[0].budget_spent_s == pytest.approx(8 * turn, abs=0.05)
            tasks.cancel_scope.cancel()


@simulated
async def test_ck3_records_without_the_field_and_episodes_without_a_limit_load(tmp_path: Path) -> None:
    old = json.dumps({"episode_id": {"rollout_id": "r", "attempt": 1}, "task_digest": "d", "boundary": None})
    assert EpisodeRecord.model_validate_json(old).budget_spent_s == 0
    named = EpisodeRecord.model_validate_json(old[:-1] + ', "elapsed_s": 4.5}')
    assert named.budget_spent_s == 4.5
    assert named.model_dump(by_alias=True)["elapsed_s"] == 4.5
    seen: list[Episode] = []
    async with EpisodeParticipant(clock=clock) as house, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: run_turn(house, ep("r"), total_s=None, work_s=1e6, seen=seen))
        await anyio.sleep(5)
        await prepare(house)
        await commit(house, tmp_path)
        assert saved(house, tmp_path)[0].budget_spent_s == pytest.approx(5, abs=0.05)
        assert seen[0].budget.remaining_s is None
        tasks.cancel_scope.cancel()


@simulated
async def test_a_wait_step_and_running_code_block_and_a_replay_step_does_not(tmp_path: Path) -> None:
    async with EpisodeParticipant(clock=clock) as house, anyio.create_task_group() as tasks:

        async def waits() -> None:
            async with house.episode(ep("w"), task=TASK, total_s=None) as episode:
                async with episode.step("wait"):
                    await anyio.sleep(10)
                await episode.boundary({"next": "verify"})

        async def replays() -> None:
            async with house.episode(ep("p"), task=TASK, total_s=None) as episode:
                async with episode.step("replay"):
                    await anyio.sleep(12)
                await episode.boundary({"next": "close_agent"})
                await anyio.sleep_forever()

        tasks.start_soon(waits)
        tasks.start_soon(replays)
        await anyio.sleep(1)
        early = (await prepare(house, seconds=2)).report
        assert not early.ready
        assert early.blockers == ("w#1 is in wait_step",)
        with refused("invalid_phase"):
            await commit(house, tmp_path)
        started = anyio.current_time()
        ready = (await prepare(house)).report
        assert anyio.current_time() - started == pytest.approx(7, abs=1)
        assert ready.ready
        assert set(ready.episodes) == {ep("w"), ep("p")}
        await anyio.sleep(20)  # the replay step ends, and what comes after it waits
        await commit(house, tmp_path)
        boundaries = {record.episode_id.rollout_id: record.boundary for record in saved(house, tmp_path)}
        assert boundaries == {"w": {"next": "verify"}, "p": None}
        await resume(house)
        await settled()
        tasks.cancel_scope.cancel()


@simulated
async def test_begin_is_refused_while_closed_twice_and_for_another_task(tmp_path: Path) -> None:
    async with EpisodeParticipant(clock=clock) as house:
        async with house.episode(ep("r"), task=TASK, total_s=None) as episode:
            with refused("checkpoint_conflict"):
                async with house.episode(ep("r"), task=TASK, total_s=None):
                    pass
            async with episode.step("replay"):
                await prepare(house)
                with refused("admission_closed"):
                    async with house.episode(ep("q"), task=TASK, total_s=None):
                        pass
                await commit(house, tmp_path)
                await resume(house)
    async with EpisodeParticipant(clock=clock) as house:
        await restore(house, tmp_path, [ep("r")])
        with refused("admission_closed"):
            async with house.episode(ep("r", 2), task=TASK, total_s=None):
                pass
        await resume(house)
        with refused("stale_attempt"):
            async with house.episode(ep("r", 1), task=TASK, total_s=None):
                pass
        with refused("invalid_checkpoint_state"):
            async with house.episode(ep("r", 2), task={"instance_id": "b"}, total_s=None):
                pass
        async with house.episode(ep("r", 2), task=TASK, total_s=None):
            pass


@simulated
async def test_an_episode_that_nobody_claimed_is_saved_again(tmp_path: Path) -> None:
    async with EpisodeParticipant(clock=clock) as house:
        for name in ("a", "b"):
            house._pending[name] = EpisodeRecord(
                episode_id=ep(name), task_digest="d", boundary={"step": 4}, budget_spent_s=3
            )
        await prepare(house)
        await commit(house, tmp_path, episodes=[ep("a")])
        assert saved(house, tmp_path) == [
            EpisodeRecord(episode_id=ep("a"), task_digest="d", boundary={"step": 4}, budget_spent_s=3)
        ]
        assert (await house.status()).extras == {"restored_pending": 1}, "what is out of scope is dropped"


@simulated
async def test_a_retired_attempt_is_stopped_once_and_refused_until_it_is_forgotten() -> None:
    async with EpisodeParticipant(clock=clock) as house, anyio.create_task_group() as tasks:
        endings: list[Any] = []

        async def stubborn() -> None:
            async with house.episode(ep("r", 2), task=TASK, total_s=None) as episode:
                try:
                    await anyio.sleep_forever()
                finally:
                    endings.append("cancelled")
                    with anyio.CancelScope(shield=True):
                        await anyio.sleep(10)
            endings.append(episode.ended_by)

        tasks.start_soon(stubborn)
        await settled()
        with refused("deadline_exceeded"):
            await retire(house, ep("r", 2), seconds=3)
        assert (await house.status()).retired_rollouts == {"r": 2}, "the mark survives a failure"
        await retire(house, ep("r", 2), name="again")
        assert endings == ["cancelled", "retired"]
        for attempt in (1, 2):
            with refused("stale_attempt"):
                async with house.episode(ep("r", attempt), task=TASK, total_s=None):
                    pass
        await house.forget(ForgetRequest(checkpoint_id="f", rollout_ids=("r",), **within(5)))
        async with house.episode(ep("r", 1), task=TASK, total_s=None):
            pass


@simulated
async def test_retire_is_refused_while_something_is_parked() -> None:
    async with EpisodeParticipant(clock=clock) as house:
        await prepare(house)
        with refused("invalid_phase"):
            await retire(house, ep("r"), name="c1")


@simulated
async def test_a_restart_holds_nothing_up_is_not_saved_and_its_time_runs(tmp_path: Path) -> None:
    async with EpisodeParticipant(clock=clock) as house, anyio.create_task_group() as tasks:

        async def restarts() -> None:
            async with house.episode(ep("r"), task=TASK, total_s=100) as episode:
                await episode.mark_restart()
                seen.append(episode)
                await anyio.sleep_forever()

        seen: list[Episode] = []
        tasks.start_soon(restarts)
        await anyio.sleep(3)
        report = (await prepare(house)).report
        assert (report.ready, report.restarts, report.episodes) == (True, (ep("r"),), ())
        await anyio.sleep(4)
        with refused("restart_in_scope"):
            await commit(house, tmp_path, episodes=[ep("r")])
        assert (await commit(house, tmp_path)).record_count == 0
        assert seen[0].budget.spent_s == pytest.approx(7, abs=0.05)
        tasks.cancel_scope.cancel()


@simulated
async def test_a_restart_is_marked_only_once_no_checkpoint_counts_on_the_episode() -> None:
    async with EpisodeParticipant(clock=clock) as house, anyio.create_task_group() as tasks:

        async def marks() -> None:
            async with house.episode(ep("r"), task=TASK, total_s=None) as episode:
                async with episode.step("replay"):
                    await started.wait()
                    await episode.mark_restart()
                marked.append(house.is_closed)

        started, marked = anyio.Event(), list[bool]()
        tasks.start_soon(marks)
        await settled()
        assert (await prepare(house)).report.episodes == (ep("r"),)
        started.set()
        await settled()
        assert (await house.status()).report.restarts == ()  # type: ignore[union-attr]
        await resume(house)
        await settled()
        assert marked == [False]
