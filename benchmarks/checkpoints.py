"""Checkpoints: how long rollouts stand for one, how fast snapshots are released, what slow seeds hold up."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from benchmarks.lab import Lab
from benchmarks.rows import Row, Target
from swe_sdk.checkpoint import (
    AgentHooks,
    AgentParticipant,
    CallGate,
    CheckpointController,
    Coordinator,
    EpisodeId,
    ModelParticipant,
    SandboxCheckpointer,
    SeedBody,
)
from swe_sdk.model.budget import Budget
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.rollouts.bookmark import Bookmark
from swe_sdk.rollouts.lent import Lent
from swe_sdk.rollouts.live import LiveRollout, LiveRollouts
from swe_sdk.rollouts.meter import Meter
from swe_sdk.runs.checkpoints.census import Census
from swe_sdk.runs.checkpoints.participants import ROLLOUTS, RolloutsParticipant, SandboxesParticipant
from swe_sdk.sandbox.contract import Box, SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.store.checkpoints import SANDBOXES, Saved
from swe_sdk.store.writer import RunWriter

TITLE = "Checkpoints"
_PER_BOX = 10
"""Snapshots of one box, where many are to be released."""
_AT_ONCE = 16


async def rows(lab: Lab) -> list[Row]:
    """A row a phase, the release, the seeds."""
    async with lab.provider() as provider:
        found = await _park_all(lab, provider)
        found += await _release(lab, provider)
    return [*found, await _slow_seeds(lab)]


# -- rollouts that stand -----------------------------------------------------------------------------------------------


async def _park_all(lab: Lab, provider: LocalProvider) -> list[Row]:
    """The participants of a run, over boxes that are real, and rollouts whose agents are at a boundary at once."""
    count, size = lab.settings.parked_rollouts, lab.settings.parked_box_bytes
    folder, lives = lab.new_folder("run"), LiveRollouts()
    boxes = await _boxes(provider, count, size)
    for number, box in enumerate(boxes):
        lives.add(_live(number, box))
    async with _controller(folder, lives, provider) as controller, anyio.create_task_group() as group:
        for live in lives:
            group.start_soon(_stand_when_asked, live)
        cpu = lab.meter.seconds()
        first, again = [await controller.save() for _ in range(2)]
        cpu = lab.meter.seconds() - cpu
        group.cancel_scope.cancel()
    parked_s = [live.meter.budget.parked_s / 2 for live in lives if live.meter is not None]
    for box in boxes:
        await box.close()
    return [*_phases(count, size, first, again, cpu), _parked(parked_s)]


def _phases(count: int, size: int, first: Saved, again: Saved, cpu_s: float) -> list[Row]:
    name = f"{count} rollouts, boxes of {size / 1e6:.0f} MB"
    assert first.details.records[SANDBOXES] == again.details.records[SANDBOXES] == count
    totals = [sum(saved.details.phases_s.values()) for saved in (first, again)]
    parts = ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in first.details.phases_s.items())
    return [
        Row(f"{name}: prepare, commit and resume", max(totals), "s", least=min(totals), target=Target(5), note=parts),
        Row(f"{name}: the same, CPU", cpu_s / 2, "s"),
    ]


def _parked(seconds: Sequence[float]) -> Row:
    longest = f"at most {max(seconds):.2f} s"
    return Row("a rollout stands parked", statistics.median(seconds), "s", least=min(seconds), note=longest)


@asynccontextmanager
async def _controller(
    folder: Path, lives: LiveRollouts, provider: LocalProvider
) -> AsyncIterator[CheckpointController]:
    """As a run makes it."""
    census = Census(lives, tier="exact", can_freeze=True)
    boxes = SandboxCheckpointer(provider, state_dir=folder / "snapshots")
    with RunWriter(folder) as writer:
        async with (
            RolloutsParticipant(census, lambda _name: "digest", writer) as rollouts,
            SandboxesParticipant(census, boxes, writer) as sandboxes,
            ModelParticipant(gate=CallGate()) as model,
        ):
            everybody = {ROLLOUTS: rollouts, SANDBOXES: sandboxes, "model": model}
            yield CheckpointController(Coordinator(everybody), folder / "checkpoints")


def _live(number: int, box: Box) -> LiveRollout:
    live = LiveRollout(next(iter(load_tasks("mini"))), f"rollout-{number}.0")
    live.stage, live.meter = "invoke_agent", Meter(Budget(total_s=3600))
    live.box, live.lent = box, Lent(box)
    live.bookmark = _bookmark(live)
    return live


def _bookmark(live: LiveRollout) -> Bookmark:
    assert live.meter is not None
    return Bookmark(
        rollout_id=live.rollout_id,
        attempt=1,
        next="invoke_agent",
        budget=live.meter.budget,
        agent_state={"messages": ["x" * 1000] * 20},
    )


async def _stand_when_asked(live: LiveRollout) -> None:
    """What the engine and an agent do, without their work."""
    assert live.meter is not None
    while True:
        await live.wait_park_requested()
        with live.meter.parked():
            await live.stand(_bookmark(live))


async def _boxes(provider: LocalProvider, count: int, size: int) -> list[Box]:
    made: list[Box] = []
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def make() -> None:
        async with limiter:
            box = await provider.create(SandboxSpec(workdir="/testbed"))
            made.append(box)
            written = await box.exec(f"head -c {size} /dev/urandom > blob", timeout_s=600)
            assert written.ok, written

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(make)
    return made


# -- the rest ----------------------------------------------------------------------------------------------------------


async def _release(lab: Lab, provider: LocalProvider) -> list[Row]:
    """All at once, of checkpoints that are dropped."""
    count, others = lab.settings.released_snapshots, await provider.snapshots()
    boxes = SandboxCheckpointer(provider, state_dir=lab.new_folder("index"))
    sessions = [f"session-{number}" for number in range(max(1, count // _PER_BOX))]
    for name, box in zip(sessions, await _boxes(provider, len(sessions), 10_000), strict=True):
        boxes.add(name, box, is_lent=False)
    for number in range(_PER_BOX):
        for name in sessions:
            boxes.touch(name)
        await boxes.capture_once(sessions, checkpoint_id=f"checkpoint-{number}")
    await boxes.aclose()
    start, cpu = time.perf_counter(), lab.meter.seconds()
    released = await boxes.release(frozenset())
    seconds, cpu = time.perf_counter() - start, lab.meter.seconds() - cpu
    assert await provider.snapshots() == others
    name = f"release of {released} snapshots"
    return [Row(name, seconds, "s", target=Target(5)), Row(f"{name}, CPU", cpu, "s")]


async def _slow_seeds(lab: Lab) -> Row:
    """First seeds that are in flight become restarts, and hold nothing up."""

    class SlowSeed(AgentHooks):
        async def seed_agent_session(self, body: SeedBody) -> None:
            await anyio.sleep_forever()

    count = lab.settings.slow_seeds
    async with AgentParticipant(hooks=SlowSeed()) as agent, ModelParticipant(gate=CallGate()) as model:
        controller = CheckpointController(Coordinator({"agent": agent, "model": model}), lab.new_folder("seeds"))
        async with anyio.create_task_group() as group:
            for number in range(count):
                body = SeedBody(session_id=f"s{number}", episode_id=EpisodeId(rollout_id=f"r{number}", attempt=1))
                group.start_soon(agent.seed, body)
            await anyio.sleep(0.1)
            saved = await controller.save()
            group.cancel_scope.cancel()
    assert len(saved.details.restarts["agent"]) == count
    return Row(f"prepare, {count} slow seeds in flight", saved.details.phases_s["prepare"], "s", target=Target(1))
