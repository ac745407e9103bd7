"""``swe-sdk grade`` and ``swe-sdk validate``."""

from __future__ import annotations

import argparse
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from swe_sdk import measure
from swe_sdk.cli_show import show_health, show_outcomes
from swe_sdk.cli_stop import run_stoppable
from swe_sdk.errors import InputError
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.predictions import load_predictions
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.sandbox.registry import named_provider
from swe_sdk.store.atomic import append_line
from swe_sdk.store.results import Results, outcome_json


def grade(arguments: argparse.Namespace) -> int:
    """Grade a patch for each task; 0 when each got an Outcome."""
    tasks = _checked(arguments)
    predictions = _predictions(arguments, tasks)
    output = fresh_file(arguments.output)
    results = Results(arguments.results)
    run = partial(
        measure.grade_many,
        tasks,
        predictions,
        on_outcome=None if output is None else partial(_write_line, output),
        results=results,
        executor=arguments.executor,
        **_options(arguments),
    )
    show_outcomes(run_stoppable(run), results)
    return 0


def validate(arguments: argparse.Namespace) -> int:
    """Check the tasks; 0, or with --strict 1 unless all of them are healthy."""
    tasks = _checked(arguments)
    output = fresh_file(arguments.json)
    results = Results(arguments.results)
    health = run_stoppable(partial(measure.validate, tasks, n=arguments.n, results=results, **_options(arguments)))
    if output is not None:
        output.write_text(json.dumps(health.to_dict(), indent=2) + "\n")
    show_health(health, results)
    return int(arguments.strict and not health.healthy)


def _checked(arguments: argparse.Namespace) -> TaskSet:
    """The tasks, once everything that can be wrong with the arguments is known not to be."""
    if arguments.base_image is not None:
        set_base_image(arguments)
    if arguments.provider != "auto":
        named_provider(arguments.provider)
    return _tasks(arguments, arguments.instance_ids)


def set_base_image(arguments: argparse.Namespace) -> None:
    """The option is the setting of that name, for this one run; providers read it as they are made."""
    if arguments.provider in ("auto", "local"):
        problem = f"--base-image is for container providers, which {arguments.provider!r} is not"
        raise InputError(problem, remedy="leave it out, or choose --provider docker or apptainer")
    os.environ["SWE_SDK_BASE_IMAGE"] = arguments.base_image


def _tasks(arguments: argparse.Namespace, instance_ids: list[str] | None) -> TaskSet:
    return load_tasks(
        arguments.tasks,
        family=arguments.family,
        instance_ids=instance_ids,
        unknown_fields=arguments.unknown_fields,
    )


def _predictions(arguments: argparse.Namespace, tasks: TaskSet) -> dict[str, Patch]:
    """The patches of ``tasks``. A file may hold those of the other tasks of the dataset as well."""
    is_file = arguments.patches not in ("gold", "empty", "wrong")
    known = _tasks(arguments, None) if is_file and arguments.instance_ids else tasks
    predictions = load_predictions(arguments.patches, known)
    return {name: predictions[name] for name in tasks.ids if name in predictions}


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "provider": arguments.provider,
        "limit": arguments.workers,
        "tests_timeout_s": arguments.timeout,
        "policy": arguments.policy,
        "disk_mib": arguments.disk_mib or None,
    }


def fresh_file(name: str | None) -> Path | None:
    """An empty file of that name, made now, so that a bad path is known before hours of work."""
    if name is None:
        return None
    path = Path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}", remedy="name another file") from error
    return path


def _write_line(output: Path, outcome: Outcome) -> None:
    append_line(output, outcome_json(outcome).encode())
