"""Releasing n snapshots is work in proportion to n, counted in instructions: they are the same on any machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from swe_sdk.checkpoint import SandboxCheckpointer, audit, sweep
from swe_sdk.rollouts.live import LiveRollouts
from swe_sdk.runs.checkpoints.census import Census
from swe_sdk.runs.checkpoints.participants import SandboxesParticipant
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.store.writer import RunWriter
from swe_sdk.testing import FakeProvider
from tests.checkpoint.virtual import simulate

PACKAGE = f"{os.sep}swe_sdk{os.sep}"
FEW, MANY = 60, 240
GROWTH = 1.1 * MANY / FEW
"""Of an amount of work that is a constant and a share for each snapshot; of one for each pair it would be 16."""
NONE: frozenset[str] = frozenset()


async def by_hand(boxes: SandboxCheckpointer, folder: Path) -> None:
    await boxes.release(NONE)


async def by_a_run(boxes: SandboxCheckpointer, folder: Path) -> None:
    """With a word to the journal for each."""
    census = Census(LiveRollouts(), tier="exact", can_freeze=True)
    with RunWriter(folder / "run", sync=False) as writer:
        await SandboxesParticipant(census, boxes, writer)._release(NONE)


async def by_a_sweep(boxes: SandboxCheckpointer, folder: Path) -> None:
    await sweep(folder, boxes.provider, kept=())


async def of_many_checkpoints(boxes: SandboxCheckpointer, folder: Path) -> None:
    """Each snapshot is needed by several, of which the last goes with it."""
    for number in range(2, 6):
        await boxes.capture_once(boxes.sessions, checkpoint_id=f"c{number}")
    await boxes.release(NONE)


class Instructions:
    """Counts the instructions of Python that this package executes meanwhile, loops over everything included."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Instructions:
        self._before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_error: object) -> None:
        sys.settrace(self._before)

    def _enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if PACKAGE not in frame.f_code.co_filename:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._step

    def _step(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        self.count += event == "opcode"
        return self._step


def work_of(way: Callable[[SandboxCheckpointer, Path], Awaitable[None]], snapshots: int, folder: Path) -> int:
    work = Instructions()

    async def main() -> None:
        provider = FakeProvider()
        boxes = SandboxCheckpointer(provider, state_dir=folder)
        for number in range(snapshots):
            boxes.add(f"s{number}", await provider.create(SandboxSpec()), is_lent=False)
        await boxes.capture_once(boxes.sessions, checkpoint_id="c1")
        assert len((await audit(folder, provider, kept=["c1"])).needed) == snapshots
        with work:
            await way(boxes, folder)
        assert await provider.snapshots() == []
        assert boxes.index.entries() == {}

    simulate(main)
    return work.count


@pytest.mark.parametrize("way", [by_hand, by_a_run, by_a_sweep, of_many_checkpoints])
def test_four_times_as_many_snapshots_are_four_times_the_work(
    way: Callable[[SandboxCheckpointer, Path], Awaitable[None]], tmp_path: Path
) -> None:
    few, many = work_of(way, FEW, tmp_path / "few"), work_of(way, MANY, tmp_path / "many")
    assert few > FEW
    assert many < GROWTH * few, f"{few} instructions for {FEW} snapshots, and {many} for {MANY}"
