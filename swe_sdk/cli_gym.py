"""``swe-sdk gym``: the servers of an episode as NeMo Gym has them, each a process of its own."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from pydantic import SecretStr, ValidationError

from swe_sdk.errors import InputError

if TYPE_CHECKING:
    from swe_sdk.agents.gateway.endpoint import ModelEndpoint
    from swe_sdk.model.record import Record
    from swe_sdk.recipes.taskset import TaskSet
    from swe_sdk.server.gym.serving import PeerAt, Place
    from swe_sdk.server.settings import ServerSettings

    R = TypeVar("R", bound=Record)
Told = Mapping[str, Any]
_SECRET = ("token", "secret", "control_auth_token")


def add_gym_command(commands: Any) -> None:
    """Add it to the subparsers of ``swe-sdk``."""
    about = "serve the parts of an episode to NeMo Gym: resources, agent, environment; each by --workers N processes"
    gym = commands.add_parser("gym", help=about)
    kinds = gym.add_subparsers(dest="kind", required=True, metavar="KIND")
    resources = _kind(kinds, "resources", "lend sandboxes and tools, and grade what comes of them")
    resources("tasks", nargs="?", metavar="TASKS", help="tasks that seeds may name by their id alone")
    resources("--family", help="harness family of the rows (default: detected)")
    resources("--provider", default="auto", metavar="P", help="of the sandboxes (default: auto)")
    resources("--only-loaded", action="store_true", help="take no tasks along with seeds")
    resources("--local-sources", action="store_true", help="let them name folders of this machine")
    resources("--secret-file", metavar="FILE", help="signs tokens; servers that share it accept each other's")
    resources("--url", metavar="URL", help="where borrowers reach it (default: where it listens)")
    agent = _kind(kinds, "agent", "run one agent in sandboxes that are lent to it")
    agent("--agent", required=True, metavar="NAME", help="gold, noop, mini-swe-agent, opencode, openhands, ...")
    agent("--agent-settings", default="{}", metavar="JSON", help="its settings")
    agent("--tasks", metavar="TASKS", help="for agents that play back their solutions (gold)")
    agent("--model", metavar="NAME", help="the model's name at --base-url")
    agent("--base-url", metavar="URL", help="an OpenAI-compatible endpoint; its key is read from $OPENAI_API_KEY")
    agent("--service-url", metavar="URL", help="the model gateway's address as sandboxes elsewhere see it")
    agent("--resources-url", metavar="URL", help="serve the legacy /run too, with this resources server")
    environment = _kind(kinds, "environment", "drive episodes: one turn of a single agent each")
    environment("--resources-url", required=True, metavar="URL", help="the resources server")
    environment("--agent-url", required=True, metavar="URL", help="the agent server")
    environment("--agent-token-file", metavar="FILE", help="its token, where it has one")
    for each in (agent, environment):
        each("--resources-token-file", metavar="FILE", help="the token of the resources server, where it has one")


def _kind(kinds: Any, name: str, about: str) -> Callable[..., Any]:
    add: Callable[..., Any] = kinds.add_parser(name, help=about).add_argument
    add("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    add("--port", type=int, default=0, help="port; 0 takes a free one (default: 0)")
    add("--workers", type=int, default=1, metavar="N", help="processes that serve it together (default: 1)")
    add("--token-file", metavar="FILE", help="the bearer token that every post must show")
    add("--no-token", action="store_true", help="listen beyond this machine without one")
    add("--control-token-file", metavar="FILE", help="take part in checkpoints: the token of the control routes")
    add("--state-dir", metavar="DIR", help="where it keeps what outlives it, with checkpoints: of one server and run")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="any other setting, by its name. Repeatable")
    return add


def gym(arguments: argparse.Namespace) -> int:
    """Serve until told to stop: 0 after SIGTERM, 130 after Ctrl-C."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    served = {"resources": _resources, "agent": _agent, "environment": _environment}[arguments.kind](arguments)
    told = anyio.run(partial(served, on_ready=partial(_say_ready, arguments.kind)))
    return 130 if told == signal.SIGINT else 0


def _resources(arguments: argparse.Namespace) -> Callable[..., Any]:
    from swe_sdk.server.gym.serving import serve_resources
    from swe_sdk.server.gym.settings import ResourcesSettings

    told = {
        "provider": arguments.provider,
        "inline_tasks": not arguments.only_loaded,
        "local_sources": arguments.local_sources,
        "secret": _read(arguments.secret_file),
    }
    given = _given(arguments, told)
    sessions = _taken(ResourcesSettings, given)
    tasks = _tasks(arguments.tasks, arguments.family)
    return partial(serve_resources, _server(arguments, given), tasks, _place(arguments, arguments.url), sessions)


def _agent(arguments: argparse.Namespace) -> Callable[..., Any]:
    from swe_sdk.server.gym.serving import AgentSetup, serve_agent
    from swe_sdk.server.gym.settings import AgentSettings, EpisodeSettings

    given = _given(arguments, {})
    limits, episodes = _taken(AgentSettings, given), _taken(EpisodeSettings, given)
    setup = AgentSetup(
        arguments.agent,
        _json(arguments.agent_settings),
        model=_model(arguments),
        service_url=arguments.service_url,
        tasks=_tasks(arguments.tasks, None),
        resources=None if arguments.resources_url is None else _resources_of(arguments),
    )
    return partial(serve_agent, _server(arguments, given), setup, _place(arguments), limits, episodes)


def _environment(arguments: argparse.Namespace) -> Callable[..., Any]:
    from swe_sdk.server.gym.serving import serve_environment
    from swe_sdk.server.gym.settings import EpisodeSettings

    given = _given(arguments, {})
    episodes = _taken(EpisodeSettings, given)
    peers = _resources_of(arguments), _peer(arguments.agent_url, arguments.agent_token_file)
    return partial(serve_environment, _server(arguments, given), *peers, _place(arguments), episodes)


def _given(arguments: argparse.Namespace, told: Told) -> dict[str, Any]:
    """All settings that were given, by name."""
    return {**{name: value for name, value in told.items() if value is not None}, **dict(map(_setting, arguments.set))}


def _taken(kind: type[R], given: dict[str, Any]) -> R:
    """The settings of one kind, taken out of those that were given."""
    return _valid(kind, {name: given.pop(name) for name in kind.model_fields if name in given})


def _server(arguments: argparse.Namespace, given: Told) -> ServerSettings:
    """The rest of them."""
    from swe_sdk.cli_serve import required_token
    from swe_sdk.server.settings import ServerSettings

    token = required_token(arguments)
    return ServerSettings.of(**{**given, "metrics": False}, **({} if token is None else {"token": token}))


def _valid(kind: type[R], told: Told) -> R:
    try:
        return kind.model_validate(told)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or name in _SECRET:
        raise InputError(f"--set {name} is no setting", remedy="write NAME=VALUE, and secrets into their files")
    return name, value


def _place(arguments: argparse.Namespace, url: str | None = None) -> Place:
    from swe_sdk.checkpoint.settings import CheckpointSettings
    from swe_sdk.server.gym.serving import Place

    control = _read(arguments.control_token_file)
    told = {"enabled": control is not None, "control_auth_token": control}
    state_dir = None if arguments.state_dir is None else Path(arguments.state_dir).absolute()
    if arguments.workers < 1:
        raise InputError(f"--workers {arguments.workers} is no number of processes", remedy="give 1 or more")
    checkpoints = _valid(CheckpointSettings, {**told, "state_dir": state_dir})
    return Place(arguments.host, arguments.port, url, checkpoints, arguments.workers)


def _read(path: str | None) -> str | None:
    from swe_sdk.files import read_token

    return None if path is None else read_token(Path(path))


def _resources_of(arguments: argparse.Namespace) -> PeerAt:
    return _peer(arguments.resources_url, arguments.resources_token_file)


def _peer(url: str, token_file: str | None) -> PeerAt:
    from swe_sdk.server.gym.serving import PeerAt

    token = _read(token_file)
    return PeerAt(url, None if token is None else SecretStr(token))


def _tasks(name: str | None, family: str | None) -> TaskSet:
    from swe_sdk.recipes.dataset import load_tasks
    from swe_sdk.recipes.taskset import TaskSet

    return TaskSet(()) if name is None else load_tasks(name, family=family)


def _model(arguments: argparse.Namespace) -> ModelEndpoint | None:
    from swe_sdk.agents.gateway.endpoint import ModelEndpoint

    if arguments.model is None:
        return None
    told = {"base_url": arguments.base_url or "", "model": arguments.model, "api_key": os.environ.get("OPENAI_API_KEY")}
    return _valid(ModelEndpoint, told)


def _json(text: str) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except ValueError as error:
        raise InputError(f"--agent-settings is no JSON: {error}") from None
    if not isinstance(told, dict):
        raise InputError("--agent-settings is no JSON object")
    return told


def _say_ready(kind: str, url: str) -> None:
    sys.stdout.write(f"serving {kind} at {url}\n")
    sys.stdout.flush()
