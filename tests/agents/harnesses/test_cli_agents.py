"""``swe-sdk agents``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swe_sdk.agents.harnesses import HARNESSES
from swe_sdk.agents.registry import agent_class, agent_names
from swe_sdk.cli import main
from swe_sdk.config.presets import AGENTS
from tests.agents.harness_lab import need_harness_installed


def test_they_are_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWE_SDK_HARNESSES", str(tmp_path))
    assert main(["agents", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert tuple(rows) == agent_names()
    assert rows["gold"]["is_ready"]
    assert rows["mini-swe-agent"] == {
        "name": "mini-swe-agent", "version": "2.4.6", "tier": "exact", "is_ready": False,
        "reason": "not installed yet", "remedy": "swe-sdk agents install mini-swe-agent",
    }  # fmt: skip
    assert main(["agents"]) == 0
    assert "swe-sdk agents install opencode" in capsys.readouterr().out


def test_one_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    directory = need_harness_installed("mini-swe-agent")
    assert main(["agents", "install", "mini-swe-agent"]) == 0
    assert capsys.readouterr().out == f"mini-swe-agent: {directory}\n"
    assert main(["agents", "list", "mini-swe-agent", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["is_ready"]


def test_an_unknown_one_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "install", "mini"]) == 2
    assert "known: codex, mini-swe-agent, opencode, openhands" in capsys.readouterr().err


def test_presets_name_the_versions_that_are_installed() -> None:
    named = {name: layer["agent_version"] for name, layer in AGENTS.items()}
    assert named == {name: maker.version for name, maker in HARNESSES.items()}


def test_the_page_names_the_versions_and_settings_that_there_are() -> None:
    page = (Path(__file__).parents[3] / "docs" / "agents.md").read_text("utf-8")
    rows = {name: row for row in page.splitlines() for name in agent_names() if row.startswith(f"| `{name}` |")}
    assert tuple(sorted(rows)) == agent_names()
    for name, maker in HARNESSES.items():
        assert f" {maker.version} |" in rows[name]
        settings = agent_class(name).model_fields  # type: ignore[attr-defined]
        assert [setting for setting in settings if f"`{setting}`" not in page] == []
