"""What was restored, over several workers: episodes are claimed once, sessions are placed and found again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio

from swe_sdk.checkpoint import ResourcesParticipant
from swe_sdk.checkpoint.store import folder, read_manifest
from swe_sdk.server.control.workers import Member
from tests.checkpoint.house import KeepsNothing, ep, refused, seed
from tests.server.control.crews import (
    CrewOf,
    Worker,
    agents,
    commit,
    crew_of,
    episodes,
    episodes_of,
    in_real_time,
    kept,
    prepare,
    restore,
    resume,
    states_of,
    touch,
    until,
)


@in_real_time
async def test_restored_episodes_are_claimed_exactly_once_by_whoever_comes_first(tmp_path: Path) -> None:
    async def runs(worker: Worker, episode_id: Any, log: list[Any], hold: anyio.Event) -> None:
        async with worker.participant.episode(episode_id, task="t", total_s=100) as episode:
            log.append((worker.member.name, episode.take_continuation(), episode.budget.spent_s >= 0.1))
            await episode.boundary({"at": worker.member.name})
            async with episode.step("replay"):
                await hold.wait()

    async with crew_of("environment", episodes, tmp_path) as crew, anyio.create_task_group() as tasks:
        log: list[Any] = []
        for number, worker in enumerate(crew.workers):
            tasks.start_soon(runs, worker, ep(f"r{number}"), log, anyio.Event())
        await until(lambda: len(log) == 2)
        await anyio.sleep(0.1)
        for worker in crew.workers:
            with refused("checkpoint_conflict"):
                async with worker.participant.episode(ep("r0", 2), task="t", total_s=100):
                    pass
        report = await prepare(crew.hub)
        assert episodes_of(report) == {ep("r0"), ep("r1")}
        await commit(crew.hub, tmp_path, scope=[ep("r0"), ep("r1")])
        with refused("admission_closed"):
            async with crew.workers[0].participant.episode(ep("new"), task="t", total_s=100):
                pass
        await resume(crew.hub)
        tasks.cancel_scope.cancel()

    (tmp_path / "socket").unlink(missing_ok=True)
    async with crew_of("environment", episodes, tmp_path, prefix="v") as crew, anyio.create_task_group() as tasks:
        await restore(crew.hub, tmp_path, ep("r0"), ep("r1"))
        assert (await crew.hub.status()).extras["restored_pending"] == 2
        await resume(crew.hub)
        with refused("stale_attempt"):
            async with crew.workers[0].participant.episode(ep("r0", 1), task="t", total_s=100):
                pass
        log, hold = [], anyio.Event()
        refusals: list[str] = []

        async def tries(worker: Worker) -> None:
            try:
                await runs(worker, ep("r0", 2), log, hold)
            except Exception as error:  # noqa: BLE001
                refusals.append(getattr(error, "code", repr(error)))

        for worker in [*crew.workers, *crew.workers]:
            tasks.start_soon(tries, worker)
        await until(lambda: len(refusals) == 3)
        assert refusals == ["checkpoint_conflict"] * 3
        assert [(saved, spent) for _, saved, spent in log] == [({"at": "w0"}, True)]
        report = await prepare(crew.hub, "c2")
        assert episodes_of(report) == {ep("r0", 2), ep("r1")}, "what waits to be claimed is saved again"
        await commit(crew.hub, tmp_path, "c2", scope=[ep("r0", 2)])
        await resume(crew.hub, "c2")
        await until(lambda: crew.hub._book.pending == {})
        hold.set()


@in_real_time
async def test_what_a_lost_worker_had_claimed_may_be_begun_anew(tmp_path: Path) -> None:
    async with crew_of("environment", episodes, tmp_path) as crew:
        begun = anyio.Event()
        first, second = crew.workers

        async def work() -> None:
            async with first.participant.episode(ep("r"), task="t", total_s=100):
                begun.set()
                await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            await begun.wait()
            await first.kill()
            await until(lambda: len(crew.hub.crew.workers) == 1)
            async with second.participant.episode(ep("r", 2), task="t", total_s=100) as episode:
                assert episode.take_continuation() is None
            tasks.cancel_scope.cancel()


@in_real_time
async def test_an_episode_that_is_about_to_begin_blocks_and_is_not_forgotten(tmp_path: Path) -> None:
    """The grant and the park signal cross: what was granted must be in the checkpoint, or hold it up."""
    async with crew_of("environment", episodes, tmp_path, workers=1) as crew, anyio.create_task_group() as tasks:
        (worker,) = crew.workers
        begun = anyio.Event()
        begin = worker.member.begin

        async def slowly(*arguments: Any) -> Any:
            saved = await begin(*arguments)
            await anyio.sleep(0.3)
            return saved

        worker.member.begin = slowly  # type: ignore[method-assign]

        async def work() -> None:
            async with worker.participant.episode(ep("r"), task="t", total_s=100) as episode:
                begun.set()
                await episode.boundary({"step": 1})
                await anyio.sleep_forever()

        tasks.start_soon(work)
        await until(lambda: crew.hub._book._begun)
        assert (await prepare(crew.hub, seconds=0.1)).blockers == ("w0: r#1 is about to begin",)
        report = await prepare(crew.hub)
        assert begun.is_set()
        assert episodes_of(report) == {ep("r")}
        await resume(crew.hub)
        tasks.cancel_scope.cancel()


async def _save_sessions(crew: CrewOf, place: Path, counts: Iterable[int]) -> None:
    for worker, count in zip(crew.workers, counts, strict=True):
        for number in range(count):
            name = f"{worker.member.name}-{number}"
            await touch(worker, name, ep(name), {"of": name})
    await prepare(crew.hub)
    await commit(crew.hub, place)
    await resume(crew.hub)


@in_real_time
async def test_sessions_go_by_their_owner_to_the_least_loaded_and_everybody_learns_where(tmp_path: Path) -> None:
    async with crew_of("resources", kept, tmp_path, workers=3) as crew:
        await _save_sessions(crew, tmp_path, (3, 1, 1))
    async with crew_of("resources", kept, tmp_path, workers=2, prefix="v") as crew:
        names = [f"w0-{number}" for number in range(3)] + ["w1-0", "w2-0"]
        assert (await restore(crew.hub, tmp_path, *map(ep, names))).restored == 5
        await resume(crew.hub)
        assert states_of(crew) == {"v0": set(names[:3]), "v1": {"w1-0", "w2-0"}}
        for worker in crew.workers:
            await until(lambda worker=worker: worker.member.aliases)
            assert worker.member.aliases == {"w0": "v0", "w1": "v1", "w2": "v1"}
            assert worker.member.owner_of("w2") == "v1"
            assert worker.member.owner_of("v0") == "v0"
            assert worker.member.owner_of("gone") is None
        assert (await crew.hub.status()).extras["session_aliases"] == crew.workers[0].member.aliases
        async with crew.workers[0].participant.request("w0-1", ep("w0-1", 2)):
            assert crew.workers[0].participant.hooks.states["w0-1"] == {"of": "w0-1"}
        await prepare(crew.hub, "c2")
        await commit(crew.hub, tmp_path, "c2", scope=[ep(name, 1 + (name == "w0-1")) for name in names])
        await resume(crew.hub, "c2")
        await crew.workers[1].kill()
        await until(lambda: crew.workers[0].member.owner_of("w1") is None)
    async with crew_of("resources", kept, tmp_path, workers=2, prefix="u") as crew:
        scope = [ep(name, 1 + (name == "w0-1")) for name in names]
        assert (await restore(crew.hub, tmp_path, *scope, name="c2")).restored == 5
        await resume(crew.hub, "c2")
        for old, now in [("w0", "v0"), ("w1", "v1"), ("w2", "v1")]:
            member = crew.workers[0].member
            assert member.owner_of(old) == member.owner_of(now), "it is known by the first of its names"
            assert member.owner_of(old) in {"u0", "u1"}


@in_real_time
async def test_a_restored_session_that_is_made_anew_at_another_worker_is_saved_from_there(tmp_path: Path) -> None:
    """An episode that was saved before the reply to its seed has no cookie that says who has its session."""
    async with crew_of("resources", kept, tmp_path) as crew:
        await touch(crew.workers[1], "s", ep("r"), "before")
        await prepare(crew.hub)
        await commit(crew.hub, tmp_path, scope=[ep("r")])
        await resume(crew.hub)
    async with crew_of("resources", kept, tmp_path, prefix="v") as crew:
        await restore(crew.hub, tmp_path, ep("r"))
        await resume(crew.hub)
        assert states_of(crew) == {"v0": {"s"}, "v1": set()}
        with refused("stale_attempt"):
            await touch(crew.workers[0], "s", ep("r"), "of the attempt that the restore has cut")
        await touch(crew.workers[1], "s", ep("r", 2), "after")
        assert (await prepare(crew.hub, "c2")).restarts == ()
        assert (await commit(crew.hub, tmp_path, "c2", scope=[ep("r", 2)])).record_count == 1
        manifest = read_manifest(folder(tmp_path / "c2", "resources", "resources"))
        assert manifest.model_extra is not None
        assert manifest.model_extra["session_owners"] == {"s": "v1"}
        await until(lambda: states_of(crew) == {"v0": set(), "v1": {"s"}})
        await resume(crew.hub, "c2")
    async with crew_of("resources", kept, tmp_path, prefix="u") as crew:
        await restore(crew.hub, tmp_path, ep("r", 2), name="c2")
        await resume(crew.hub, "c2")
        (owner,) = [one for one in crew.workers if one.member.name == crew.workers[0].member.owner_of("v1")]
        assert owner.participant.hooks.states == {"s": "after"}


@in_real_time
async def test_a_session_that_two_workers_have_for_one_attempt_is_in_no_checkpoint(tmp_path: Path) -> None:
    """The reply to a seed was lost, and the seed came to another worker when it was made again."""
    async with crew_of("agent", agents, tmp_path) as crew:
        for worker in crew.workers:
            await worker.participant.seed(seed("s", ep("r")))
        assert (await prepare(crew.hub)).restarts == (ep("r"),)
        with refused("restart_in_scope"):
            await commit(crew.hub, tmp_path, scope=[ep("r")])
        await resume(crew.hub)
        await crew.workers[0].participant.close_session("s")
        await until(lambda: not crew.hub._sessions.restarts(crew.hub.marks))
        assert (await prepare(crew.hub, "c2")).restarts == ()


@in_real_time
async def test_a_worker_that_is_lost_between_restore_and_resume_is_made_up_for(tmp_path: Path) -> None:
    async with crew_of("resources", kept, tmp_path, workers=2) as crew:
        await _save_sessions(crew, tmp_path, (2, 2))
    async with crew_of("resources", kept, tmp_path, workers=2, prefix="v") as crew:
        names = ["w0-0", "w0-1", "w1-0", "w1-1"]
        await restore(crew.hub, tmp_path, *map(ep, names))
        await crew.workers[1].kill()
        await until(lambda: len(crew.hub.crew.workers) == 1)
        await resume(crew.hub)
        assert states_of(crew) == {"v0": set(names)}
        assert crew.hub.crew.aliases == {"w0": "v0", "w1": "v0"}


@in_real_time
async def test_sessions_of_agents_are_made_up_for_as_well(tmp_path: Path) -> None:
    async with crew_of("agent", agents, tmp_path, workers=2) as crew:
        for worker in crew.workers:
            await worker.participant.seed(seed(worker.member.name, ep(worker.member.name)))
        await prepare(crew.hub)
        await commit(crew.hub, tmp_path)
        await resume(crew.hub)
    async with crew_of("agent", agents, tmp_path, workers=2, prefix="v") as crew:
        await restore(crew.hub, tmp_path, ep("w0"), ep("w1"))
        assert states_of(crew) == {"v0": {"w0"}, "v1": {"w1"}}
        await crew.workers[1].kill()
        await until(lambda: len(crew.hub.crew.workers) == 1)
        await resume(crew.hub)
        assert states_of(crew) == {"v0": {"w0", "w1"}}
        assert (await prepare(crew.hub, "c2")).restarts == (), "nothing was lost"


@in_real_time
async def test_a_restore_that_fails_at_one_worker_leaves_nothing_at_any(tmp_path: Path) -> None:
    class Fails(KeepsNothing):
        async def restore_session_states(self, states: Any) -> None:
            raise RuntimeError("no room")

    def made(member: Member) -> ResourcesParticipant:
        return ResourcesParticipant(hooks=Fails() if member.name == "v1" else KeepsNothing())

    async with crew_of("resources", kept, tmp_path) as crew:
        await _save_sessions(crew, tmp_path, (2, 2))
    async with crew_of("resources", made, tmp_path, prefix="v") as crew:
        with refused("checkpoint_error"):
            await restore(crew.hub, tmp_path, *map(ep, ["w0-0", "w0-1", "w1-0", "w1-1"]))
        assert states_of(crew) == {"v0": set(), "v1": set()}
        assert not crew.hub.is_closed
