"""Configuration: golden values, inheritance key by key, and what is refused."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.config import PRESETS, RunConfig, resolve_config, seconds_of, shown_duration
from swe_sdk.config.presets import AGENTS
from swe_sdk.config.resolve import merged_tables
from swe_sdk.errors import InputError
from tests.config.golden import GOLDEN


@pytest.mark.parametrize(("preset", "agent"), GOLDEN)
def test_every_resolved_value_is_the_golden_one(preset: str, agent: str) -> None:
    found = resolve_config(preset=preset, agent=agent).config
    assert found.model_dump() == GOLDEN[preset, agent]


def test_golden_values_are_complete() -> None:
    assert {preset for preset, _ in GOLDEN} == set(PRESETS)
    assert {agent for _, agent in GOLDEN} == {"noop", *AGENTS}
    assert all(set(values) == set(RunConfig.model_fields) for values in GOLDEN.values())


def write(folder: Path, text: str, name: str = "run.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


FILE = """
preset = "training"
agent = "openhands"
agent_timeout_s = "45m"
model = {base_url = "http://127.0.0.1:8000/v1", name = "qwen"}

[agent_settings]
max_steps = 50
prompt = {system = "a", user = "b"}

[agents.openhands]
agent_timeout_s = "1h"
agent_settings = {prompt = {user = "c"}}

[agents.opencode]
tests_timeout_s = 1
"""


def test_layers_are_merged_key_by_key_and_each_value_has_its_origin(tmp_path: Path) -> None:
    path = write(tmp_path, FILE)
    resolved = resolve_config(path, samples=4)
    config, origins = resolved.config, resolved.origins
    assert config.agent_settings == {"max_steps": 50, "prompt": {"system": "a", "user": "c"}}
    assert (config.agent_timeout_s, origins["agent_timeout_s"]) == (3600.0, f"{path}, agents.openhands")
    assert (config.tests_timeout_s, origins["tests_timeout_s"]) == (1200.0, "preset training")
    assert (config.apptainer_memory_limit_mib, origins["apptainer_memory_limit_mib"]) == (32768, "base")
    assert (config.agent_version, origins["agent_version"]) == ("1.58.2", "agent openhands")
    assert (config.samples, origins["samples"]) == (4, "argument")
    assert (config.budget_s, origins["budget_s"]) == (None, "default")
    assert config.model is not None
    assert config.model.api_key_env == "OPENAI_API_KEY"
    assert set(origins) == set(RunConfig.model_fields)


def test_arguments_win_and_choose_which_agents_table_counts(tmp_path: Path) -> None:
    path = write(tmp_path, FILE)
    config = resolve_config(path, preset="evaluation", agent="opencode", tests_timeout_s="2m").config
    assert (config.preset, config.agent, config.agent_version) == ("evaluation", "opencode", "1.18.33")
    assert (config.tests_timeout_s, config.agent_timeout_s) == (120.0, 2700.0)
    assert resolve_config(path, agent="opencode").config.tests_timeout_s == 1.0


def test_a_resolved_configuration_is_taken_as_it_is(tmp_path: Path) -> None:
    config = resolve_config(write(tmp_path, FILE)).config
    assert resolve_config(config).config == config
    assert RunConfig.model_validate_json(config.model_dump_json()) == config
    as_json = write(tmp_path, json.dumps({"agent": "gold", "limit": 3}), "run.json")
    assert resolve_config(as_json).config == resolve_config({"agent": "gold", "limit": 3}).config


REFUSED = {
    "misspelt key": ({"tests_timeout": 3}, "did you mean tests_timeout_s"),
    "misspelt key of an agent": ({"agents": {"gold": {"sample": 3}}}, "agents.gold: unknown setting 'sample'"),
    "agent within an agent": ({"agents": {"gold": {"agent": "noop"}}}, "unknown setting 'agent'"),
    "misspelt key of the model": ({"model": {"base_url": "x", "name": "y", "api_key": "z"}}, "api_key_env"),
    "agents is no table": ({"agents": ["gold"]}, "table"),
    "unknown preset": ({"preset": "evaluate"}, "did you mean evaluation"),
    "no duration": ({"agent_timeout_s": "half an hour"}, "agent_timeout_s"),
    "no time": ({"tests_timeout_s": 0}, "tests_timeout_s"),
    "negative": ({"budget_s": "-5m"}, "budget_s"),
    "no samples": ({"samples": 0}, "samples"),
    "text for a number": ({"limit": "many"}, "limit"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused_and_named(name: str) -> None:
    settings, expected = REFUSED[name]
    with pytest.raises(InputError) as caught:
        resolve_config(settings)
    assert expected in str(caught.value)
    assert "settings" in str(caught.value) or name == "unknown preset"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("run.yaml", "a: 1", ".toml or .json"),
        ("run.toml", "a = = 1", "correct the TOML"),
        ("run.json", "{", "correct the JSON"),
        ("run.json", "[" * 100_000, "correct the JSON"),
        ("run.json", "[1]", "object"),
        ("run.toml", "tests_timeout = 1", "run.toml: unknown setting"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, name: str, text: str, expected: str) -> None:
    with pytest.raises(InputError, match=name.replace(".", r"\.")) as caught:
        resolve_config(write(tmp_path, text, name))
    assert expected in str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml"):
        resolve_config(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("90", 90),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("1d", 86400),
        (90, 90),
        (0.5, 0.5),
        (timedelta(minutes=2), 120),
    ],
)
def test_durations(text: str | float | timedelta, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "m", "30 minutes", "5x", "-1", "1h-5m", "inf", float("nan"), float("inf"), True])
def test_no_durations(text: str | float) -> None:
    with pytest.raises(InputError, match="duration"):
        seconds_of(text)


@given(st.integers(0, 10**9))
def test_shown_durations_are_read_back(milliseconds: int) -> None:
    assert seconds_of(shown_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)


tables = st.recursive(st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3))


@given(tables, tables)
def test_merging_keeps_every_new_value_and_every_old_one_that_is_not_replaced(old: object, new: object) -> None:
    merged = merged_tables(old, new)
    if not (isinstance(old, dict) and isinstance(new, dict)):
        assert merged == new
        return
    assert isinstance(merged, dict)
    assert set(merged) == {*old, *new}
    for key, value in merged.items():
        assert value == (merged_tables(old.get(key), new[key]) if key in new else old[key])
    assert merged_tables(old, old) == old


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*RunConfig.model_fields, "agents", "x"]), plain, max_size=6))
def test_any_settings_are_understood_or_refused(settings: dict[str, Any]) -> None:
    try:
        config = resolve_config(settings).config
    except InputError:
        return
    assert resolve_config(config).config == config
