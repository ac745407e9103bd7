"""Predictions: which patch is to be graded for which task."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from swe_sdk.errors import PredictionsError, did_you_mean
from swe_sdk.model.patch import EMPTY_PATCH, Patch
from swe_sdk.model.task import Task
from swe_sdk.recipes.files import read_rows, rows_by_id
from swe_sdk.recipes.located import Located
from swe_sdk.recipes.trajectories import as_prediction

_TEXT = "model_patch"
_ENCODED = "model_patch_base64"
_SHAPE = f'a prediction is {{"instance_id": ..., "{_TEXT}": text or null}}, or has {_ENCODED}'

PatchLike = Patch | bytes | str | None
_OWN = ("gold", "empty", "wrong")
"""Patches that tasks bring along."""
Predictions = str | Path | Mapping[str, PatchLike] | Iterable[Mapping[str, Any]]


def load_predictions(source: Predictions, tasks: Iterable[Task]) -> dict[str, Patch]:
    """The patches to grade, by instance id; tasks without a prediction are left out.

    ``source`` is "gold", "empty" or "wrong" (the tasks' own patches; "wrong" ones are plausible and must fail), a path
    to a file, a mapping of ids to patches, or objects in memory. A .jsonl, .json, .parquet or .arrow file has the
    official form (``instance_id``, ``model_patch``, which may be null, or ``model_patch_base64``; a list, one object a
    line, or objects by id), or holds trajectories: OpenHands' ``output.jsonl``, those of SWE-agent and mini-swe-agent.
    Patches are not decoded: text that was read with surrogate escapes gives back its bytes.

    Raises :class:`~swe_sdk.errors.PredictionsError`, which names the line.
    """
    known = {task.instance_id: task for task in tasks}
    if isinstance(source, str) and source in _OWN:
        return {name: _own_patch(task, source) for name, task in known.items()}
    found: dict[str, Patch] = {}
    places: dict[str, str] = {}
    for where, value in _located(source):
        name, patch = _read(where, value)
        if name not in known:
            raise PredictionsError(f"{where}: unknown task {name!r}", remedy=did_you_mean(name, known))
        if name in places:
            raise PredictionsError(f"{places[name]} and {where} both predict {name!r}", remedy="keep one of them")
        found[name], places[name] = patch, where
    return found


def _own_patch(task: Task, kind: str) -> Patch:
    if kind == "empty":
        return EMPTY_PATCH
    patch = task.grading.gold_patch if kind == "gold" else task.grading.wrong_patch
    if patch is None:
        remedy = "choose tasks that have one, with instance_ids or filter"
        raise PredictionsError(f"the task {task.instance_id!r} has no {kind} patch", remedy=remedy)
    return patch


def _located(source: Any) -> Iterator[Located]:
    if isinstance(source, str) and not (Path(source).suffix or Path(source).exists()):
        raise PredictionsError(f"{source!r} names neither patches nor a file", remedy=did_you_mean(source, _OWN))
    if isinstance(source, str | Path):
        return read_rows(Path(source), PredictionsError)
    if isinstance(source, Mapping):
        rows = {name: value if isinstance(value, Mapping) else {_TEXT: value} for name, value in source.items()}
        return rows_by_id("predictions", rows)
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return (Located(f"prediction {index}", value) for index, value in enumerate(source))
    raise PredictionsError(f"a {type(source).__name__} holds no predictions", remedy="give a path or a mapping")


def _read(where: str, value: Any) -> tuple[str, Patch]:
    if not isinstance(value, Mapping):
        raise PredictionsError(f"{where}: a prediction must be an object", remedy=_SHAPE)
    value = as_prediction(value)
    name = value.get("instance_id")
    if not isinstance(name, str):
        raise PredictionsError(f"{where}: it has no instance_id", remedy=_SHAPE)
    where = f"{where} ({name})"
    present = [field for field in (_TEXT, _ENCODED) if field in value]
    if len(present) != 1:
        problem = f"it has both {_TEXT} and {_ENCODED}" if present else f"it has no {_TEXT}{_trouble(value)}"
        raise PredictionsError(f"{where}: {problem}", remedy=_SHAPE)
    return name, (_text if present == [_TEXT] else _encoded)(where, value[present[0]])


def _trouble(value: Mapping[str, Any]) -> str:
    """What a trajectory says went wrong."""
    error = value.get("error")
    return f" (the agent ended with: {error[:200]})" if isinstance(error, str) and error else ""


def _text(where: str, value: Any) -> Patch:
    if not isinstance(value, Patch | bytes | str | None):
        raise PredictionsError(f"{where}: {_TEXT} is a {type(value).__name__}, not text or null", remedy=_SHAPE)
    try:
        return Patch.of(value)
    except UnicodeEncodeError:
        problem = f"{where}: {_TEXT} holds lone surrogates, which stand for no bytes"
        raise PredictionsError(problem, remedy=f"give the bytes as {_ENCODED}") from None


def _encoded(where: str, value: Any) -> Patch:
    try:
        return Patch.of(base64.b64decode(value, validate=True))
    except (TypeError, ValueError):
        raise PredictionsError(f"{where}: {_ENCODED} is not base64", remedy=_SHAPE) from None
