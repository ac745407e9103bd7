"""What checkpoints cost at 10, 1,000 and 100,000 sandboxes: ``python -m benchmarks.scale [--measure] [--json OUT]``.

A simulation from a seed, and (``--measure``) the same on a few real sandboxes of this machine, to see whether it holds.

The model. A rollout takes turns: it waits for its model, then it runs a command. A checkpoint asks all rollouts to
stand still: who waits for the model stands at once, who runs a command when that ends, but nobody is waited for longer
than a deadline (who is late starts over, should this checkpoint be needed). Then each node freezes its sandboxes, a few
at a time. So *prepare* takes as long as the longest command that is under way, *freeze* as long as the fullest node.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio
import numpy as np

_HOUR = 3600.0
_REPEATS = 99


@dataclass(frozen=True)
class Workload:
    """What rollouts do, and what machines take for it. Times are log-normal: a median in seconds, and a spread."""

    model_s: tuple[float, float] = (8.0, 0.8)
    command_s: tuple[float, float] = (1.0, 1.5)
    longest_command_s: float = 300.0
    written_bytes: tuple[float, float] = (64e3, 2.0)
    """Files that a command leaves changed."""
    boxes_per_node: int = 32
    freezes_at_once: int = 2
    freeze_s: float = 0.03
    """For a sandbox with nothing in it, ..."""
    freeze_bytes_per_s: float = 400e6
    """... and what is written on top of that."""
    deadline_s: float = 30.0
    """How long a checkpoint waits for commands."""
    restore_s: float = 1.0
    node_mtbf_h: float = 30 * 24.0
    driver_mtbf_h: float = 30 * 24.0
    rollout_s: float = 1200.0


WORKLOADS = {
    "20 minutes a rollout, a machine lost every 30 days": Workload(),
    "8 hours a rollout, each machine taken away every 6 hours": Workload(rollout_s=8 * _HOUR, node_mtbf_h=6.0),
}
_SIZES, _MINUTES = (10, 32, 1000, 100_000), (5, 15, 60)
"""32 is one full node, should it be saved by itself."""


@dataclass(frozen=True)
class Checkpointed:
    """What one interval costs so many sandboxes; medians over simulated checkpoints."""

    boxes: int
    interval_s: float
    prepare_s: float
    freeze_s: float
    late: float
    """Rollouts that were not waited for, of all."""
    volume_bytes: float
    """Written for one checkpoint."""
    stall_share: float
    """Of all time of rollouts: standing still."""
    lost_share: float
    """Of all work of rollouts: done again after a node or the driver was lost."""


def checkpoint(workload: Workload, boxes: int, interval_s: float, rng: np.random.Generator) -> dict[str, float]:
    """One checkpoint of so many sandboxes, at a moment that nobody chose."""
    left = residual_s(workload, boxes, rng)
    late = float(np.mean(left > workload.deadline_s))
    prepare_s = float(min(left.max(initial=0.0), workload.deadline_s))
    steps = interval_s / _step_s(workload, rng)
    volumes = written(workload, boxes, steps, rng)
    freeze_s = freezing_s(workload, volumes)
    standing = boxes * (prepare_s + freeze_s) - float(np.minimum(left, prepare_s).sum())
    return {
        "prepare_s": prepare_s,
        "freeze_s": freeze_s,
        "late": late,
        "volume_bytes": float(volumes.sum()),
        "stall_share": standing / (boxes * interval_s),
    }


def residual_s(workload: Workload, boxes: int, rng: np.random.Generator) -> np.ndarray:
    """What is left of the command of each rollout; 0 for who waits for the model.

    Long commands are met more often than short ones, as long as they are: a moment falls into a command by its length.
    """
    pool = 64 * 1024
    commands = np.minimum(_lognormal(workload.command_s, pool, rng), workload.longest_command_s)
    in_command = commands.sum() / (commands.sum() + _lognormal(workload.model_s, pool, rng).sum())
    met = rng.choice(commands, boxes, p=commands / commands.sum())
    return np.where(rng.random(boxes) < in_command, met * rng.random(boxes), 0.0)


def written(workload: Workload, boxes: int, steps: float, rng: np.random.Generator) -> np.ndarray:
    """Bytes that each sandbox has written in so many steps."""
    counts = rng.poisson(steps, boxes)
    mean = workload.written_bytes[0] * np.exp(workload.written_bytes[1] ** 2 / 2)
    return counts * mean


def freezing_s(workload: Workload, volumes: np.ndarray) -> float:
    """Until the fullest node is done: its sandboxes in turn, so many at a time."""
    each = workload.freeze_s + volumes / workload.freeze_bytes_per_s
    nodes = -(-len(each) // workload.boxes_per_node)
    padded = np.zeros(nodes * workload.boxes_per_node)
    padded[: len(each)] = each
    return float(padded.reshape(nodes, -1).sum(axis=1).max() / workload.freezes_at_once)


def _step_s(workload: Workload, rng: np.random.Generator) -> float:
    commands = np.minimum(_lognormal(workload.command_s, 65536, rng), workload.longest_command_s)
    return float(commands.mean() + _lognormal(workload.model_s, 65536, rng).mean())


def _lognormal(shape: tuple[float, float], count: int, rng: np.random.Generator) -> np.ndarray:
    median, spread = shape
    return median * np.exp(spread * rng.standard_normal(count))


def simulate(workload: Workload, boxes: int, interval_s: float, seed: int) -> Checkpointed:
    """Several checkpoints, and what is lost with machines between them."""
    rng = np.random.default_rng([seed, boxes, int(interval_s)])
    found = [checkpoint(workload, boxes, interval_s, rng) for _ in range(_REPEATS if boxes < 10_000 else 9)]
    median = {name: float(np.median([each[name] for each in found])) for name in found[0]}
    lost = done_again(workload, min(interval_s, workload.rollout_s))
    return Checkpointed(boxes=boxes, interval_s=interval_s, lost_share=lost, **median)


def done_again(workload: Workload, length_s: float) -> float:
    """The share of work that is done again where pieces of this length are repeated from their beginning.

    Machines are lost independently of each other, at any moment; a piece that is lost again is repeated again.
    """
    rate = (1 / workload.node_mtbf_h + 1 / workload.driver_mtbf_h) / _HOUR
    return float(np.expm1(rate * length_s) * (1 / rate + workload.restore_s) / length_s - 1)


def table(found: list[Checkpointed]) -> str:
    """For people, as Markdown."""
    head = (
        "| sandboxes | every | prepare | freeze | late | written | standing still | done again |\n" + "|---:" * 8 + "|"
    )
    lines = [
        f"| {each.boxes:,} | {each.interval_s / 60:g} min | {each.prepare_s:.1f} s | {each.freeze_s:.1f} s"
        f" | {each.late:.2%} | {each.volume_bytes / 1e9:,.2f} GB | {each.stall_share:.2%} | {each.lost_share:.3%} |"
        for each in found
    ]
    return "\n".join([head, *lines])


def main() -> int:
    """Print the table and, with ``--measure``, how far the model is from this machine."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description="Checkpoints at scale.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measure", action="store_true", help="hold the model against real sandboxes (two minutes)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write everything there")
    options = parser.parse_args()
    found: dict[str, list[Checkpointed]] = {}
    for name, workload in WORKLOADS.items():
        found[name] = [simulate(workload, n, 60.0 * m, options.seed) for n in _SIZES for m in _MINUTES]
        without = done_again(workload, workload.rollout_s)
        print(f"{name}; without checkpoints {without:.2%} is done again:\n\n{table(found[name])}\n")
    measured: list[dict[str, float]] = []
    if options.measure:
        from benchmarks.scale_measured import comparison, held_against

        measured = anyio.run(held_against, options.seed)
        print(comparison(measured))
    if options.json is not None:
        simulated = {name: [asdict(each) for each in rows] for name, rows in found.items()}
        told = {"workload": asdict(Workload()), "simulated": simulated, "measured": measured}
        options.json.write_text(json.dumps(told, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
