"""A process that carries out a run before the eyes of its viewers: ``python live_writer.py RUN ROLLOUTS SECONDS``.

With a fourth argument, it waits for a line on standard input before each rollout, and says what it has done.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Mask
from swe_sdk.store import events as ev
from swe_sdk.store.writer import RunWriter

_ENDS = ("resolved", "unresolved", "masked")
_MASK = Mask(kind="sandbox_lost", stage="tests", reason="the box is gone", retryable=True)


def main(run_dir: str, rollouts: str, seconds: str, told: str = "") -> None:
    count = int(rollouts)
    with RunWriter(Path(run_dir), sync=False) as writer:
        writer.append(ev.RunStarted(name=Path(run_dir).name, agent="scripted", model="none", rollouts=count))
        for n in range(count):
            writer.append(
                ev.RolloutQueued(rollout_id=f"live__task-{n}.0", instance_id=f"live__task-{n}", agent="scripted")
            )
        print("queued", flush=True)
        for n in range(count):
            if told:
                sys.stdin.readline()
            _one(writer, n)
            if told:
                print(n, flush=True)
            time.sleep(float(seconds) / count)
        writer.append(ev.RunEnded(reason="finished"))


def _one(writer: RunWriter, n: int) -> None:
    names = {"rollout_id": f"live__task-{n}.0", "attempt": 1}
    status = _ENDS[n % 3]
    writer.append(ev.AttemptStarted(**names, provider="local"))
    writer.append(ev.StageStarted(**names, stage="invoke_agent"))
    writer.append(ev.StepTaken(**names, n=1, step_kind="action", summary="does what it was told"))
    writer.append(ev.StageEnded(**names, stage="invoke_agent", seconds=0.1))
    writer.append(ev.BudgetCharged(**names, budget=Budget(total_s=60, spent_s=0.1)))
    if status == "masked":
        writer.append(ev.AttemptMasked(**names, mask=_MASK))
    writer.append(ev.AttemptEnded(**names, reason="done"))
    writer.append(ev.RolloutEnded(**names, status=status, reward=float(status == "resolved")))


if __name__ == "__main__":
    main(*sys.argv[1:])
