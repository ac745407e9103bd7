"""The simulation of :mod:`benchmarks.scale` held against real sandboxes that run real commands on this machine."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import anyio
import numpy as np

from benchmarks.scale import Workload, checkpoint
from benchmarks.state import default_state
from swe_sdk.sandbox.contract import Box, SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider

_BOXES = (4, 8, 16)
_CHECKPOINTS = 8
_BETWEEN_S = 3.0
SMALL = Workload(
    model_s=(0.8, 0.4),
    command_s=(0.6, 0.7),
    longest_command_s=4.0,
    written_bytes=(200e3, 0.5),
    boxes_per_node=16,
    deadline_s=60.0,
)
"""The same turns as in the large, in seconds that can be waited for."""


class _Rollout:
    """Takes turns in a sandbox until it is asked to stand; goes on when told."""

    def __init__(self, box: Box, workload: Workload, rng: np.random.Generator) -> None:
        self.box, self._workload, self._rng = box, workload, rng
        self._asked, self._go_on = anyio.Event(), anyio.Event()
        self.stands = anyio.Event()

    def ask(self) -> None:
        self._asked.set()

    def go_on(self) -> None:
        go_on = self._go_on
        self._asked, self._go_on, self.stands = anyio.Event(), anyio.Event(), anyio.Event()
        go_on.set()

    async def run(self) -> None:
        while True:
            with anyio.move_on_after(self._drawn(self._workload.model_s)):  # the model; who is asked stands at once
                await self._asked.wait()
            await self._stand()
            seconds = min(self._drawn(self._workload.command_s), self._workload.longest_command_s)
            size = int(self._drawn(self._workload.written_bytes))
            line = f"head -c {size} /dev/zero > f$(date +%N); sleep {seconds:.3f}"
            await self.box.exec(["sh", "-c", line], cwd="/tmp")
            await self._stand()

    async def _stand(self) -> None:
        if self._asked.is_set():
            go_on = self._go_on
            self.stands.set()
            await go_on.wait()

    def _drawn(self, shape: tuple[float, float]) -> float:
        return float(shape[0] * np.exp(shape[1] * self._rng.standard_normal()))


async def held_against(seed: int) -> list[dict[str, float]]:
    """For each number of sandboxes: what was measured, and what the model says of it, medians in seconds."""
    with tempfile.TemporaryDirectory(prefix="swe_sdk-scale-", dir=default_state()) as folder:
        provider = LocalProvider(Path(folder))
        try:
            workload = await _calibrated(provider)
            return [await _compared(provider, workload, boxes, seed) for boxes in _BOXES]
        finally:
            await provider.aclose()


async def _calibrated(provider: LocalProvider) -> Workload:
    """What freezing takes here: of a sandbox by itself, with little and with much in it."""
    little, much = [], []
    for _ in range(5):
        for size, seconds in ((0, little), (64 << 20, much)):
            box = await provider.create(SandboxSpec())
            await box.exec(["sh", "-c", f"head -c {size} /dev/zero > f"], cwd="/tmp")
            seconds.append(await _frozen_s(provider, [box], 1))
            await box.close()
    freeze_s = statistics.median(little)
    rate = (64 << 20) / max(statistics.median(much) - freeze_s, 1e-3)
    changes = {"freeze_s": freeze_s, "freeze_bytes_per_s": rate, "freezes_at_once": 1}
    return Workload(**{**SMALL.__dict__, **changes})


async def _frozen_s(provider: LocalProvider, boxes: list[Box], at_once: int) -> float:
    """Until all are frozen; the snapshots are deleted again."""
    limiter, made = anyio.CapacityLimiter(at_once), []

    async def freeze(box: Box) -> None:
        async with limiter:
            made.append((await provider.snapshot(box)).id)

    begin = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for box in boxes:
            tasks.start_soon(freeze, box)
    took = time.perf_counter() - begin
    for snapshot in made:
        await provider.delete_snapshot(snapshot)
    return took


async def _compared(provider: LocalProvider, workload: Workload, count: int, seed: int) -> dict[str, float]:
    prepare, freeze = await _measured(provider, workload, count, seed)
    rng = np.random.default_rng([seed, count])
    model = [checkpoint(workload, count, _BETWEEN_S, rng) for _ in range(200)]
    return {
        "boxes": count,
        "prepare_s": statistics.median(prepare),
        "prepare_model_s": statistics.median(each["prepare_s"] for each in model),
        "freeze_s": statistics.median(freeze),
        "freeze_model_s": statistics.median(each["freeze_s"] for each in model),
    }


async def _measured(
    provider: LocalProvider, workload: Workload, count: int, seed: int
) -> tuple[list[float], list[float]]:
    boxes = [await provider.create(SandboxSpec()) for _ in range(count)]
    rollouts = [_Rollout(box, workload, np.random.default_rng([seed, n])) for n, box in enumerate(boxes)]
    prepare, freeze = [], []
    try:
        async with anyio.create_task_group() as tasks:
            for rollout in rollouts:
                tasks.start_soon(rollout.run)
            for _ in range(_CHECKPOINTS):
                await anyio.sleep(_BETWEEN_S)
                begin = time.perf_counter()
                for rollout in rollouts:
                    rollout.ask()
                for rollout in rollouts:
                    await rollout.stands.wait()
                prepare.append(time.perf_counter() - begin)
                freeze.append(await _frozen_s(provider, boxes, workload.freezes_at_once))
                for rollout in rollouts:
                    rollout.go_on()
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            for box in boxes:
                await box.close()
    return prepare, freeze


def comparison(found: list[dict[str, float]]) -> str:
    """For people, as Markdown."""
    lines = ["| sandboxes | prepare | by the model | freeze | by the model |", "|---:|---:|---:|---:|---:|"]
    for each in found:
        seconds = (f"{each[name]:.2f} s" for name in ("prepare_s", "prepare_model_s", "freeze_s", "freeze_model_s"))
        lines.append(f"| {each['boxes']:g} | {' | '.join(seconds)} |")
    return "\n".join(lines)
