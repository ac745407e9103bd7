"""Real participants under calls that come together, come twice, come late, are cut off, and fail; on simulated time.

``SWE_SDK_OPERATION_STEPS`` sets how many calls are made to those of all kinds (6,000 by default).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swe_sdk.checkpoint import CheckpointSettings, store
from swe_sdk.checkpoint.messages import ForgetRequest, RenewRequest
from swe_sdk.errors import CheckpointError
from tests.checkpoint.house import commit, ep, prepare, release, restore, resume, retire, within
from tests.checkpoint.storm import KINDS
from tests.checkpoint.virtual import clock, simulate

CALLS = 60
STEPS = int(os.environ.get("SWE_SDK_OPERATION_STEPS", "6000"))
STORMS = max(4, STEPS // CALLS)
GRACE_S = 15.0
OPERATIONS = (
    "prepare", "prepare", "commit", "commit", "resume", "renew", "release", "restore", "retire", "forget",
)  # fmt: skip
ROLLOUTS = 3


class Storm:
    """One participant, everybody who works there, and everybody who calls it."""

    def __init__(self, directory: Path, kind: str, random_seed: int) -> None:
        self.directory = directory
        self.random = Random(random_seed)
        self.work = KINDS[kind](self.random, clock=clock, settings=CheckpointSettings(lease_grace_seconds=GRACE_S))
        self.house = self.work.participant
        self.exported: list[str] = []
        self.exporting = 0
        self.replies: dict[str, Any] = {}
        self.over: set[str] = set()
        self.number = self.calls = 0
        self._real_export, self._real_release = self.house._export, self.house._release
        self.house._export = self._flaky_export  # type: ignore[method-assign]
        self.house._release = self._flaky_release  # type: ignore[method-assign]

    async def run(self, codes: list[bytes]) -> None:
        async with self.house, anyio.create_task_group() as tasks:
            for number in range(ROLLOUTS):
                tasks.start_soon(self.work.rollout, f"r{number}")
            async with anyio.create_task_group() as calls:
                for code in codes:
                    self._call(code, calls)
                    await anyio.sleep((code[3] % 16) / 4)
                    self._check()
            await anyio.sleep(GRACE_S + 40)  # whoever was closed opens by itself
            assert not self.house.is_closed
            self._check()
            before = self.work.done
            await anyio.sleep(20)
            assert self.work.done > before, "nobody works any more"
            assert (await prepare(self.house, "last")).report.ready
            assert self.work.uncut == 0
            await resume(self.house, "last")
            tasks.cancel_scope.cancel()
        assert self.work.slots.value == 2

    # -- what it has to save takes its time, and fails now and then --------------------------------------------------

    async def _something(self) -> None:
        await anyio.sleep(self.random.choice((0, 0, 2, 8)))
        if self.random.random() < 0.15:
            raise OSError("no space left on device")

    async def _flaky_export(self, checkpoint_id: str, scope: Any) -> Any:
        self.exporting += 1
        assert self.exporting == 1, "two exports at once"
        try:
            with self._cut():
                await self._something()
                records = await self._real_export(checkpoint_id, scope)
        finally:
            self.exporting -= 1
        self.exported.append(checkpoint_id)
        return records

    @contextmanager
    def _cut(self) -> Iterator[None]:
        """While it is written, nothing goes on that must not be cut."""
        assert self.work.uncut == 0
        done = self.work.done
        yield
        assert (self.work.uncut, self.work.done) == (0, done), "it went on while it was saved"

    async def _flaky_release(self, kept: frozenset[str]) -> int:
        await self._something()
        return await self._real_release(kept)

    # -- calls -------------------------------------------------------------------------------------------------------

    def _call(self, code: bytes, calls: TaskGroup) -> None:
        operation = OPERATIONS[code[0] % len(OPERATIONS)]
        open_id = self.house.control.checkpoint_id
        if open_id and code[1] < 190:
            name = open_id
        else:
            self.number += code[1] % 3 == 0
            name = f"c{max(0, self.number - (code[1] % 4 == 3))}"
        self.calls += 1
        calls.start_soon(self._guarded, operation, name, (code[2] % 80) / 4 - 1, (code[4] % 40) / 4)

    async def _guarded(self, operation: str, name: str, deadline_s: float, patience_s: float) -> None:
        """One call; its caller goes away when it has no patience left."""
        call: Callable[[str, float], Awaitable[None]] = getattr(self, f"_{operation}")
        try:
            with anyio.move_on_after(patience_s if patience_s > 1 else None):
                await call(name, deadline_s)
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
        place = store.folder(self.directory / name, self.house.kind, self.house.instance)
        assert store.check(place).records_sha256 == reply.records_sha256
        assert self.exported.count(name) == 1, "it was exported again"

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
        """What there is of it is no longer that of anybody who lives, or it is refused."""
        await restore(self.house, self.directory, [], name, seconds=seconds)
        assert name not in self.over

    async def _retire(self, name: str, seconds: float) -> None:
        """An attempt, perhaps one that is long over."""
        rollout = f"r{self.random.randrange(ROLLOUTS)}"
        attempt = max(1, self.work.attempts.get(rollout, 1) - self.random.choice((0, 0, 1)))
        await retire(self.house, ep(rollout, attempt), name=f"x{name}", seconds=seconds)

    async def _forget(self, name: str, seconds: float) -> None:
        await self.house.forget(ForgetRequest(checkpoint_id=name, rollout_ids=("nobody",), **within(seconds)))

    def _check(self) -> None:
        control = self.house.control
        assert control.is_closed == (control.checkpoint_id is not None)
        assert control.lease_expires_at is None or clock() <= control.lease_expires_at + 12, "closed past its lease"
        for name in self.over & {control.checkpoint_id}:
            assert control.lease_expires_at is not None, name


def blown(kind: str, random_seed: int, codes: list[bytes]) -> Storm:
    """A storm, when it is over."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        storms: list[Storm] = []

        async def main() -> None:
            storms.append(Storm(Path(directory), kind, random_seed))
            await storms[0].run(codes)

        simulate(main)
        return storms[0]


@settings(
    max_examples=STORMS // 2,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(0, 2**32),
    st.lists(st.binary(min_size=5, max_size=5), min_size=CALLS, max_size=CALLS),
)
def test_no_storm_of_calls_breaks_a_participant(kind: str, random_seed: int, codes: list[bytes]) -> None:
    blown(kind, random_seed, codes)


@pytest.mark.parametrize("kind", KINDS)
def test_random_storms_reach_commits_and_releases(kind: str) -> None:
    """Without the small values that hypothesis likes."""
    storms = max(5, STORMS // 2 // len(KINDS))
    saved = released = 0
    for number in range(storms):
        random = Random(number)
        storm = blown(kind, number, [random.randbytes(5) for _ in range(CALLS)])
        saved += len(storm.replies)
        released += storm.house.control.answers.get("release") is not None
    assert saved >= storms
    assert released >= storms // 8
