"""``swe-sdk run`` and ``swe-sdk resume``."""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import Any

from swe_sdk.cli_grade import fresh_file
from swe_sdk.cli_run_show import show_run
from swe_sdk.cli_stop import run_stoppable
from swe_sdk.config.model import ModelConfig
from swe_sdk.errors import InputError
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.runs import start
from swe_sdk.runs.run import Run


def run(arguments: argparse.Namespace) -> int:
    """Start a run; 0 once every rollout is finished, whatever came of it."""
    fresh_file(arguments.rows)
    tasks = _tasks(arguments)
    settings = _settings(arguments.set)
    told = {
        "budget": arguments.budget,
        "checkpoint_every": arguments.checkpoint_every,
        "samples": arguments.samples,
        "provider": arguments.provider,
        "base_image": arguments.base_image,
        "executor": arguments.executor,
        "limit": arguments.workers,
        "policy": arguments.policy,
        "verifier": arguments.verifier,
    }
    work = partial(
        start.run,
        tasks,
        arguments.agent,
        model=_model(arguments),
        config=arguments.config,
        preset=arguments.preset,
        path=arguments.path,
        name=arguments.name,
        progress=not arguments.quiet,
        **{key: value for key, value in told.items() if value is not None},
        **settings,
    )
    return _ended(run_stoppable(work), arguments)


def _tasks(arguments: argparse.Namespace) -> TaskSet:
    tasks = load_tasks(
        arguments.tasks,
        family=arguments.family,
        instance_ids=arguments.instance_ids,
        unknown_fields=arguments.unknown_fields,
    )
    if arguments.limit is None:
        return tasks
    if arguments.limit < 1:
        raise InputError(f"--limit {arguments.limit}", remedy="it is a number of tasks, from 1")
    return tasks[: arguments.limit]


def resume(arguments: argparse.Namespace) -> int:
    """Go on with a run; 0 once every rollout is finished."""
    fresh_file(arguments.rows)
    work = partial(
        start.resume,
        arguments.path,
        retry_masked=arguments.retry_masked,
        executor=arguments.executor,
        limit=arguments.workers,
        progress=not arguments.quiet,
    )
    return _ended(run_stoppable(work), arguments)


def _ended(run: Run, arguments: argparse.Namespace) -> int:
    with run:
        show_run(run)
        if arguments.rows is not None:
            run.export_nemo_gym(arguments.rows)
        return int(not run.finished)


def _settings(pairs: list[str]) -> dict[str, Any]:
    """``KEY=VALUE`` as settings; a value that is no JSON is a text. ``a.b=1`` is ``{"a": {"b": 1}}``."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise InputError(f"--set {pair}: no KEY=VALUE", remedy="such as --set tests_timeout_s=20m")
        *tables, last = key.split(".")
        table = settings
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise InputError(f"--set {pair}: {name!r} is set to a value already")
        table[last] = _value(text)
    return settings


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _model(arguments: argparse.Namespace) -> ModelConfig | None:
    if arguments.model is None and arguments.base_url is None:
        return None
    if arguments.model is None or arguments.base_url is None:
        raise InputError("--model and --base-url go together", remedy="give both, or a [model] table in --config")
    return ModelConfig(base_url=arguments.base_url, name=arguments.model)
