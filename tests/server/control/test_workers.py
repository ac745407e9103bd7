"""Several workers as one participant: CK-14, and the parts of CK-4, CK-8 and CK-10 that are about all workers."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.checkpoint import ModelParticipant, ResourcesParticipant
from swe_sdk.checkpoint.call_gate import CallGate
from swe_sdk.checkpoint.messages import (
    ForgetRequest,
    ReleaseRequest,
)
from swe_sdk.checkpoint.participant import Participant
from swe_sdk.checkpoint.participants.activation import Activation
from swe_sdk.checkpoint.store import folder, read_manifest
from swe_sdk.server.control.workers import Member
from swe_sdk.testing import ParticipantCase, ParticipantSuite
from tests.checkpoint.house import KeepsNothing, ep, refused, seed
from tests.server.control.crews import (
    agents,
    commit,
    crew_of,
    in_real_time,
    in_time,
    kept,
    prepare,
    restore,
    resume,
    retire,
    states_of,
    touch,
    until,
)
from tests.server.control.over_http import connected
from tests.testing.test_participant_suite import AgentCase, DiskCase


@in_real_time
async def test_ck14_the_park_signal_reaches_every_worker_and_restarts_come_from_every_worker(tmp_path: Path) -> None:
    async with crew_of("agent", agents, tmp_path, workers=3) as crew, anyio.create_task_group() as tasks:
        parked: list[str] = []

        async def work(activation: Activation) -> str:
            await activation.wait_park_requested()
            parked.append(activation.session_id)
            await activation.boundary({"of": activation.session_id})
            return "done"

        for number, worker in enumerate(crew.workers):
            await worker.participant.seed(seed(f"s{number}", ep(f"r{number}")))
            await worker.participant.seed(seed(f"x{number}", ep(f"q{number}"), tool_grants=("grant",)))
            tasks.start_soon(worker.participant.activate, f"s{number}", 1, work)
        report = await prepare(crew.hub)
        assert sorted(parked) == ["s0", "s1", "s2"]
        assert report.ready
        assert set(report.restarts) == {ep("q0"), ep("q1"), ep("q2")}
        assert report.counts == {"at_boundary": 3, "first_seeds": 0, "idle": 3}
        with refused("restart_in_scope"):
            await commit(crew.hub, tmp_path, scope=[ep("q1")])
        written = await commit(crew.hub, tmp_path, scope=[ep(f"r{number}") for number in range(3)])
        assert written.record_count == 3
        manifest = read_manifest(folder(tmp_path / "c1", "agent", "agent"))
        owners = {f"{letter}{number}": f"w{number}" for letter in "sx" for number in range(3)}
        assert manifest.model_extra is not None
        assert manifest.model_extra["session_owners"] == owners, "those that are not saved are found again as well"
        await resume(crew.hub)
        assert not any(worker.participant.is_closed for worker in crew.workers)


@in_real_time
async def test_a_worker_that_is_late_with_its_report_is_waited_for(tmp_path: Path) -> None:
    async with crew_of("resources", kept, tmp_path) as crew:
        first, second = crew.workers
        async with second.participant.request("s", ep("r")):
            report = await prepare(crew.hub, seconds=0.3)
            assert report.blockers == ("w1: 1 requests to session s are in flight",)
            assert first.participant.is_closed
        assert (await prepare(crew.hub)).ready
        status = await crew.hub.status()
        assert (status.phase, status.extras["workers"], status.extras["expected_workers"]) == ("prepared", 2, 2)
        assert status.extras["mode"] == "exported"


@in_real_time
async def test_a_worker_that_joins_while_closed_is_closed_and_one_that_is_lost_then_blocks(tmp_path: Path) -> None:
    async with crew_of("resources", kept, tmp_path) as crew:
        await touch(crew.workers[0], "s", ep("r"))
        assert (await prepare(crew.hub)).ready
        late = await crew.start("late")
        assert late.participant.is_closed
        await commit(crew.hub, tmp_path)
        await resume(crew.hub)
        assert not late.participant.is_closed

        assert (await prepare(crew.hub, "c2")).ready
        await crew.workers[0].kill()
        await until(lambda: len(crew.hub.crew.workers) == 2)
        with refused("checkpoint_error"):
            await commit(crew.hub, tmp_path, "c2")
        assert not (tmp_path / "c2").exists()
        await resume(crew.hub, "c2")
        report = await prepare(crew.hub, "c3", seconds=5)
        assert report.ready, "what it had is over, and holds nothing up any more"
        assert report.counts["sessions"] == 0
        assert ep("r") in report.restarts, "its episode counts on a session that nobody has"


@in_real_time
async def test_a_worker_that_is_lost_while_it_exports_fails_the_commit(tmp_path: Path) -> None:
    exporting = anyio.Event()

    class Slow(KeepsNothing):
        async def export_session_states(self, ids: Iterable[str], *, checkpoint_id: str) -> dict[str, Any]:
            exporting.set()
            await anyio.sleep_forever()
            raise AssertionError

    def made(member: Member) -> ResourcesParticipant:
        return ResourcesParticipant(hooks=Slow() if member.name == "w1" else KeepsNothing())

    async with crew_of("resources", made, tmp_path) as crew, anyio.create_task_group() as tasks:
        for number, worker in enumerate(crew.workers):
            await touch(worker, f"s{number}", ep("r"))
        assert (await prepare(crew.hub)).ready

        async def kill_later() -> None:
            await exporting.wait()
            await crew.workers[1].kill()

        tasks.start_soon(kill_later)
        with refused("checkpoint_error"):
            await commit(crew.hub, tmp_path)
        assert not (tmp_path / "c1").exists()
        await resume(crew.hub)


@in_real_time
async def test_retired_attempts_are_stopped_everywhere_and_those_who_join_know_of_them(tmp_path: Path) -> None:
    async with crew_of("resources", kept, tmp_path) as crew:
        for number, worker in enumerate(crew.workers):
            await touch(worker, f"s{number}", ep("r"))
        await retire(crew.hub, ep("r"))
        assert states_of(crew) == {"w0": set(), "w1": set()}
        late = await crew.start("late")
        for worker in crew.workers:
            with refused("stale_attempt"):
                await touch(worker, "s", ep("r"))
        await crew.hub.forget(ForgetRequest(checkpoint_id="f", rollout_ids=("r",), **in_time()))
        await until(lambda: not late.participant.marks.as_dict())
        await touch(late, "s", ep("r"))


@in_real_time
async def test_ck4_ck8_ck10_hooks_of_all_workers_are_told_the_same(tmp_path: Path) -> None:
    async with crew_of("resources", kept, tmp_path, workers=3) as crew:
        hooks = [worker.participant.hooks for worker in crew.workers]
        for name in ("c1", "c2"):
            for worker in crew.workers:
                await touch(worker, worker.member.name, ep(worker.member.name))
            await prepare(crew.hub, name)
            await commit(crew.hub, tmp_path, name)
            await resume(crew.hub, name)
        assert [hook.exported for hook in hooks] == [["c1", "c2"]] * 3, "the checkpoint that is committed"
        with refused("stale_checkpoint"):
            await crew.hub.release(ReleaseRequest(checkpoint_id="c1", kept=("c1",), **in_time()))
        assert [hook.released for hook in hooks] == [[]] * 3
        released = await crew.hub.release(ReleaseRequest(checkpoint_id="c2", kept=("c2",), **in_time()))
        assert released.released == 3
        assert [hook.released for hook in hooks] == [[frozenset({"c2"})]] * 3
        hooks[1].mode = "restart_only"
        await crew.hub.release(ReleaseRequest(checkpoint_id="c2", kept=(), **in_time()))
        assert [len(hook.released) for hook in hooks] == [2, 1, 2]
        assert (await crew.hub.status()).extras["mode"] == "restart_only", "as far as the weakest worker"


@in_real_time
async def test_the_ledger_of_a_rollout_is_whole_wherever_its_calls_were_made(tmp_path: Path) -> None:
    gates: dict[str, CallGate] = {}

    def models(member: Member) -> ModelParticipant:
        gate = gates[member.name] = CallGate()
        return ModelParticipant(gate=gate, rows=gate.rows)

    async with crew_of("model", models, tmp_path) as crew:
        for number, gate in enumerate([gates["w0"], gates["w1"], gates["w1"]]):
            async with gate.call(ep("r")) as call:
                await call.deliver({"n": number})
        assert (await prepare(crew.hub)).ready
        with refused("admission_closed"):
            async with gates["w1"].call(ep("r")):
                pass
        assert (await commit(crew.hub, tmp_path)).record_count == 1
        await resume(crew.hub)
    async with crew_of("model", models, tmp_path, prefix="v") as crew:
        await restore(crew.hub, tmp_path, ep("r"))
        await resume(crew.hub)
        async with gates["v1"].call(ep("r", 2)) as call:
            await call.deliver({"n": 3})
        await prepare(crew.hub, "c2")
        await commit(crew.hub, tmp_path, "c2", scope=[ep("r", 2)])
        await resume(crew.hub, "c2")
    async with crew_of("model", models, tmp_path, prefix="u", workers=1) as crew:
        await restore(crew.hub, tmp_path, ep("r", 2), name="c2")
        assert gates["u0"].rows.captured() == {ep("r", 2): [{"n": number} for number in range(4)]}


@in_real_time
async def test_a_control_call_may_come_to_any_worker(tmp_path: Path) -> None:
    async with crew_of("agent", agents, tmp_path) as crew:
        for number, worker in enumerate(crew.workers):
            async with connected(worker.member.control) as client:
                assert (await prepare(client, f"c{number}")).ready
                assert all(one.participant.is_closed for one in crew.workers)
                with refused("checkpoint_conflict"):
                    await prepare(client, "other")
                written = await commit(client, tmp_path, f"c{number}")
                assert written == await commit(crew.hub, tmp_path, f"c{number}")
                await resume(client, f"c{number}")
                assert (await client.status()).extras["workers"] == 2


@in_real_time
async def test_workers_end_with_their_coordinator(tmp_path: Path) -> None:
    async with crew_of("agent", agents, tmp_path) as crew:
        assert stat.S_IMODE(crew.hub.socket_path.stat().st_mode) == 0o600
        wrong = await crew.start("w0")
        assert wrong.failure is not None
        assert "there is a worker w0 already" in wrong.failure.detail
        crew._make = kept
        wrong = await crew.start("other")
        assert wrong.failure is not None
        assert "of kind agent" in wrong.failure.detail
        for seat in list(crew.hub.crew._seats.values()):
            seat.link.close()
        for worker in crew.workers[:2]:
            await worker.over.wait()
            assert worker.failure is not None
            assert worker.failure.code == "checkpoint_coordinator_unavailable"
            with refused("checkpoint_coordinator_unavailable"):
                await worker.member.control.status()


class ByAWorker(ParticipantCase):
    """The participant is the only worker of a server, and is asked over HTTP at its worker."""

    kind: Any
    place: Path

    @asynccontextmanager
    async def control(self, participant: Any) -> AsyncIterator[Participant]:
        def made(member: Member) -> Any:
            raise AssertionError

        async with crew_of(self.kind, made, self.place, workers=0) as crew:
            member = Member(crew.hub.socket_path)
            async with member.joined(participant), connected(member.control) as client:
                yield client


class DiskByAWorker(ByAWorker, DiskCase):
    kind = "resources"


class AgentByAWorker(ByAWorker, AgentCase):
    kind = "agent"


class _OfAWorker(ParticipantSuite):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        ByAWorker.place = tmp_path


class TestDiskByAWorker(_OfAWorker):
    def make_case(self) -> ParticipantCase:
        return DiskByAWorker()


class TestAgentByAWorker(_OfAWorker):
    def make_case(self) -> ParticipantCase:
        return AgentByAWorker()
