"""What each preset says; every one inherits the base key by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swe_sdk.errors import InputError, did_you_mean

Layer = Mapping[str, Any]
"""Some settings by key; what it does not name is inherited."""

BASE: Layer = {
    "agent": "noop",
    "seed_timeout_s": 600.0,
    "agent_timeout_s": 1800.0,
    "command_exec_timeout_s": 300.0,
    "close_timeout_s": 600.0,
    "verify_timeout_s": 5400.0,
    "build_timeout_s": 1800.0,
    "teardown_timeout_s": 60.0,
    "provider": "auto",
    "apptainer_memory_limit_mib": 32768,
    "max_creates": 16,
    "policy": "default",
}
"""Shared by all presets. The limits of agents and of apptainer are those that SWE trainings were run with."""

PRESETS: Mapping[str, Layer] = {
    "evaluation": {"tests_timeout_s": 900.0, "samples": 1, "retries": 1},
    "training": {"tests_timeout_s": 1200.0, "samples": 1, "retries": 0, "policy": "nemo_gym"},
}
"""``evaluation`` measures what an agent can do. ``training`` feeds a trainer, which asks again by itself and whose mask
rule is NeMo Gym's; its tests get more time, because its machines are shared by more of them."""

DEFAULT_PRESET = "evaluation"

AGENTS: Mapping[str, Layer] = {
    "codex": {"agent_version": "0.171.0"},
    "mini-swe-agent": {"agent_version": "2.4.6"},
    "opencode": {"agent_version": "1.18.33"},
    "openhands": {"agent_version": "1.58.2"},
}
"""What holds for one agent in every preset: the version of its harness, so that two runs compare the same thing."""


def preset_layer(name: str) -> Layer:
    """The settings of a preset alone, without the base. Raises ``InputError``."""
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}", remedy=did_you_mean(name, PRESETS))
    return PRESETS[name]
