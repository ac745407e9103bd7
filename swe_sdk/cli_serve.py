"""``swe-sdk serve``: the verifier server on the command line."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import signal
import sys
from functools import partial
from pathlib import Path

import anyio

from swe_sdk.cli_grade import set_base_image
from swe_sdk.errors import InputError
from swe_sdk.files import read_token
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.sandbox.registry import named_provider
from swe_sdk.server.serve import serve
from swe_sdk.server.settings import ServerSettings


def serve_posts(arguments: argparse.Namespace) -> int:
    """Serve until told to stop: 0 after SIGTERM, 130 after Ctrl-C, in either case once every sandbox is gone."""
    settings = _settings(arguments)
    tasks = _tasks(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    say_ready = partial(_say_ready, settings, tasks)
    told = anyio.run(partial(serve, settings, tasks, host=arguments.host, port=arguments.port, on_ready=say_ready))
    return 130 if told == signal.SIGINT else 0


def _settings(arguments: argparse.Namespace) -> ServerSettings:
    """Checked before anything is loaded or made."""
    if arguments.base_image is not None:
        set_base_image(arguments)
    if arguments.provider != "auto":
        named_provider(arguments.provider)
    given = {
        "provider": arguments.provider,
        "policy": arguments.policy,
        "workers": arguments.workers,
        "queue": arguments.queue,
        "body_mib": arguments.body_mib,
        "tests_timeout_s": arguments.timeout,
        "longest_tests_timeout_s": arguments.longest_timeout,
        "request_timeout_s": arguments.request_timeout,
        "control": arguments.control,
        "inline_tasks": not arguments.only_loaded,
        "local_sources": arguments.local_sources,
        "results": arguments.results,
        "token": required_token(arguments),
        "drain_s": arguments.drain,
        "metrics": not arguments.no_metrics,
    }
    told = {name: value for name, value in given.items() if value is not None}
    return ServerSettings.of(**told | dict(map(_setting, arguments.set or ())))


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or name == "token":
        raise InputError(f"--set {name} is no setting", remedy="write NAME=VALUE, and the token into --token-file")
    return name, value


def required_token(arguments: argparse.Namespace) -> str | None:
    """That of ``--token-file``; ``InputError`` where there is none and others than this machine can post."""
    if arguments.token_file is None:
        if not (arguments.no_token or _is_loopback(arguments.host)):
            problem = f"whoever reaches {arguments.host} could have this machine run programs in sandboxes"
            raise InputError(problem, remedy="give --token-file, or --no-token if it is meant so")
        return None
    return read_token(Path(arguments.token_file))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _tasks(arguments: argparse.Namespace) -> TaskSet:
    if arguments.tasks is None:
        if arguments.only_loaded:
            raise InputError("--only-loaded without tasks leaves nothing to grade", remedy="name TASKS")
        return TaskSet(())
    return load_tasks(
        arguments.tasks,
        family=arguments.family,
        instance_ids=arguments.instance_ids,
        unknown_fields=arguments.unknown_fields,
    )


def _say_ready(settings: ServerSettings, tasks: TaskSet, url: str, provider: str) -> None:
    loaded = f"{len(tasks)} task{'s' * (len(tasks) != 1)} loaded"
    sys.stdout.write(f"serving at {url}: {settings.workers} at once on {provider}, {loaded}\n")
    sys.stdout.flush()
