"""Frames: their columns are described, and the same with rows and without any."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import swe_sdk as swe
from swe_sdk.checkpoint.catalog import GymCheckpoint, complete, mark_released
from swe_sdk.grading.frames import HEALTH, OUTCOMES, REGRADES
from swe_sdk.grading.health import Health, TaskHealth
from swe_sdk.grading.outcomes import Outcomes
from swe_sdk.grading.regrades import Regrade, Regrades
from swe_sdk.metrics import Comparison, run_metrics
from swe_sdk.metrics.comparison import pairs_of
from swe_sdk.metrics.frames import COMPARISON, METRICS
from swe_sdk.metrics.passes import Counted
from swe_sdk.model.columns import DTYPES, Column, frame_of, typed
from swe_sdk.model.environment import ImageEnvironment
from swe_sdk.recipes.frames import TASKS
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.runs.checkpoints.retained import Snapshots
from swe_sdk.runs.frames import CHECKPOINTS, HELD, ROLLOUTS, SNAPSHOTS, STEPS
from swe_sdk.runs.run import Run
from swe_sdk.store import events as ev
from swe_sdk.store.checkpoints import Details, checkpoints_folder
from swe_sdk.store.writer import RunWriter
from tests.notebook import made_run as made

PAGE = Path(__file__).resolve().parents[2] / "docs" / "plots.md"
SPECIFIED: dict[str, tuple[Column, ...]] = {
    "tasks": TASKS,
    "outcomes": OUTCOMES,
    "health": HEALTH,
    "regrades": REGRADES,
    "rollouts": ROLLOUTS,
    "steps": STEPS,
    "checkpoints": CHECKPOINTS,
    "held": HELD,
    "snapshots": SNAPSHOTS,
    "metrics": METRICS,
    "comparison": COMPARISON,
}
INDEX = {"steps": None, "regrades": "name", "metrics": "metric"}
NO_INDEX: set[str] = {name for name, index in INDEX.items() if index is None}


def task(name: str) -> swe.Task:
    grading = swe.GradingSpec(test_command="true", parser="pytest")
    environment = ImageEnvironment(image="docker.io/library/python:3.12")
    return swe.Task(
        instance_id=name,
        family="swe-bench",
        repo="a/b",
        environment=environment,
        metadata={"difficulty": "hard", "hours": 3} if name == "a" else {"difficulty": None},
        grading=grading,
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, Run]]:
    folder = tmp_path_factory.mktemp("made")
    full = made.write_run(folder / "full")
    save_checkpoints(full)
    with RunWriter(full, sync=False) as writer:
        held = {"checkpoint_id": made.checkpoint_id(1), "attempt": 1}
        writer.append(ev.CheckpointRollout(**held, rollout_id="a.0", held="saved", boundary="verify", spent_s=3.0))
        writer.append(ev.CheckpointRollout(**held, rollout_id="b.0", held="restart", reason="its agent cannot"))
    with Run(full) as first, Run(made.write_run(folder / "empty", (), checkpoints=False)) as second:
        yield first, second


def save_checkpoints(run_dir: Path) -> None:
    """As the catalog of a run has them."""
    for number in (1, 2, 3, 4):
        name = made.checkpoint_id(number)
        counts: dict[str, Any] = {"records": {"rollouts": 2}, "bytes": {"agent": 10}, "phases_s": {"prepare": 0.5}}
        details = Details(number=number, created_at=made.START + number, **counts)
        complete(checkpoints_folder(run_dir) / name, GymCheckpoint(checkpoint_id=name, instances={}), details)
        if number not in made.KEPT_CHECKPOINTS:
            mark_released(checkpoints_folder(run_dir) / name)


@pytest.fixture(scope="module")
def frames(runs: tuple[Run, Run]) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
    """With rows, and without any."""
    full, empty = runs
    outcomes = [made.outcome_of(each) for each in made.ROLLOUTS]
    health = TaskHealth(instance_id="a", status="healthy", runs={"gold": ("resolved",)}, seconds=1.0)
    regrade = Regrade(name="a", before=outcomes[0], after=outcomes[1])
    pairs = pairs_of({"a": Counted(1, 0, 0)}, {"a": Counted(0, 0, 1)})
    kept = full.checkpoints
    return {
        "tasks": (TaskSet([task("a"), task("b")]).to_frame()[[c.name for c in TASKS[1:]]], TaskSet([]).to_frame()),
        "outcomes": (Outcomes(outcomes).to_frame(), Outcomes([]).to_frame()),
        "health": (Health([health]).to_frame(), Health([]).to_frame()),
        "regrades": (Regrades([regrade]).to_frame(), Regrades([]).to_frame()),
        "rollouts": (full.to_frame(), empty.to_frame()),
        "steps": (
            full.rollouts["django__django-11099.0"].to_frame(),
            full.rollouts.where(text="django")["django__django-11099"].to_frame().iloc[:0],
        ),
        "checkpoints": (kept.to_frame(), empty.checkpoints.to_frame()),
        "held": (kept[0].to_frame(), kept[1].to_frame()),
        "snapshots": (full.snapshots.to_frame(), empty.snapshots.to_frame()),
        "metrics": (full.metrics.to_frame(), run_metrics([]).to_frame()),
        "comparison": (Comparison(pairs).to_frame(), Comparison([]).to_frame()),
    }


@pytest.mark.parametrize("name", SPECIFIED)
def test_columns_and_types_are_those_described(name: str, frames: dict[str, Sequence[pd.DataFrame]]) -> None:
    full, empty = frames[name]
    columns = list(SPECIFIED[name])
    if name not in NO_INDEX:
        index = columns.pop(0)
        assert index.name == INDEX.get(name) or index.meaning.endswith("the index")
        for frame in (full, empty):
            assert (frame.index.name, str(frame.index.dtype)) == (index.name, "string")
            assert frame.index.is_unique
    wanted = {column.name: DTYPES[column.kind] for column in columns}
    for frame in (full, empty):
        assert {str(key): str(dtype) for key, dtype in frame.dtypes.items()} == wanted
    assert len(full) > 0
    assert name == "metrics" or len(empty) == 0, "metrics of nothing are noughts"


@pytest.mark.parametrize("name", SPECIFIED)
def test_frames_can_be_worked_with(name: str, frames: dict[str, Sequence[pd.DataFrame]], tmp_path: Path) -> None:
    """Copied, joined without a change of types, written and read; warnings are errors."""
    full, empty = frames[name]
    joined = pd.concat([full, empty])
    assert joined.dtypes.equals(full.dtypes)
    copy = full.copy()
    for column in copy.columns:
        copy.loc[copy.index[0], column] = None
        assert copy[column].dtype == full[column].dtype
    assert full.describe(include="all") is not None
    flat = full.drop(columns=["environment"], errors="ignore")
    assert len(json.loads(flat.reset_index().to_json(orient="records", date_format="iso"))) == len(full)
    if _has_pyarrow():
        flat.to_parquet(tmp_path / "frame.parquet")
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "frame.parquet"), flat, check_index_type=False)


def _has_pyarrow() -> bool:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def test_units_are_in_names() -> None:
    units = {"in s": ("_s", "seconds"), "in MiB": ("_mib",), "takes up": ("_bytes",)}
    for name, columns in SPECIFIED.items():
        assert len({column.name for column in columns}) == len(columns), name
        for column in columns:
            assert column.meaning, f"{name}.{column.name}"
            for told, endings in units.items():
                if re.search(rf"\b{told}\b", column.meaning):
                    assert column.name.endswith(endings), f"{name}.{column.name}: {column.meaning}"
            assert (column.kind == "time") == column.name.endswith(("_at", "at")) or column.name == "created_at"


def test_no_mean_takes_a_mask_for_a_zero(frames: dict[str, Sequence[pd.DataFrame]]) -> None:
    for name in ("outcomes", "rollouts"):
        frame = frames[name][0]
        assert frame["reward"].mean() == pytest.approx(4 / 7)
        assert frame.loc[frame["status"] == "masked", "reward"].isna().all()


def test_a_stopped_rollout_is_no_measurement(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", sync=False) as writer:
        of: dict[str, Any] = {"rollout_id": "a.0", "attempt": 1}
        for event in (ev.RunStarted(), ev.AttemptStarted(**of), ev.RolloutEnded(**of, status="stopped")):
            writer.append(event)
    with Run(tmp_path / "run") as run:
        frame = run.to_frame()
    assert (frame.loc["a.0", "status"], frame["reward"].isna().all()) == ("stopped", True)


def test_times_are_utc_and_exact(runs: tuple[Run, Run]) -> None:
    frame = runs[0].to_frame()
    first = frame.loc["django__django-11099.0"]
    assert first["started_at"] == datetime.fromtimestamp(made.START, UTC)
    assert (first["ended_at"] - first["started_at"]).total_seconds() == pytest.approx(first["seconds"])
    assert pd.isna(frame_of([Column("at", "time", "x")], [{"at": None}])["at"].iloc[0])


def test_rates_of_metrics_are_those_of_the_run(runs: tuple[Run, Run]) -> None:
    frame, metrics = runs[0].metrics.to_frame(), runs[0].metrics
    assert frame.loc["mean_reward", "value"] == metrics.mean_reward
    assert tuple(frame.loc["pass@1", ["low", "high", "count"]]) == (
        metrics.pass_at_1.low,
        metrics.pass_at_1.high,
        metrics.pass_at_1.tasks,
    )
    assert frame.loc["masked: host_oom", "value"] == 1
    assert pd.isna(run_metrics([]).to_frame().loc["mean_reward", "value"])
    assert set(frame["unit"]) == {"rollouts", "part", "s"}


def test_further_fields_of_tasks_have_the_type_of_their_values() -> None:
    frame = TaskSet([task("a"), task("b")]).to_frame()
    assert {name: str(frame[name].dtype) for name in ("difficulty", "hours")} == {
        "difficulty": "string",
        "hours": "Int64",
    }
    assert pd.isna(frame.loc["b", "hours"])
    index = pd.Index(["a", "b"])
    kinds = {"boolean": [True, None], "Float64": [1, 2.5], "object": [[1], {"a": 1}]}
    assert {str(typed(values, index).dtype): values for values in kinds.values()} == kinds
    assert str(typed([1, "x"], index).dtype) == "object"


def test_fields_of_any_name_and_number_become_columns() -> None:
    odd = {"self": 1, "index": "x", **{f"field {n}": n for n in range(150)}}
    frame = TaskSet([task("a").model_copy(update={"metadata": odd})]).to_frame()
    assert dict(frame.loc["a", list(odd)]) == odd


def test_snapshots_know_their_states(runs: tuple[Run, Run]) -> None:
    snapshots = runs[0].snapshots
    assert {row.snapshot_id: row.state for row in snapshots} == made.STATES
    assert dict(snapshots.to_frame()["state"]) == made.STATES
    assert [row.snapshot_id for row in snapshots.troubled] == ["snap-e", "snap-f"]
    assert isinstance(snapshots[:2], Snapshots)
    assert snapshots["snap-a"].kept_by == (made.checkpoint_id(3),)
    assert "3 kept, 1 leaked, 1 released, 1 violated" in repr(snapshots)
    assert "snap-e" in snapshots._repr_html_()
    with pytest.raises(swe.errors.InputError, match="nothing"):
        snapshots["nothing"]


def test_the_page_says_the_same() -> None:
    """A table of each frame: name, type, meaning."""
    page = PAGE.read_text("utf-8")
    for name, columns in SPECIFIED.items():
        assert table_of(columns) in page, f"docs/plots.md has another table of {name}; this is it:\n{table_of(columns)}"
    described = re.findall(r"^\| `\w+` \| `(.*?)` \|", page, re.MULTILINE)
    assert len(described) == sum(map(len, SPECIFIED.values()))


def table_of(columns: Sequence[Column]) -> str:
    rows = [f"| `{column.name}` | `{column.dtype}` | {column.meaning} |" for column in columns]
    return "\n".join(("| column | type | |", "|---|---|---|", *rows))
