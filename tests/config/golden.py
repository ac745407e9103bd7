"""Every resolved value of every preset with every agent that has settings of its own, written down by hand.

A change of a default changes what results mean: it must be made here as well, on purpose, and told in the changelog.
"""

from __future__ import annotations

from typing import Any

EVALUATION: dict[str, Any] = {
    "preset": "evaluation",
    "agent": "noop",
    "agent_version": None,
    "agent_settings": {},
    "model": None,
    "samples": 1,
    "retries": 1,
    "budget_s": None,
    "deadline_s": None,
    "seed_timeout_s": 600.0,
    "agent_timeout_s": 1800.0,
    "command_exec_timeout_s": 300.0,
    "tests_timeout_s": 900.0,
    "close_timeout_s": 600.0,
    "verify_timeout_s": 5400.0,
    "build_timeout_s": 1800.0,
    "teardown_timeout_s": 60.0,
    "provider": "auto",
    "base_image": None,
    "memory_limit_mib": None,
    "apptainer_memory_limit_mib": 32768,
    "executor": "local",
    "limit": None,
    "max_boxes": None,
    "max_creates": 16,
    "max_model_calls": None,
    "max_calls_per_attempt": None,
    "max_tokens_per_attempt": None,
    "checkpoint_every_s": None,
    "keep_last": 2,
    "keep_every": None,
    "keep_best": 0,
    "snapshot_share": None,
    "checkpoint_wait_s": 60.0,
    "patch_mode": "worktree",
    "policy": "default",
    "verifier": None,
}
TRAINING = {**EVALUATION, "preset": "training", "tests_timeout_s": 1200.0, "retries": 0, "policy": "nemo_gym"}
AGENTS: dict[str, dict[str, Any]] = {
    "noop": {},
    "codex": {"agent_version": "0.171.0"},
    "mini-swe-agent": {"agent_version": "2.4.6"},
    "opencode": {"agent_version": "1.18.33"},
    "openhands": {"agent_version": "1.58.2"},
}
GOLDEN = {
    (preset["preset"], agent): {**preset, "agent": agent, **own}
    for preset in (EVALUATION, TRAINING)
    for agent, own in AGENTS.items()
}
