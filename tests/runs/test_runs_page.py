"""The page about runs cannot rot: its tables are held against the source."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from swe_sdk.config import PRESETS, resolve_config
from swe_sdk.config.model import SETTINGS
from swe_sdk.metrics.summary import RunMetrics
from swe_sdk.runs.rollout import Rollout
from swe_sdk.runs.run import Run

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "runs.md").read_text("utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a line."""
    table = PAGE[PAGE.index(heading) :].splitlines()[2:]
    end = next(number for number, line in enumerate(table) if not line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[:end]]


@pytest.mark.parametrize(("preset", "column"), [("evaluation", 1), ("training", 2)])
def test_settings_have_the_values_of_the_page(preset: str, column: int) -> None:
    shown: dict[str, Any] = {
        row[0].strip("`"): json.loads(row[column].strip("`")) for row in rows("| setting | evaluation")
    }
    assert shown == resolve_config(preset=preset).config.model_dump(mode="json")
    assert tuple(shown) == SETTINGS, "in the order of the source"
    assert preset in PRESETS


def test_the_file_of_the_page_is_a_configuration(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "run.toml").write_text(text)
    config = resolve_config(tmp_path / "run.toml").config
    assert (config.samples, config.tests_timeout_s) == (8, 1200.0)
    assert resolve_config(tmp_path / "run.toml", agent="openhands").config.agent_timeout_s == 3600.0


def test_names_of_the_page_are_there() -> None:
    for owner, name in re.findall(r"`(run|rollout)\.(?!json|lock)(\w+)", PAGE):
        assert hasattr({"run": Run, "rollout": Rollout}[owner], name), name
    for name in ("mean_reward", "masked_rate", "infra_failed_rate", "pass_at", "budget", "stages"):
        assert name in RunMetrics.model_fields
        assert name in PAGE
