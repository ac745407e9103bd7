"""Seeding again after a restore: CK-2, CK-7 and the parts of CK-8 that need a whole turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.checkpoint import AgentHooks, EpisodeId, GrantIssuer, SeedBody, SeedReply, Turn
from swe_sdk.checkpoint.messages import CommitRequest, PrepareRequest, RestoreRequest, ResumeRequest
from swe_sdk.checkpoint.participants.activation import Activation
from swe_sdk.checkpoint.turn import Bookmark, ResourcesSeed, SessionHandles, Stage
from tests.checkpoint.house import House, KeepsNothing, ep, house, refused, saved, seed, settled, within
from tests.checkpoint.virtual import simulated


class Rebinds(AgentHooks):
    rebinds_tool_accesses = True

    def __init__(self, seed_s: float = 0.0) -> None:
        self.seed_s = seed_s
        self.access: dict[str, SeedBody] = {}
        self.rebound: list[str] = []

    async def seed_agent_session(self, body: SeedBody) -> None:
        await anyio.sleep(self.seed_s)
        self.access[body.session_id] = body

    async def rebind_restored_agent_session_state(self, key: str, body: SeedBody) -> None:
        await anyio.sleep(self.seed_s)
        self.access[key] = body
        self.rebound.append(key)


class CannotRebind(Rebinds):
    rebinds_tool_accesses = False
    rebind_restored_agent_session_state = AgentHooks.rebind_restored_agent_session_state


class Stages:
    """Stages that stop for ever at one of them, and count what they do."""

    def __init__(self, house: House, hooks: Rebinds, *, sandbox: bool, grants: bool, stop_at: Stage | None) -> None:
        self.house, self.hooks, self.stop_at = house, hooks, stop_at
        self.sandbox, self.grants = sandbox, grants
        self.issuer = GrantIssuer()
        self.log: list[str] = []
        self.issued: list[str] = []

    async def _reach(self, stage: Stage) -> None:
        self.log.append(stage)
        if self.stop_at == stage:
            await anyio.sleep_forever()

    async def seed_resources(self, session_id: str, episode_id: EpisodeId) -> ResourcesSeed:
        await self._reach("seed")
        async with self.house.resources.request(session_id, episode_id):
            grants = (self.issuer.issue(session_id, episode_id),) if self.grants else ()
        self.issued += grants
        sandbox = {"sandbox of": str(episode_id)} if self.sandbox else None
        return ResourcesSeed(sandbox=sandbox, tool_grants=grants, verify="replay")

    async def seed_agent(self, body: SeedBody) -> SeedReply:
        return await self.house.agent.seed(body)

    async def invoke_agent(self, handles: SessionHandles, episode_id: EpisodeId) -> Any:
        async def work(activation: Activation) -> str:
            self.log.append(f"from {activation.take_continuation()}")
            await activation.boundary({"step": 7})
            async with activation.awaiting_model():
                await self._reach("invoke_agent")
            return "response"

        return await self.house.agent.activate(handles.agent_session_id, 1, work, episode_id=episode_id)

    async def close_agent(self, handles: SessionHandles, episode_id: EpisodeId) -> None:
        self.log.append("close_agent")
        await self.house.agent.close_session(handles.agent_session_id)

    async def verify(self, handles: SessionHandles, response: Any, episode_id: EpisodeId) -> Any:
        await self._reach("verify")
        return {"response": response}


async def run(stages: Stages, episode_id: EpisodeId, results: list[Any]) -> None:
    async with stages.house.episodes.episode(episode_id, task="t", total_s=None) as episode:
        results.append(await Turn(episode, stages, body={"agent": "a"}).run())


async def save(house: House, name: str, *episodes: EpisodeId) -> Any:
    """Save these (by default what the reports allow), and go on."""
    prepared = await house.coordinator.prepare(PrepareRequest(checkpoint_id=name, **within(30)))
    assert prepared.ready, prepared.blockers
    await house.coordinator.commit(
        CommitRequest(
            checkpoint_id=name,
            checkpoint_dir=str(house.directory / name),
            episode_ids=episodes or prepared.episodes,
            **within(30),
        )
    )
    await house.coordinator.resume(ResumeRequest(checkpoint_id=name, **within(30)))
    return prepared


async def take_back(house: House, name: str, *episodes: EpisodeId) -> None:
    await house.coordinator.restore(
        RestoreRequest(
            checkpoint_id=name, checkpoint_dir=str(house.directory / name), episode_ids=episodes, **within(30)
        )
    )
    await house.coordinator.resume(ResumeRequest(checkpoint_id=name, **within(30)))


@pytest.mark.parametrize(
    ("sandbox", "grants", "seeds_again"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_ck2_access_of_one_attempt_is_given_again_at_invoke_agent(
    sandbox: bool, grants: bool, seeds_again: bool, tmp_path: Path
) -> None:
    @simulated
    async def test() -> None:
        hooks = Rebinds()
        kept = KeepsNothing()
        async with house(tmp_path, agent=hooks, resources=kept) as one, anyio.create_task_group() as tasks:
            stages = Stages(one, hooks, sandbox=sandbox, grants=grants, stop_at="invoke_agent")
            tasks.start_soon(run, stages, ep("r"), [])
            await settled()
            (session,) = list(one.resources._sessions)
            kept.states[session] = {"score": 3}
            await save(one, "c1")
            (record,) = saved(one.episodes, tmp_path)
            bookmark = Bookmark.model_validate(record.boundary)
            assert bookmark.next == "invoke_agent"
            assert bookmark.handles is not None
            assert (bookmark.handles.borrowed_sandbox, bookmark.handles.holds_grants) == (sandbox, grants)
            issuer, old = stages.issuer, stages.issued
            tasks.cancel_scope.cancel()

        hooks, kept = Rebinds(), KeepsNothing()
        async with house(tmp_path, agent=hooks, resources=kept) as one, anyio.create_task_group() as tasks:
            await take_back(one, "c1", ep("r"))
            stages = Stages(one, hooks, sandbox=sandbox, grants=grants, stop_at=None)
            stages.issuer = issuer
            results: list[Any] = []
            tasks.start_soon(run, stages, ep("r", 2), results)
            await settled()
            seeds = ["seed"] if seeds_again else []
            assert stages.log == [*seeds, "from {'step': 7}", "invoke_agent", "close_agent", "verify"]
            assert results == [{"response": "response"}]
            assert kept.states == {session: {"score": 3}}, "the state of the task is kept"
            assert len(hooks.rebound) == len(seeds)
            for token in old:
                with refused("unauthorized"):
                    issuer.check(token)
            for token in stages.issued:
                assert issuer.check(token).episode_id == ep("r", 2)
                assert hooks.access[hooks.rebound[0]].tool_grants == (token,)

    test()


@pytest.mark.parametrize(("stage", "seeds"), [("close_agent", 1), ("verify", 0), ("return", 0)])
def test_ck2_access_is_given_again_before_close_agent_and_not_later(stage: Stage, seeds: int, tmp_path: Path) -> None:
    @simulated
    async def test() -> None:
        handles = SessionHandles(
            resources_session_id="res", agent_session_id="s", borrowed_sandbox=True, resources_verify="replay"
        )
        hooks = Rebinds()
        async with house(tmp_path, agent=hooks) as one, anyio.create_task_group() as tasks:

            async def at_boundary() -> None:
                async with one.episodes.episode(ep("r"), task="t", total_s=None) as episode:
                    async with one.resources.request("res", ep("r")):
                        await one.agent.seed(seed(sandbox={"a": 1}, body={"agent": "a"}))
                        await one.agent.activate("s", 1, lambda _one: _reply())
                    async with episode.step("wait"):
                        await anyio.sleep(1)
                    mark = Bookmark(next=stage, handles=handles, response="response", result="result")
                    await episode.boundary(mark.model_dump(mode="json"))
                    await anyio.sleep_forever()

            tasks.start_soon(at_boundary)
            await settled()
            await save(one, "c1")
            tasks.cancel_scope.cancel()
        hooks = Rebinds()
        async with house(tmp_path, agent=hooks) as one:
            await take_back(one, "c1", ep("r"))
            stages, results = Stages(one, hooks, sandbox=True, grants=False, stop_at=None), list[Any]()
            await run(stages, ep("r", 2), results)
            assert stages.log.count("seed") == seeds
            assert "invoke_agent" not in stages.log
            assert results == ["result" if stage == "return" else {"response": "response"}]

    test()


async def _reply() -> str:
    return "response"


@simulated
async def test_ck2_ck7_an_agent_that_cannot_rebind_makes_its_episode_a_restart(tmp_path: Path) -> None:
    hooks = CannotRebind(seed_s=10)
    async with house(tmp_path, agent=hooks) as one, anyio.create_task_group() as tasks:
        stages = Stages(one, hooks, sandbox=False, grants=True, stop_at="invoke_agent")
        tasks.start_soon(run, stages, ep("r"), [])
        await anyio.sleep(5)  # the seed of the agent is in flight
        prepared = await save(one, "c1")
        assert prepared.restarts == {ep("r")}
        assert [record for place in (one.agent, one.episodes) for record in saved(place, tmp_path)] == []
        await anyio.sleep(20)
        prepared = await save(one, "c2")
        assert prepared.restarts == {ep("r")}
        assert prepared.episodes == ()
        assert prepared.reports["episodes"].restarts == (ep("r"),), "the episode was told"
        tasks.cancel_scope.cancel()


@simulated
async def test_ck8_seeding_again_is_a_replay_step_and_a_checkpoint_loses_nothing_in_it(tmp_path: Path) -> None:
    hooks = Rebinds()
    async with house(tmp_path, agent=hooks) as one, anyio.create_task_group() as tasks:
        stages = Stages(one, hooks, sandbox=True, grants=True, stop_at="invoke_agent")
        tasks.start_soon(run, stages, ep("r"), [])
        await settled()
        await save(one, "c1")
        tasks.cancel_scope.cancel()
    hooks = Rebinds()
    async with house(tmp_path, agent=hooks) as one, anyio.create_task_group() as tasks:
        await take_back(one, "c1", ep("r"))
        stages = Stages(one, hooks, sandbox=True, grants=True, stop_at="seed")
        tasks.start_soon(run, stages, ep("r", 2), [])
        await settled()
        started = anyio.current_time()
        prepared = await save(one, "c2")
        assert anyio.current_time() - started < 1, "a checkpoint does not wait for it"
        assert prepared.episodes == (ep("r", 2),)
        (record,) = saved(one.agent, tmp_path, "c2")
        assert (record.episode_id, record.boundary) == (ep("r", 2), {"step": 7}), "saved under the attempt to come"
        assert len(saved(one.resources, tmp_path, "c2")) == 1
        tasks.cancel_scope.cancel()
    hooks = Rebinds()
    async with house(tmp_path, agent=hooks) as one:
        await take_back(one, "c2", ep("r", 2))
        stages, results = Stages(one, hooks, sandbox=True, grants=True, stop_at=None), list[Any]()
        await run(stages, ep("r", 3), results)
        assert stages.log == ["seed", "from {'step': 7}", "invoke_agent", "close_agent", "verify"]


@simulated
async def test_ck8_an_agent_that_does_not_rebind_accepts_the_same_seed_and_no_other(tmp_path: Path) -> None:
    hooks = CannotRebind()
    async with house(tmp_path, agent=hooks) as one:
        await one.agent.seed(seed(body={"a": 1}, sandbox={"id": 1}))
        async with one.episodes.episode(ep("r"), task="t", total_s=None) as episode, episode.step("replay"):
            await save(one, "c1")
    async with house(tmp_path, agent=CannotRebind()) as one:
        await take_back(one, "c1", ep("r"))
        with refused("checkpoint_conflict"):
            await one.agent.seed(seed(episode=ep("r", 2), body={"a": 1}, sandbox={"id": 2}))
        reply = await one.agent.seed(seed(episode=ep("r", 2), body={"a": 1}, sandbox={"id": 1}))
        assert (reply.restarts, reply.rebinds_tools) == (False, False)


def test_bookmarks_of_older_versions_load() -> None:
    old = {"resources_session_id": "a", "agent_session_id": "b", "resources_cookies": {}, "agent_cookies": {}}
    handles = Bookmark.model_validate({"next": "invoke_agent", "handles": old}).handles
    assert handles is not None
    assert not handles.are_of_one_attempt


def test_grants_are_of_one_attempt() -> None:
    issuer = GrantIssuer()
    old = issuer.issue("s", ep("r", 1))
    assert issuer.check(old).session_id == "s"
    new = issuer.issue("s", ep("r", 2))
    with refused("unauthorized"):
        issuer.check(old)
    with refused("stale_attempt"):
        issuer.issue("s", ep("r", 1))
    assert issuer.check(new).episode_id == ep("r", 2)
    issuer.revoke("s")
    with refused("unauthorized"):
        issuer.check(new)


@simulated
async def test_what_was_seeded_just_before_the_cut_is_found_again(tmp_path: Path) -> None:
    kept = KeepsNothing()
    hooks = Rebinds()
    async with house(tmp_path, agent=hooks, resources=kept) as one, anyio.create_task_group() as tasks:
        stages = Stages(one, hooks, sandbox=True, grants=True, stop_at="invoke_agent")

        async def seed_agent(body: SeedBody) -> SeedReply:
            reply = await one.agent.seed(body)
            await anyio.sleep(10)  # the session is there, and its episode does not know yet
            return reply

        stages.seed_agent = seed_agent  # type: ignore[method-assign]
        tasks.start_soon(run, stages, ep("r"), [])
        await anyio.sleep(5)
        await save(one, "c1")
        assert len(saved(one.agent, tmp_path)) == len(saved(one.resources, tmp_path)) == 1
        tasks.cancel_scope.cancel()
    hooks = Rebinds()
    async with house(tmp_path, agent=hooks) as one:
        await take_back(one, "c1", ep("r"))
        sessions, results = (set(one.agent._sessions), set(one.resources._sessions)), list[Any]()
        await run(Stages(one, hooks, sandbox=True, grants=True, stop_at=None), ep("r", 2), results)
        assert results == [{"response": "response"}]
        assert hooks.rebound == list(sessions[0])
        assert set(one.resources._sessions) == sessions[1], "no second session was made"
