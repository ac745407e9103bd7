"""What all participants share: commits that outlive their callers, aborts, leases, release (CK-4, CK-8, CK-10)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.checkpoint import (
    AgentHooks,
    AgentParticipant,
    CheckpointSettings,
    ResourcesParticipant,
    RestartOnlyParticipant,
    SandboxCheckpointer,
)
from swe_sdk.checkpoint.messages import RenewRequest
from swe_sdk.checkpoint.store import folder
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.testing import FakeProvider
from tests.checkpoint.house import (
    KeepsNothing,
    commit,
    ep,
    house,
    prepare,
    refused,
    release,
    restore,
    resume,
    retire,
    saved,
    seed,
    settled,
    within,
)
from tests.checkpoint.virtual import clock, simulated


class SlowExport(AgentHooks):
    """Exports for ten seconds, and counts."""

    def __init__(self) -> None:
        self.exports: list[str] = []

    async def export_agent_sessions(self, keys: Iterable[str], *, checkpoint_id: str) -> dict[str, Any]:
        self.exports.append(checkpoint_id)
        await anyio.sleep(10)
        return dict.fromkeys(keys)


def manifest(one: Any, directory: Path, name: str = "c1") -> Path:
    return folder(directory / name, one.kind, one.instance) / "manifest.json"


@simulated
async def test_an_export_outlives_its_deadline_and_a_retry_awaits_the_same_one(tmp_path: Path) -> None:
    hooks = SlowExport()
    async with AgentParticipant(hooks=hooks, clock=clock) as house:
        await house.seed(seed())
        await prepare(house)
        with refused("deadline_exceeded"):
            await commit(house, tmp_path, seconds=2)
        await anyio.sleep(3)
        with refused("checkpoint_conflict"):
            await commit(house, tmp_path, episodes=[ep("r")])
        first = await commit(house, tmp_path)
        assert await commit(house, tmp_path) == first
        assert hooks.exports == ["c1"]
        assert (await house.status()).phase == "committed"
        await resume(house)


@simulated
async def test_an_export_survives_a_caller_that_goes(tmp_path: Path) -> None:
    hooks = SlowExport()
    async with AgentParticipant(hooks=hooks, clock=clock) as house:
        await house.seed(seed())
        await prepare(house)
        with anyio.move_on_after(1):
            await commit(house, tmp_path)
        await anyio.sleep(20)
        assert (await house.status()).phase == "committed"
        assert (await commit(house, tmp_path)).record_count == 1
        assert hooks.exports == ["c1"]


@simulated
async def test_a_resume_gives_up_a_commit_that_has_no_manifest(tmp_path: Path) -> None:
    async with AgentParticipant(hooks=SlowExport(), clock=clock) as house, anyio.create_task_group() as tasks:
        await house.seed(seed())
        await prepare(house)

        async def call() -> None:
            with refused("stale_checkpoint"):
                await commit(house, tmp_path)

        tasks.start_soon(call)
        await anyio.sleep(4)
        assert (await resume(house)).phase == "idle"
        await anyio.sleep(20)
        assert not manifest(house, tmp_path).exists()
        with refused("stale_checkpoint"):
            await commit(house, tmp_path)


@simulated
async def test_a_failed_export_stays_prepared_and_may_be_repeated(tmp_path: Path) -> None:
    class FailsOnce(AgentHooks):
        calls = 0

        async def export_agent_sessions(self, keys: Iterable[str], *, checkpoint_id: str) -> dict[str, Any]:
            self.calls += 1
            if self.calls == 1:
                raise OSError("no space left")
            return dict.fromkeys(keys)

    async with AgentParticipant(hooks=FailsOnce(), clock=clock) as house:
        await house.seed(seed())
        await prepare(house)
        with pytest.raises(OSError, match="no space"):
            await commit(house, tmp_path)
        assert (await house.status()).phase == "prepared"
        assert not manifest(house, tmp_path).exists()
        assert (await commit(house, tmp_path)).record_count == 1


@simulated
async def test_a_participant_opens_by_itself_when_its_lease_ends(tmp_path: Path) -> None:
    async with AgentParticipant(clock=clock, settings=_grace(50)) as house:
        await prepare(house, seconds=10)
        await anyio.sleep(20)
        renewed = await house.renew(RenewRequest(checkpoint_id="c1", **within(10)))
        assert renewed.lease_expires_at == pytest.approx(clock() + 60)
        await anyio.sleep(59.9)
        assert house.is_closed
        await anyio.sleep(0.2)
        assert not house.is_closed
        with refused("stale_checkpoint"):
            await commit(house, tmp_path)
        assert (await resume(house)).phase == "idle"


@simulated
async def test_a_clock_that_is_set_forward_keeps_nobody_closed() -> None:
    ahead = 0.0
    async with AgentParticipant(clock=lambda: clock() + ahead, settings=_grace(3600)) as house:
        await prepare(house, seconds=10)
        await anyio.sleep(1)
        ahead = 7200.0
        await anyio.sleep(6)
        assert not house.is_closed, "its lease is over"


@simulated
async def test_a_lease_that_ends_while_restored_state_is_cleaned_up_keeps_it_closed_and_is_tried_again(
    tmp_path: Path,
) -> None:
    class Slow(KeepsNothing):
        tries = 0

        async def settle(self) -> None:
            self.tries += 1
            await anyio.sleep(0 if self.tries > 1 else 1000)

    hooks = Slow()
    async with ResourcesParticipant(hooks=KeepsNothing(), clock=clock) as house:
        await prepare(house)
        await commit(house, tmp_path)
    async with ResourcesParticipant(hooks=hooks, clock=clock, settings=_grace(10)) as house:
        await restore(house, tmp_path, [], seconds=10)
        await anyio.sleep(21)
        assert house.is_closed
        await anyio.sleep(10)
        assert hooks.tries == 2
        assert not house.is_closed


@simulated
async def test_a_failing_readiness_opens_again() -> None:
    class Fails(ResourcesParticipant):
        fails = True

        def _report(self) -> Any:
            if self.fails:
                raise RuntimeError("cannot tell")
            return super()._report()

    async with Fails(hooks=KeepsNothing(), clock=clock) as house:
        with pytest.raises(RuntimeError, match="cannot tell"):
            await prepare(house)
        assert not house.is_closed
        house.fails = False
        assert (await prepare(house)).report.ready, "the same id may be tried again"


@simulated
async def test_a_prepare_that_is_overtaken_by_a_resume_says_so() -> None:
    async with ResourcesParticipant(hooks=KeepsNothing(), clock=clock) as house, anyio.create_task_group() as tasks:

        async def call() -> None:
            with refused("stale_checkpoint"):
                await prepare(house)

        async with house.request("s", ep("r")):
            tasks.start_soon(call)
            await anyio.sleep(1)
            await resume(house)
        await settled()
        assert not house.is_closed


# -- release -----------------------------------------------------------------------------------------------------------


async def cut(house: Any, directory: Path, name: str) -> None:
    await prepare(house, name)
    await commit(house, directory, name)
    await resume(house, name)


@simulated
async def test_ck4_a_late_release_of_an_older_checkpoint_calls_no_hook(tmp_path: Path) -> None:
    hooks = KeepsNothing()
    async with ResourcesParticipant(hooks=hooks, clock=clock) as house:
        await cut(house, tmp_path, "c1")
        await cut(house, tmp_path, "c2")
        with refused("stale_checkpoint"):
            await release(house, "c1", ["c1"])
        await resume(house, "c1")  # late, and without effect
        with refused("stale_checkpoint"):
            await release(house, "c1", ["c1"])
        assert hooks.released == []
        first = await release(house, "c2", ["c1", "c2"])
        assert await release(house, "c2", ["c2", "c1"]) == first, "an identical retry"
        assert hooks.released == [frozenset({"c1", "c2"})]
        await release(house, "c2", [])  # at the end of a run
        assert hooks.released[-1] == frozenset()


@simulated
async def test_ck4_nothing_is_released_while_a_checkpoint_is_open(tmp_path: Path) -> None:
    hooks = KeepsNothing()
    async with ResourcesParticipant(hooks=hooks, clock=clock) as house:
        await cut(house, tmp_path, "c1")
        await prepare(house, "c2")
        for _phase in ("prepared", "committed"):
            for name in ("c1", "c2"):
                with refused("invalid_phase"):
                    await release(house, name)
            await commit(house, tmp_path, "c2")
        await resume(house, "c2")
    async with ResourcesParticipant(hooks=hooks, clock=clock) as house:
        await restore(house, tmp_path, [], "c2")
        with refused("invalid_phase"):
            await release(house, "c2")
        await resume(house, "c2")
        assert hooks.released == []
        await release(house, "c2", ["c2"])
        assert hooks.released == [frozenset({"c2"})]


@simulated
async def test_a_release_under_an_id_that_was_never_seen_does_nothing_and_leaves_no_trace(tmp_path: Path) -> None:
    """It comes before its save has begun here, or late, after others: whenever that is, no hook hears of it."""
    hooks = KeepsNothing()
    async with ResourcesParticipant(hooks=hooks, clock=clock) as house:

        async def comes(code: str) -> None:
            before = house.control
            for _again in range(2):
                with refused(code):
                    await release(house, "c3", [])
            assert house.control == before

        await comes("stale_checkpoint")
        await cut(house, tmp_path, "c1")
        await comes("stale_checkpoint")
        await prepare(house, "c2")
        await comes("invalid_phase")
        await commit(house, tmp_path, "c2")
        await comes("invalid_phase")
        await resume(house, "c2")
        await comes("stale_checkpoint")
        await prepare(house, "lost", seconds=5)
        await anyio.sleep(700)  # its coordinator is gone, and its lease has ended
        await comes("stale_checkpoint")
        assert hooks.released == []
        await cut(house, tmp_path, "c3")  # the save comes after all, and now it may release
        assert (await release(house, "c3", ["c3"])).released == 1
    async with ResourcesParticipant(hooks=hooks, clock=clock) as house:
        await restore(house, tmp_path, [], "c3")
        with refused("invalid_phase"):
            await release(house, "c4", [])
        await resume(house, "c3")
    assert hooks.released == [frozenset({"c3"})]


@simulated
async def test_ck8_release_reaches_the_hook_in_exported_mode_only(tmp_path: Path) -> None:
    for mode, calls in (("exported", 1), ("stateless", 0), ("restart_only", 0)):
        hooks = KeepsNothing(mode)
        async with ResourcesParticipant(hooks=hooks, clock=clock) as house:
            await cut(house, tmp_path / mode, "c1")
            assert (await release(house, "c1", ["c1"])).released == calls
            assert len(hooks.released) == calls


@simulated
async def test_ck8_the_hooks_are_told_the_checkpoint_that_is_committed(tmp_path: Path) -> None:
    hooks, agent = KeepsNothing(), SlowExport()
    async with ResourcesParticipant(hooks=hooks, clock=clock) as house:
        async with house.request("s", ep("r")):
            pass
        for name in ("c1", "c2"):
            await cut(house, tmp_path, name)
    async with AgentParticipant(hooks=agent, clock=clock) as sessions:
        await sessions.seed(seed())
        for name in ("c1", "c2"):
            await cut(sessions, tmp_path, name)
    assert hooks.exported == agent.exports == ["c1", "c2"]


@simulated
async def test_ck10_a_release_runs_under_the_lock_with_admission_open_and_is_cut_at_its_deadline(
    tmp_path: Path,
) -> None:
    class Slow(KeepsNothing):
        calls = 0

        async def release_external_state(self, kept: frozenset[str]) -> int:
            self.calls += 1
            await anyio.sleep(20 if self.calls == 1 else 0)
            return self.calls

    hooks = Slow()
    async with ResourcesParticipant(hooks=hooks, clock=clock) as house, anyio.create_task_group() as tasks:
        await cut(house, tmp_path, "c1")

        async def call() -> None:
            with refused("deadline_exceeded"):
                await release(house, "c1", [], seconds=5)

        tasks.start_soon(call)
        await settled()
        async with house.request("s", ep("r")):
            pass
        started = anyio.current_time()
        assert (await prepare(house, "c2")).report.ready
        assert anyio.current_time() - started == pytest.approx(5, abs=0.1)
        await resume(house, "c2")
        with refused("stale_checkpoint"):
            await release(house, "c1", [])
        assert (await release(house, "c2", [])).released == 2, "a release that was cut is made again"


# -- resources and restart-only ----------------------------------------------------------------------------------------


@simulated
async def test_requests_wait_while_closed_and_closing_is_never_refused(tmp_path: Path) -> None:
    closed: list[str] = []

    class Closes(KeepsNothing):
        async def close_session_state(self, session_id: str) -> None:
            closed.append(session_id)

    async with ResourcesParticipant(hooks=Closes(), clock=clock) as house, anyio.create_task_group() as tasks:
        log: list[bool] = []

        async def request() -> None:
            async with house.request("s", ep("r")):
                log.append(house.is_closed)
                await anyio.sleep(3)

        await request()
        tasks.start_soon(request)
        await settled()
        assert (await prepare(house, seconds=1)).report.blockers == ("1 requests to session s are in flight",)
        assert (await prepare(house)).report.ready
        tasks.start_soon(request)
        await anyio.sleep(5)
        assert log == [False, False]
        await commit(house, tmp_path)
        await resume(house)
        await settled()
        assert log == [False, False, False]
        await anyio.sleep(5)
        house.marks.retire([ep("r")])
        with refused("stale_attempt"):
            await request()
        await house.close_session("s")
        await house.close_session("s")
        assert closed == ["s"]


@simulated
async def test_a_restored_session_waits_for_its_claim_and_is_saved_again_until_then(tmp_path: Path) -> None:
    hooks = KeepsNothing()
    async with ResourcesParticipant(hooks=hooks, clock=clock) as house:
        hooks.states["s"] = {"score": 7}
        async with house.request("s", ep("r")):
            pass
        await cut(house, tmp_path, "c1")
    hooks = KeepsNothing()
    async with ResourcesParticipant(hooks=hooks, clock=clock) as house:
        await restore(house, tmp_path, [ep("r")])
        assert hooks.states == {"s": {"score": 7}}
        await resume(house)
        await prepare(house, "c2")
        await commit(house, tmp_path, "c2", episodes=[ep("r", 2)])
        assert [(one.episode_id, one.state) for one in saved(house, tmp_path, "c2")] == [(ep("r", 2), {"score": 7})]
        await resume(house, "c2")
        async with house.request("s", ep("r", 2)):
            pass
        with refused("stale_attempt"):
            async with house.request("s", ep("r", 1)):
                pass
        await retire(house, ep("r", 2))
        assert (await house.status()).extras["retired_sessions"] == 0


@simulated
async def test_what_was_restored_and_is_out_of_scope_is_freed_by_the_next_commit(tmp_path: Path) -> None:
    freed: list[str] = []

    class Frees(KeepsNothing):
        async def retire_session_state(self, session_id: str) -> None:
            freed.append(session_id)

    class FreesToo(AgentHooks):
        async def retire_agent_session(self, key: str) -> None:
            freed.append(key)
            raise OSError("later")

    async with house(tmp_path, agent=FreesToo(), resources=Frees()) as one:
        for name in ("a", "b"):
            await one.agent.seed(seed(f"s{name}", ep(name)))
            async with one.resources.request(f"r{name}", ep(name)):
                pass
        for participant in (one.agent, one.resources):
            await cut(participant, tmp_path, "c1")
    async with house(tmp_path, agent=FreesToo(), resources=Frees()) as one:
        for participant in (one.agent, one.resources):
            await restore(participant, tmp_path, [ep("a"), ep("b")], "c1")
            await resume(participant, "c1")
            await prepare(participant, "c2")
            assert (await commit(participant, tmp_path, "c2", episodes=[ep("a", 2)])).record_count == 1
            await settled()
            assert (await participant.status()).phase == "committed"
        assert sorted(freed) == ["rb", "sb"]


@simulated
async def test_the_mode_is_that_of_each_instance(tmp_path: Path) -> None:
    providers: list[SandboxProvider] = [FakeProvider(), FakeProvider(capabilities=())]
    for provider, mode in zip(providers, ("exported", "restart_only"), strict=True):
        hooks = SandboxCheckpointer(provider, state_dir=tmp_path / mode)
        async with ResourcesParticipant(hooks=hooks, clock=clock) as house:
            async with house.request("s", ep("r")):
                report = (await prepare(house, seconds=1)).report
            assert (await house.status()).extras["mode"] == mode
            assert report.restarts == ((ep("r"),) if mode == "restart_only" else ())
            assert report.ready == (mode == "restart_only"), "what cannot be saved holds nothing up"


@simulated
async def test_a_restart_only_participant_never_blocks_and_names_what_is_in_flight(tmp_path: Path) -> None:
    flying: list[Any] = [ep("a"), ep("b", 3)]
    async with RestartOnlyParticipant("agent", "legacy", in_flight=lambda: flying, clock=clock) as house:
        report = (await prepare(house)).report
        assert (report.ready, report.restarts) == (True, (ep("a"), ep("b", 3)))
        assert (await commit(house, tmp_path)).record_count == 0
        await resume(house)
        assert (await house.status()).kind == "agent"


def _grace(seconds: float) -> Any:
    return CheckpointSettings(lease_grace_seconds=seconds)
