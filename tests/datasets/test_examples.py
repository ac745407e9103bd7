"""The examples of each family are what a real run makes today, and say nothing about the machine that made them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import swe_sdk as swe
from scripts.make_examples import DATASETS, TASKS, example_files, example_rows, stable
from swe_sdk.exports import nemo_gym_row, read_nemo_gym_rows
from swe_sdk.recipes.registry import recipe_names
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.shared import lacking

FAMILIES = sorted(TASKS)
FILES = ("example_metrics.json", "example_rollouts.jsonl", "example_rows.jsonl")


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def test_every_family_of_the_bundled_tasks_has_examples() -> None:
    assert {task.family for task in swe.load_tasks("mini")} <= set(FAMILIES) <= set(recipe_names())


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_those_of_the_bundled_tasks(family: str) -> None:
    assert (DATASETS / family / "example_rows.jsonl").read_bytes() == example_rows(family)
    tasks = swe.load_tasks(DATASETS / family / "example_rows.jsonl")
    bundled = swe.load_tasks("mini")
    for name in TASKS[family]:
        assert tasks[name].grading == bundled[name].grading
        assert tasks[name].family == family


@pytest.mark.parametrize("family", FAMILIES)
def test_examples_name_no_machine_and_no_mask_is_a_plain_zero(family: str) -> None:
    for name in FILES:
        text = (DATASETS / family / name).read_text("utf-8")
        assert not {part for part in ("/work/", "/root/", "/home/", "/tmp/pytest", "/dev/shm") if part in text}, name
    rows = lines((DATASETS / family / "example_rollouts.jsonl").read_bytes())
    assert [row["reward"] for row in rows if row["mask_sample"]] == [
        0.0 for row in rows if row["failure_kind"] is not None
    ]
    records = list(read_nemo_gym_rows(DATASETS / family / "example_rollouts.jsonl"))
    assert [json.loads(nemo_gym_row(record).model_dump_json()) for record in records] == rows


@pytest.mark.network
@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_makes_them_again(family: str, local_provider: LocalProvider, tmp_path: Path) -> None:
    """All fields but seconds."""
    tools = {tool for task in swe.load_tasks("mini") if task.instance_id in TASKS[family] for tool in needed(task)}
    if missing := sorted(tool for tool in tools if shutil.which(tool) is None):
        lacking(f"{', '.join(missing)} not installed")
    folder = tmp_path / "datasets" / family
    folder.mkdir(parents=True)
    (folder.parent / "mini").symlink_to(DATASETS / "mini")
    made = example_files(family, folder, provider=local_provider)
    kept = {name: (DATASETS / family / name).read_bytes() for name in FILES}
    assert made["example_rows.jsonl"] == kept["example_rows.jsonl"]
    found, expected = ([stable(row) for row in lines(files["example_rollouts.jsonl"])] for files in (made, kept))
    assert found == expected
    found_outcomes, expected_outcomes = (
        [verdict(row) for row in lines(files["example_rollouts.jsonl"])] for files in (made, kept)
    )
    assert found_outcomes == expected_outcomes
    assert counts(json.loads(made["example_metrics.json"])) == counts(json.loads(kept["example_metrics.json"]))


def needed(task: swe.Task) -> tuple[str, ...]:
    return task.environment.tools if isinstance(task.environment, swe.SourceEnvironment) else ()


def verdict(row: Mapping[str, Any]) -> dict[str, Any]:
    outcome = row["swe_sdk"]["record"]["outcome"]
    return {name: outcome[name] for name in ("status", "reward", "mask", "tests", "patch", "reason", "flags")}


def counts(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """All but seconds."""
    return {
        agent: {name: value for name, value in each.items() if name not in ("budget", "stages")}
        for agent, each in metrics.items()
    }
