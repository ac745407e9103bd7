"""What the report on a data set says besides healthy or not: figures, flaky tests, and what this machine lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swe_sdk import measure
from swe_sdk.cli_show import show_health
from swe_sdk.grading.health import Health, TaskHealth
from swe_sdk.model.environment import ImageEnvironment
from swe_sdk.store.results import Results
from tests.grading.tiny import make_task

pytestmark = pytest.mark.anyio


async def test_figures_of_a_healthy_task(provider, task, tmp_path: Path) -> None:
    health = (await measure.validate(task, n=2, provider=provider, results=tmp_path / "r", progress=False))[0]
    assert health.healthy
    assert [health.passed(kind) for kind in ("gold", "empty", "wrong")] == ["2/2", "0/1", "0/1"]
    assert health.seconds is not None
    assert 0 < health.seconds < 60
    assert health.build_s > 0
    assert health.disk_mib is not None
    assert 0.01 < health.disk_mib < 200, "the environment alone: nothing that is mounted from this machine"
    assert health.missing_tool is None


async def test_larger_environments_take_more_disk(provider, tmp_path: Path) -> None:
    small = make_task(tmp_path / "repo")
    install = ("head -c 30000000 /dev/zero > blob.bin",)
    large = small.model_copy(
        update={"instance_id": "large", "environment": small.environment.model_copy(update={"install": install})}
    )
    health = await measure.validate([small, large], n=1, provider=provider, results=tmp_path / "r", progress=False)
    sizes = [task.disk_mib for task in health]
    assert None not in sizes
    assert 28 < sizes[1] - sizes[0] < 31
    assert health.to_dict()["disk_mib"] == pytest.approx(sum(sizes), abs=0.2)


async def test_a_missing_tool_is_named(provider, task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = task.environment.model_copy(update={"tools": ("cobol-85",)})
    lacking = [task.model_copy(update={"instance_id": name, "environment": environment}) for name in ("a", "b")]
    results = Results(tmp_path / "r")
    health = await measure.validate([*lacking, task], n=1, provider=provider, results=results, progress=False)
    assert [each.status for each in health] == ["unknown", "unknown", "healthy"]
    assert health.missing_tools == {"cobol-85": ("a", "b")}
    assert json.loads(json.dumps(health.to_dict()))["missing_tools"] == {"cobol-85": ["a", "b"]}
    assert (health["a"].seconds, health["a"].disk_mib, health["a"].passed("gold")) == (None, None, "0/1")
    show_health(health, results)
    assert "missing: cobol-85, for a, b" in capsys.readouterr().out


async def test_what_cannot_be_had_has_no_figures(provider, task, tmp_path: Path) -> None:
    nowhere = task.model_copy(update={"environment": ImageEnvironment(image="example.invalid/none:1")})
    health = await measure.validate(nowhere, n=1, provider=provider, results=tmp_path / "r", retries=0, progress=False)
    assert (health[0].status, health[0].disk_mib, health[0].seconds) == ("unknown", None, None)


def test_flaky_tests_are_named_and_text_of_tests_is_shown_only(tmp_path: Path, capsys) -> None:
    odd = TaskHealth(instance_id="t", status="unhealthy", flaky=("a\x1b[31m", "b"), runs={"gold": ("resolved",)})
    health = Health([odd])
    show_health(health, Results(tmp_path / "r"))
    shown = capsys.readouterr().out
    assert "flaky in t: a" in shown
    assert "\x1b[31m" not in shown
    assert health.to_dict()["flaky"] == {"t": ["a\x1b[31m", "b"]}
    frame = health.to_frame()
    assert frame.loc["t", "gold"] == "1/1"
    assert {"seconds", "build_s", "disk_mib"} <= set(frame.columns)
