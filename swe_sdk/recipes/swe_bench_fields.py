"""The fields that rows of the swe-bench family have, by what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swe_sdk.recipes.shared_rows import TASK_FIELDS
from swe_sdk.recipes.sources import SOURCES

_GRADING = (
    "FAIL_TO_PASS",
    "fail_to_pass",
    "PASS_TO_PASS",
    "pass_to_pass",
    "image",
    "image_assets",
    "eval_script",
    "test_command",
    "log_parser",
    "eval_type",
)
METADATA = (
    "difficulty",
    "environment_setup_commit",
    "split",
    "subset",
    "datasets",
    "language",
    "title",
    "tags",
    "eval_seconds",
    "eval_seconds_min",
)
"""Public fields that become ``Task.metadata``."""

_DROPPED = (
    # they tell about the hidden tests
    "wrong_patch_note",
    "wrong_patch_fails",
    "dropped",
    "id_map",
    "official",
    "calibrated_pythons",
    "notes",
    # they belong to NeMo Gym; the first can hold the whole row once more
    "responses_create_params",
    "agent_ref",
    "task_source",
)
KNOWN_FIELDS = (*TASK_FIELDS, *_GRADING, *METADATA, *_DROPPED)

_CLASSIC = frozenset(("repo", "base_commit", "test_patch"))
_TESTED = frozenset(("test_command", "log_parser", "FAIL_TO_PASS", "fail_to_pass"))
_FOREIGN = frozenset(
    ("install_config", "before_repo_set_cmd", "docker_image", "swe_bench_instance", "test_framework", "test_cmds")
)
"""Fields of other families whose rows look like classic ones."""


def is_swe_bench(row: Mapping[str, Any]) -> bool:
    """Whether a row has one of the layouts of the family, complete or not."""
    if not _FOREIGN.isdisjoint(row):
        return False
    if row.get("eval_script") is not None or row.keys() >= _CLASSIC:
        return True
    return any(row.get(name) is not None for name in SOURCES) and not _TESTED.isdisjoint(row)
