"""The agent participant: sessions, and activations that park (CK-1, CK-5, CK-6, CK-7, CK-9, CK-15)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.checkpoint import Activation, AgentHooks, AgentParticipant, SeedBody
from tests.checkpoint.house import commit, ep, prepare, refused, restore, resume, retire, saved, seed, settled
from tests.checkpoint.virtual import clock, simulated


async def cut(house: AgentParticipant, directory: Path, name: str) -> list[Any]:
    """Save and go on; returns what was saved."""
    assert (await prepare(house, name)).report.ready
    await commit(house, directory, name)
    records = saved(house, directory, name)
    await resume(house, name)
    return records


Waits = Callable[[Activation, anyio.Semaphore], Awaitable[None]]


async def in_queue(activation: Activation, slots: anyio.Semaphore) -> None:
    async with activation.queued(slots):
        pass


async def at_the_model(activation: Activation, slots: anyio.Semaphore) -> None:
    async with activation.awaiting_model():
        await slots.acquire()


@pytest.mark.parametrize("wait", [in_queue, at_the_model])
def test_ck1_a_restored_boundary_survives_a_wait(wait: Waits, tmp_path: Path) -> None:
    @simulated
    async def test() -> None:
        async with AgentParticipant(clock=clock) as house, anyio.create_task_group() as tasks:

            async def first(activation: Activation) -> None:
                assert activation.take_continuation() is None
                await activation.boundary({"step": 4})
                async with activation.awaiting_model():
                    await anyio.sleep_forever()

            await house.seed(seed())
            tasks.start_soon(house.activate, "s", 1, first)
            await settled()
            (record,) = await cut(house, tmp_path, "c1")
            assert record.boundary == {"step": 4}
            tasks.cancel_scope.cancel()

        async with AgentParticipant(clock=clock) as house, anyio.create_task_group() as tasks:
            slots = anyio.Semaphore(0, max_value=1)

            async def goes_on(activation: Activation) -> None:
                assert activation.take_continuation() == {"step": 4}
                await wait(activation, slots)
                await activation.boundary({"step": 5})
                async with activation.awaiting_model():
                    await anyio.sleep_forever()

            await restore(house, tmp_path, [ep("r")], "c1")
            await resume(house, "c1")
            tasks.start_soon(lambda: house.activate("s", 1, goes_on, episode_id=ep("r", 2)))
            await settled()
            (record,) = await cut(house, tmp_path, "c2")
            assert (record.boundary, record.episode_id) == ({"step": 4}, ep("r", 2))
            slots.release()
            await settled()
            (record,) = await cut(house, tmp_path, "c3")
            assert record.boundary == {"step": 5}, "a boundary of its own supersedes the restored one"
            tasks.cancel_scope.cancel()

        async with AgentParticipant(clock=clock) as house:
            delivered: list[Any] = []

            async def ends(activation: Activation) -> str:
                delivered.append(activation.take_continuation())
                return "done"

            await restore(house, tmp_path, [ep("r", 2)], "c2")
            await resume(house, "c2")
            assert await house.activate("s", 1, ends, episode_id=ep("r", 3)) == "done"
            assert delivered == [{"step": 4}], "a further restore delivers it"
            (record,) = await cut(house, tmp_path, "c4")
            assert (record.boundary, record.session["activation"]) == (None, None), "its end clears it"

    test()


@simulated
async def test_ck1_a_restored_boundary_survives_until_its_activation_begins(tmp_path: Path) -> None:
    async with AgentParticipant(clock=clock) as house, anyio.create_task_group() as tasks:

        async def first(activation: Activation) -> None:
            async with activation.awaiting_model():
                await activation.boundary(lambda: {"step": 4})
                await anyio.sleep_forever()

        await house.seed(seed())
        tasks.start_soon(house.activate, "s", 1, first)
        await settled()
        await cut(house, tmp_path, "c1")
        tasks.cancel_scope.cancel()
    async with AgentParticipant(clock=clock) as house, anyio.create_task_group() as tasks:
        await restore(house, tmp_path, [ep("r")], "c1")
        await resume(house, "c1")
        await prepare(house, "c2")
        await commit(house, tmp_path, "c2", episodes=[ep("r", 2)])
        (record,) = saved(house, tmp_path, "c2")
        assert (record.boundary, record.episode_id) == ({"step": 4}, ep("r", 2)), "as that of whoever will claim it"

        async def never(_activation: Activation) -> None:
            pytest.fail("work began while a checkpoint was open")

        tasks.start_soon(lambda: house.activate("s", 1, never, episode_id=ep("r", 2)))
        await settled()
        tasks.cancel_scope.cancel()  # the caller goes before the work began
    assert house._sessions["s"].saved == {"step": 4}


@simulated
async def test_a_fresh_activation_has_no_boundary(tmp_path: Path) -> None:
    async with AgentParticipant(clock=clock) as house, anyio.create_task_group() as tasks:
        await house.seed(seed())
        tasks.start_soon(house.activate, "s", 1, lambda one: in_queue(one, anyio.Semaphore(0)))
        await settled()
        (record,) = await cut(house, tmp_path, "c1")
        assert (record.boundary, record.session["activation"]) == (None, 1)
        tasks.cancel_scope.cancel()


@simulated
async def test_ck1_a_slot_granted_while_closed_starts_no_work_before_resume() -> None:
    async with AgentParticipant(clock=clock) as house, anyio.create_task_group() as tasks:
        slots, log = anyio.Semaphore(0, max_value=1), list[str]()

        async def works(activation: Activation) -> None:
            async with activation.queued(slots):
                log.append("closed" if house.is_closed else "open")

        await house.seed(seed())
        tasks.start_soon(house.activate, "s", 1, works)
        await settled()
        assert (await prepare(house)).report.ready, "a queue holds nothing up"
        slots.release()
        await settled()
        assert log == []
        assert (await house.status()).report.counts["at_boundary"] == 1  # type: ignore[union-attr]
        await resume(house)
        await settled()
        assert log == ["open"]
        assert slots.value == 1


@simulated
async def test_ck5_a_slot_is_given_back_however_its_block_ends() -> None:
    for retire_when_parked in (True, False):
        async with AgentParticipant(clock=clock) as house, anyio.create_task_group() as tasks:
            slots = anyio.Semaphore(1)
            await house.seed(seed())

            async def works(activation: Activation) -> None:
                async with activation.queued(slots):  # noqa: B023
                    await activation.boundary({"step": 1})
                    await anyio.sleep_forever()

            async def call() -> None:
                with refused("stale_attempt"):
                    await house.activate("s", 1, works)

            if retire_when_parked:  # it has the slot, and waits for the checkpoint to end
                slots.acquire_nowait()
                tasks.start_soon(call)
                await settled()
                await prepare(house)
                slots.release()
                await settled()
                assert slots.value == 0
                house.marks.retire([ep("r")])
                with anyio.move_on_after(1):
                    await house._stop([ep("r")])
            else:
                tasks.start_soon(call)
                await settled()
                assert slots.value == 0
                await retire(house, ep("r"))
            assert slots.value == 1


@simulated
async def test_ck6_a_restart_does_not_park_in_a_queue() -> None:
    class CannotRenewItsGrants(AgentHooks):
        pass

    async with AgentParticipant(hooks=CannotRenewItsGrants(), clock=clock) as house, anyio.create_task_group() as tasks:
        slots, log = anyio.Semaphore(0, max_value=1), list[str]()

        async def works(activation: Activation) -> None:
            async with activation.queued(slots):
                log.append("works")
                assert not activation.park_requested
                await activation.boundary({"step": 1})
                log.append("went on")

        assert (await house.seed(seed(tool_grants=("token",)))).restarts
        tasks.start_soon(house.activate, "s", 1, works)
        await settled()
        report = (await prepare(house)).report
        assert (report.ready, report.restarts) == (True, (ep("r"),))
        slots.release()
        await settled()
        assert log == ["works", "went on"]
        await resume(house)


@simulated
async def test_ck7_a_restart_is_known_before_its_session_could_be_saved(tmp_path: Path) -> None:
    release = anyio.Event()

    class SlowSeed(AgentHooks):
        async def seed_agent_session(self, body: SeedBody) -> None:
            await release.wait()

    async with AgentParticipant(hooks=SlowSeed(), clock=clock) as house, anyio.create_task_group() as tasks:
        tasks.start_soon(house.seed, seed(tool_grants=("token",)))
        await settled()
        assert (await prepare(house)).report.restarts == (ep("r"),)
        release.set()
        await settled()
        with refused("restart_in_scope"):
            await commit(house, tmp_path, episodes=[ep("r")])
        await commit(house, tmp_path)
        assert saved(house, tmp_path) == []
        await resume(house)
        assert (await prepare(house, "c2")).report.restarts == (ep("r"),), "and it stays one"
        await resume(house, "c2")


@simulated
async def test_ck15_first_seeds_in_flight_are_restarts_of_that_checkpoint_only(tmp_path: Path) -> None:
    class SlowSeed(AgentHooks):
        async def seed_agent_session(self, body: SeedBody) -> None:
            await anyio.sleep(30)

    async with AgentParticipant(hooks=SlowSeed(), clock=clock) as house, anyio.create_task_group() as tasks:
        for number in range(200):
            tasks.start_soon(house.seed, seed(f"s{number}", ep(f"r{number}")))
        await anyio.sleep(1)
        started = anyio.current_time()
        report = (await prepare(house)).report
        assert anyio.current_time() - started < 1
        assert report.ready
        assert len(report.restarts) == 200
        tasks.start_soon(house.seed, seed("late", ep("late")))
        await anyio.sleep(60)  # they all finish while it is closed
        status = (await house.status()).report
        assert status is not None
        assert len(status.restarts) == 200, "fixed when it closed"
        await commit(house, tmp_path)
        assert saved(house, tmp_path) == []
        await resume(house)
        await anyio.sleep(31)  # the seed that came while closed waited, and is made now
        assert (await prepare(house, "c2")).report.restarts == ()
        await commit(house, tmp_path, "c2")
        assert len(saved(house, tmp_path, "c2")) == 201
        await resume(house, "c2")


@simulated
async def test_ck15_a_seed_of_an_existing_session_blocks(tmp_path: Path) -> None:
    class SlowRebind(AgentHooks):
        rebinds_tool_accesses = True

        async def rebind_restored_agent_session_state(self, key: str, body: SeedBody) -> None:
            await anyio.sleep(10)

    async with AgentParticipant(hooks=SlowRebind(), clock=clock) as house:
        await house.seed(seed(tool_grants=("old",)))
        await cut(house, tmp_path, "c1")
    async with AgentParticipant(hooks=SlowRebind(), clock=clock) as house, anyio.create_task_group() as tasks:
        await restore(house, tmp_path, [ep("r")])
        await resume(house)
        tasks.start_soon(house.seed, seed(episode=ep("r", 2), tool_grants=("new",)))
        await settled()
        blocked = (await prepare(house, "c2", seconds=3)).report
        assert blocked.blockers == ("session s of r#2 is being seeded again",)
        assert (await prepare(house, "c2")).report.ready
        await resume(house, "c2")


def test_ck9_hooks_are_checked_when_the_participant_is_made() -> None:
    class OldSignature(AgentHooks):
        async def export_agent_sessions(self, keys: Any) -> Any:  # type: ignore[override]
            return {}

    class TakesAnything(AgentHooks):
        async def export_agent_sessions(self, keys: Any, **_kwargs: Any) -> Any:
            return {}

    class Declares(AgentHooks):
        rebinds_tool_accesses = True

    with pytest.raises(ValueError, match="OldSignature"):
        AgentParticipant(hooks=OldSignature())
    with pytest.raises(ValueError, match="Declares"):
        AgentParticipant(hooks=Declares())
    AgentParticipant(hooks=TakesAnything())


@simulated
async def test_a_completed_activation_gives_its_reply_again_and_a_gap_is_refused(tmp_path: Path) -> None:
    runs: list[int] = []

    async def work(activation: Activation) -> dict[str, int]:
        runs.append(activation.index)
        return {"index": activation.index}

    async with AgentParticipant(clock=clock) as house:
        await house.seed(seed())
        for index in (1, 2):
            assert await house.activate("s", index, work) == {"index": index}
            assert await house.activate("s", index, work) == {"index": index}
        with refused("activation_out_of_order"):
            await house.activate("s", 4, work)
        assert runs == [1, 2]
        await cut(house, tmp_path, "c1")
    async with AgentParticipant(clock=clock) as house:
        await restore(house, tmp_path, [ep("r")])
        await resume(house)
        assert await house.activate("s", 2, work, episode_id=ep("r", 2)) == {"index": 2}
        assert runs == [1, 2], "what a restored session has done is not done again"
        with refused("stale_attempt"):
            await house.activate("s", 3, work, episode_id=ep("r", 1))


@simulated
async def test_sessions_are_seeded_once_and_closed_for_good() -> None:
    seeds: list[str] = []

    class Counts(AgentHooks):
        async def seed_agent_session(self, body: SeedBody) -> None:
            seeds.append(body.session_id)
            await anyio.sleep(1)

    async with AgentParticipant(hooks=Counts(), clock=clock) as house, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(house.seed, seed(body={"a": 1}))
        await anyio.sleep(2)
        await house.seed(seed(body={"a": 1}))
        assert seeds == ["s"]
        with refused("checkpoint_conflict"):
            await house.seed(seed(body={"a": 2}))
        for _ in range(2):
            await house.close_session("s")
        await house.close_session("unknown")
        for name in ("s", "unknown"):
            with refused("checkpoint_conflict"):
                await house.seed(seed(name))


@simulated
async def test_what_is_closed_while_it_is_seeded_is_not_left() -> None:
    closed: list[str] = []

    class Slow(AgentHooks):
        async def seed_agent_session(self, body: SeedBody) -> None:
            await anyio.sleep(1)

        async def close_agent_session(self, key: str) -> None:
            closed.append(key)

    async with AgentParticipant(hooks=Slow(), clock=clock) as house, anyio.create_task_group() as tasks:

        async def seeds() -> None:
            with refused("checkpoint_conflict"):
                await house.seed(seed())

        tasks.start_soon(seeds)
        await settled()
        await house.close_session("s")
        await anyio.sleep(2)
        assert closed == ["s"]
        with refused("checkpoint_error"):
            await house.activate("s", 1, lambda _one: anyio.sleep_forever())


@simulated
async def test_the_park_signal_reaches_an_activation_and_boundaries_are_evaluated_when_written(tmp_path: Path) -> None:
    async with AgentParticipant(clock=clock) as house, anyio.create_task_group() as tasks:
        evaluated: list[float] = []

        def snapshot() -> dict[str, int]:
            evaluated.append(anyio.current_time())
            return {"step": 1}

        async def works(activation: Activation) -> None:
            assert not activation.park_requested
            await activation.wait_park_requested()
            assert activation.park_requested
            await anyio.sleep(2)
            await activation.boundary(snapshot)

        await house.seed(seed())
        tasks.start_soon(house.activate, "s", 1, works)
        await anyio.sleep(5)
        assert (await prepare(house)).report.ready
        assert evaluated == []
        await anyio.sleep(5)
        await commit(house, tmp_path)
        assert evaluated == [anyio.current_time()]
        await resume(house)


@simulated
async def test_an_export_that_leaves_a_session_out_fails(tmp_path: Path) -> None:
    class Forgets(AgentHooks):
        async def export_agent_sessions(self, keys: Any, *, checkpoint_id: str) -> Any:
            return {}

    async with AgentParticipant(hooks=Forgets(), clock=clock) as house:
        await house.seed(seed())
        await prepare(house)
        with refused("checkpoint_error"):
            await commit(house, tmp_path)
        assert (await house.status()).phase == "prepared"
        await resume(house)


@simulated
async def test_a_restore_needs_an_empty_agent_and_a_failed_one_opens_it(tmp_path: Path) -> None:
    freed: list[str] = []

    class Fails(AgentHooks):
        async def restore_agent_sessions(self, states: Any) -> None:
            raise RuntimeError("no disk")

        async def retire_agent_session(self, key: str) -> None:
            freed.append(key)
            raise RuntimeError("nor this")

    async with AgentParticipant(clock=clock) as house:
        await house.seed(seed())
        await cut(house, tmp_path, "c1")
    async with AgentParticipant(clock=clock) as house:
        await house.seed(seed("other"))
        with refused("checkpoint_conflict"):
            await restore(house, tmp_path, [ep("r")])
        assert (await house.status()).phase == "idle"
        assert house._sessions.keys() == {"other"}
    async with AgentParticipant(hooks=Fails(), clock=clock) as house:
        with pytest.raises(RuntimeError, match="no disk"):
            await restore(house, tmp_path, [ep("r")])
        status = await house.status()
        assert (status.phase, status.extras["accepting"]) == ("idle", True)
        assert freed == ["s"]
        await house.seed(seed())


@simulated
async def test_retire_waits_for_seeds_and_tells_the_hook_once() -> None:
    told: list[str] = []

    class Slow(AgentHooks):
        async def seed_agent_session(self, body: SeedBody) -> None:
            await anyio.sleep(5)

        async def retire_agent_session(self, key: str) -> None:
            told.append(key)

    async with AgentParticipant(hooks=Slow(), clock=clock) as house, anyio.create_task_group() as tasks:

        async def seeds() -> None:
            with refused("stale_attempt"):
                await house.seed(seed("in flight"))

        async def works() -> None:
            with refused("stale_attempt"):
                await house.activate("s", 1, lambda _one: anyio.sleep_forever())

        await house.seed(seed())
        tasks.start_soon(seeds)
        tasks.start_soon(works)
        await settled()
        await retire(house, ep("r"))
        await retire(house, ep("r"), name="again")
        assert sorted(told) == ["in flight", "s"]
