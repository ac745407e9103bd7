"""Make ``datasets/<family>/example_*`` by real runs of bundled tasks: ``python scripts/make_examples.py [FAMILY ...]``.

Each family gets its rows as NeMo Gym's servers take them (``example_rows.jsonl``), the rollouts of two agents on them,
one that plays back the solution and one that does nothing (``example_rollouts.jsonl``), and the metrics of both runs
(``example_metrics.json``). swe-bench has a third task, whose hidden tests cannot be installed: its rollouts are masked.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import swe_sdk as swe
from swe_sdk.exports import NemoGymRow, nemo_gym_row
from swe_sdk.exports.nemo_gym import row_line
from swe_sdk.exports.record import RolloutRecord

DATASETS = Path(__file__).resolve().parents[1] / "datasets"
AGENTS = ("gold", "noop")
TASKS = {
    "nv-internal-1": ("mini__linewrap-1",),
    "r2e-gym": ("mini__tally-1",),
    "swe-bench": ("mini__calc-1", "mini__fairsplit-1"),
    "swe-bench-ext": ("mini__spans-1",),
    "swe-bench-multilingual": ("mini__expandtabs-1",),
    "swe-rebench": ("mini__countdown-1",),
}
_BROKEN = "mini__calc-1"
_NO_SUCH_FILE = "--- a/no_such_file.py\n+++ b/no_such_file.py\n@@ -1 +1 @@\n-a\n+b\n"
_CHANCE = frozenset({"log_nonce", "log_tail"})
_TIMES = frozenset(
    {
        "ray_queue_time",
        "openhands_run_time",
        "generation_start_timestamp",
        "evaluation_start_timestamp",
        "per_turn_metrics",
        "create_runtime_time",
        "total_command_exec_time",
        "total_model_call_time",
        "final_eval_apptainer_spinup_time",
        "final_eval_time",
        "instance_config",
        "swe_sdk",
    }
)
"""Fields that differ between any two runs, because they are seconds or hold some, or with every new setting."""


def main(families: list[str]) -> None:
    """Make the files of some families, or of all."""
    for family in families or TASKS:
        folder = DATASETS / family
        folder.mkdir(exist_ok=True)
        for name, data in example_files(family, folder, provider="local").items():
            (folder / name).write_bytes(data)
        print(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")


def example_files(family: str, folder: Path, *, provider: Any) -> dict[str, bytes]:
    """The three files of a family, by name. Paths in its rows start at ``folder``."""
    rows = example_rows(family)
    with tempfile.TemporaryDirectory() as scratch:
        tasks = swe.load_tasks(_written(rows, folder))
        lines, metrics = [], {}
        for agent in AGENTS:
            path = Path(scratch) / agent
            with swe.run(tasks, agent, provider=provider, path=path, budget="15m", retries=0, progress=False) as run:
                lines += [row_line(portable(record)) for record in run.records()]
                metrics[agent] = run.metrics.model_dump(mode="json")
    return {
        "example_rows.jsonl": rows,
        "example_rollouts.jsonl": b"".join(lines),
        "example_metrics.json": json.dumps(metrics, indent=2).encode() + b"\n",
    }


def example_rows(family: str) -> bytes:
    """Bundled tasks of a family as requests of NeMo Gym, one a line."""
    listed = (DATASETS / "mini" / "tasks.jsonl").read_text("utf-8").splitlines()
    rows = {row["instance_id"]: row for row in map(json.loads, listed)}
    chosen = [rows[name] for name in TASKS[family]]
    if _BROKEN in TASKS[family]:
        chosen.append({**rows[_BROKEN], "instance_id": f"{_BROKEN}-broken", "test_patch": _NO_SUCH_FILE})
    return b"".join(json.dumps(_request(family, row)).encode() + b"\n" for row in chosen)


def portable(record: RolloutRecord) -> NemoGymRow:
    """A row without what is of this machine or of chance: paths of files, the nonce of a log."""
    evidence = {key: value for key, value in record.outcome.evidence.items() if key not in _CHANCE}
    outcome = record.outcome.model_copy(update={"artifacts": {}, "evidence": evidence})
    return nemo_gym_row(record.model_copy(update={"outcome": outcome}))


def stable(row: Mapping[str, Any]) -> dict[str, Any]:
    """What of a rollout is the same in every run of it."""
    return {key: value for key, value in row.items() if key not in _TIMES}


def _request(family: str, row: Mapping[str, Any]) -> dict[str, Any]:
    task = {**row, "directory": f"../mini/{row['directory']}"}
    return {
        "responses_create_params": {
            "input": [{"role": "user", "content": row["problem_statement"]}],
            "metadata": {
                "instance_id": row["instance_id"],
                "dataset_name": family,
                "split": "test",
                "problem_statement": row["problem_statement"],
                "instance_dict": json.dumps(task),
            },
        }
    }


def _written(rows: bytes, folder: Path) -> Path:
    path = folder / "example_rows.jsonl"
    path.write_bytes(rows)
    return path


if __name__ == "__main__":
    main(sys.argv[1:])
