"""Rows as NeMo Gym's servers take them: the task stands in the metadata of a request, some of it as a JSON text.

``responses_create_params.metadata`` holds ``instance_id``, ``dataset_name``, ``split``, ``problem_statement``,
``instance_dict`` (the row of the data set as a JSON text), and perhaps ``container_formatter`` and ``golden_patch``; or
the fields of the task itself. Rows whose task stands at the top are left as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from swe_sdk.errors import RowError
from swe_sdk.recipes.images import formatted_image

_EXACT = ("nv-internal-1", "swe-bench-ext")
_CONTAINED = (
    ("SWE-rebench", "swe-rebench"),
    ("R2E-Gym", "r2e-gym"),
    ("SWE-bench_Multilingual", "swe-bench-multilingual"),
    ("SWE-bench", "swe-bench"),
)
_WIRE = ("instance_dict", "dataset_name", "container_formatter", "golden_patch", "benchmark")


def family_of(dataset: str) -> str | None:
    """The family by which NeMo Gym grades a data set of that name, or None."""
    if dataset in _EXACT:
        return dataset
    return next((family for part, family in _CONTAINED if part.lower() in dataset.lower()), None)


def unwrapped(row: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """The row of the task within a row of NeMo Gym's; any other row as it is. Raises ``RowError``."""
    parameters = row.get("responses_create_params")
    metadata = parameters.get("metadata") if isinstance(parameters, Mapping) else None
    if not isinstance(metadata, Mapping) or metadata.get("instance_id") is None:
        return row
    inner = _instance(metadata, where)
    told = {**metadata, **inner}
    task = {name: value for name, value in (inner or metadata).items() if name not in _WIRE}
    added = {
        "instance_id": told["instance_id"],
        "family": _family(told),
        "problem_statement": told.get("problem_statement"),
        "patch": told.get("golden_patch"),
        "image": _image(metadata, str(told["instance_id"])),
    }
    missing = {name: value for name, value in added.items() if value is not None and task.get(name) is None}
    return {**task, **missing}


def _instance(metadata: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    value = metadata.get("instance_dict") or {}
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        raise _bad(where, metadata, "is not JSON") from None
    if not isinstance(parsed, Mapping):
        raise _bad(where, metadata, "holds no object")
    return parsed


def _bad(where: str, metadata: Mapping[str, Any], problem: str) -> RowError:
    name = metadata["instance_id"]
    return RowError(
        where,
        f"the field 'responses_create_params.metadata.instance_dict' {problem}",
        instance_id=name if isinstance(name, str) else None,
        remedy="write the row of the data set there as a JSON text",
    )


def _family(told: Mapping[str, Any]) -> str | None:
    names = (told.get("benchmark"), told.get("dataset_name"))
    return next((family for name in names if isinstance(name, str) and (family := family_of(name))), None)


def _image(metadata: Mapping[str, Any], instance_id: str) -> str | None:
    """The image that ``container_formatter`` (a text or a list of them) leads to."""
    given = metadata.get("container_formatter")
    formatters = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    return formatted_image([each for each in formatters if isinstance(each, str)], instance_id)
