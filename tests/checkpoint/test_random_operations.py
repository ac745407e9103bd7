"""Real participants under calls that come together, come twice, come late, are cut off, and fail; on simulated time.

``SWE_SDK_OPERATION_STEPS`` sets how many calls are made (6,000 by default).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swe_sdk.checkpoint import Activation, AgentHooks, AgentParticipant, CheckpointSettings, store
from swe_sdk.checkpoint.messages import RenewRequest
from swe_sdk.errors import CheckpointError
from tests.checkpoint.house import commit, ep, prepare, release, restore, resume, retire, seed, within
from tests.checkpoint.virtual import clock, simulate

CALLS = 60
STEPS = int(os.environ.get("SWE_SDK_OPERATION_STEPS", "6000"))
GRACE_S = 15.0
OPERATIONS = ("prepare", "prepare", "commit", "commit", "resume", "renew", "release", "restore", "retire")


class Flaky(AgentHooks):
    """Takes its time, fails now and then, and notes what it was asked for."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.exported: list[str] = []
        self.exporting = 0
        self.released: list[str] = []

    async def _something(self) -> None:
        await anyio.sleep(self.random.choice((0, 0, 2, 8)))
        if self.random.random() < 0.15:
            raise OSError("no space left on device")

    async def export_agent_sessions(self, keys: Iterable[str], *, checkpoint_id: str) -> dict[str, Any]:
        self.exporting += 1
        assert self.exporting == 1, "two exports at once"
        try:
            await self._something()
        finally:
            self.exporting -= 1
        self.exported.append(checkpoint_id)
        return dict.fromkeys(keys)

    async def release_external_state(self, kept: frozenset[str]) -> int:
        await self._something()
        return len(kept)


class Storm:
    """One participant, and everybody who calls it."""

    def __init__(self, directory: Path, random_seed: int) -> None:
        self.directory = directory
        self.random = Random(random_seed)
        self.hooks = Flaky(self.random)
        self.house = AgentParticipant(
            hooks=self.hooks, clock=clock, settings=CheckpointSettings(lease_grace_seconds=GRACE_S)
        )
        self.replies: dict[str, Any] = {}
        self.over: set[str] = set()
        self.number = 0
        self.slots = anyio.Semaphore(2, max_value=2)

    async def run(self, codes: list[bytes]) -> None:
        async with self.house, anyio.create_task_group() as tasks:
            for number in range(3):
                await self.house.seed(seed(f"s{number}", ep(f"r{number}")))
                tasks.start_soon(self._agent, f"s{number}")
            async with anyio.create_task_group() as calls:
                for code in codes:
                    self._call(code, calls)
                    await anyio.sleep((code[3] % 16) / 4)
                    self._check()
            await anyio.sleep(GRACE_S + 40)  # whoever was closed opens by itself
            assert not self.house.is_closed
            self._check()
            assert (await prepare(self.house, "last")).report.ready
            await resume(self.house, "last")
            tasks.cancel_scope.cancel()
        assert self.slots.value == 2

    async def _agent(self, session: str) -> None:
        async def work(activation: Activation) -> None:
            while True:
                await activation.boundary({"at": anyio.current_time()})
                async with activation.queued(self.slots):
                    assert not self.house.is_closed or activation.state == "running"
                    await anyio.sleep(self.random.choice((0.1, 1, 4)))

        with pytest.raises(CheckpointError, match="stale_attempt"):
            await self.house.activate(session, 1, work)

    def _call(self, code: bytes, calls: TaskGroup) -> None:
        operation = OPERATIONS[code[0] % len(OPERATIONS)]
        open_id = self.house.control.checkpoint_id
        if open_id and code[1] < 190:
            name = open_id
        else:
            self.number += code[1] % 3 == 0
            name = f"c{max(0, self.number - (code[1] % 4 == 3))}"
        calls.start_soon(self._guarded, operation, name, (code[2] % 80) / 4 - 1, (code[4] % 40) / 4)

    async def _guarded(self, operation: str, name: str, deadline_s: float, patience_s: float) -> None:
        """One call; its caller goes away when it has no patience left."""
        try:
            with anyio.move_on_after(patience_s if patience_s > 1 else None):
                await getattr(self, f"_{operation}")(name, deadline_s)
        except (CheckpointError, OSError):
            return

    async def _prepare(self, name: str, seconds: float) -> None:
        was_over = name in self.over
        await prepare(self.house, name, seconds=seconds)
        assert not was_over, "a checkpoint that is over was begun again"

    async def _commit(self, name: str, seconds: float) -> None:
        was_over = name in self.over
        reply = await commit(self.house, self.directory, name, seconds=seconds)
        assert not was_over, "a commit of a checkpoint that is over"
        assert self.replies.setdefault(name, reply) == reply, "another reply"
        place = store.folder(self.directory / name, "agent", "agent")
        assert store.check(place).records_sha256 == reply.records_sha256
        assert self.hooks.exported.count(name) >= (1 if reply.record_count else 0)

    async def _resume(self, name: str, seconds: float) -> None:
        await resume(self.house, name, seconds=seconds)
        self.over.add(name)

    async def _renew(self, name: str, seconds: float) -> None:
        before = self.house.control.lease_expires_at or 0.0
        reply = await self.house.renew(RenewRequest(checkpoint_id=name, **within(seconds)))
        assert reply.lease_expires_at >= before

    async def _release(self, name: str, seconds: float) -> None:
        newest = self.house.control.newest
        await release(self.house, name, [name], seconds=seconds)
        assert newest is not None

    async def _restore(self, name: str, seconds: float) -> None:
        await restore(self.house, self.directory, [], name, seconds=seconds)
        pytest.fail("it was restored over live sessions")

    async def _retire(self, name: str, seconds: float) -> None:
        await retire(self.house, ep(f"r{self.random.randrange(3)}"), name=f"x{name}", seconds=seconds)

    def _check(self) -> None:
        control = self.house.control
        assert control.is_closed == (control.checkpoint_id is not None)
        assert control.lease_expires_at is None or clock() <= control.lease_expires_at + 12, "closed past its lease"
        for name in self.over & {control.checkpoint_id}:
            assert control.lease_expires_at is not None, name
        for place in self.directory.glob("*/gym/agent/agent/manifest.json"):
            name = place.parents[3].name
            assert self.hooks.exported.count(name) <= 1 or name not in self.replies, f"{name} was exported twice"


@settings(
    max_examples=max(1, STEPS // CALLS),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(st.integers(0, 2**32), st.lists(st.binary(min_size=5, max_size=5), min_size=CALLS, max_size=CALLS))
def test_no_storm_of_calls_breaks_a_participant(random_seed: int, codes: list[bytes]) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        simulate(lambda: Storm(Path(directory), random_seed).run(codes))


def test_a_random_storm_reaches_commits_and_releases() -> None:
    saved = released = 0
    for number in range(20):
        random = Random(number)
        with tempfile.TemporaryDirectory() as directory:
            storm = Storm(Path(directory), number)
            codes = [random.randbytes(5) for _ in range(CALLS)]
            simulate(lambda storm=storm, codes=codes: storm.run(codes))  # type: ignore[misc]
            saved += len(storm.replies)
            released += storm.house.control.answers.get("release") is not None
    assert saved >= 20
    assert released >= 5
