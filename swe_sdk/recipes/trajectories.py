"""Patches out of what agents leave behind, as predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PATCH = "model_patch"


def as_prediction(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A prediction of a trajectory; any other object as it is.

    Known are OpenHands' ``output.jsonl`` (``test_result.git_patch``, or ``git_patch`` in old ones) and the trajectories
    of SWE-agent and mini-swe-agent (``info.submission``). A patch that is null there is an empty one: the agent changed
    nothing. One that is absent stays absent: the agent never got that far, which is no patch at all.
    """
    if _PATCH in value or f"{_PATCH}_base64" in value:
        return value
    for group, field in (("test_result", "git_patch"), ("info", "submission"), (None, "git_patch")):
        holder = value if group is None else value.get(group)
        if isinstance(holder, Mapping) and field in holder:
            return {"instance_id": value.get("instance_id"), _PATCH: holder[field]}
    return value
