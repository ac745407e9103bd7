"""Several workers of one server of an episode: what its main process tells them, and what each of them serves.

See :mod:`swe_sdk.server.control.workers`. What the server may take on at once is shared out, rounded up.
"""

from __future__ import annotations

import math
import secrets
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from pydantic import SecretStr

from swe_sdk.agents.gateway.endpoint import ModelEndpoint
from swe_sdk.alongside import ungrouped
from swe_sdk.checkpoint.messages import EpisodeId, Kind
from swe_sdk.checkpoint.settings import CheckpointSettings
from swe_sdk.errors import InputError
from swe_sdk.model.record import Record
from swe_sdk.model.task import Task
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.sandbox.registry import get_provider
from swe_sdk.server.control.workers import Member
from swe_sdk.server.control.workers.carrying import Carrier, open_carrying_client
from swe_sdk.server.control.workers.child import Served
from swe_sdk.server.control.workers.serving import WorkersSettings, serve_workers
from swe_sdk.server.gym.agent_app import SESSION_COOKIE
from swe_sdk.server.gym.front import while_patient
from swe_sdk.server.gym.opening import AgentSetup, PeerAt, environment_server, open_agent, open_resources
from swe_sdk.server.gym.routing import ToAttempt
from swe_sdk.server.gym.settings import AgentSettings, EpisodeSettings, ResourcesSettings
from swe_sdk.server.serve import Drains
from swe_sdk.server.settings import ServerSettings

if TYPE_CHECKING:
    from swe_sdk.server.gym.serving import Place

R = TypeVar("R", bound=Record)
OnReady = Callable[[str], None]
_END_S = 180.0
"""For a worker to close what it has, when its time to drain is over."""


# -- the main process --------------------------------------------------------------------------------------------------


async def serve_resources(
    settings: ServerSettings, tasks: TaskSet, place: Place, sessions: ResourcesSettings, *, on_ready: OnReady
) -> signal.Signals:
    """See :func:`.serving.serve_resources`. One secret for all workers, and one index of snapshots."""
    await (await get_provider(settings.provider)).aclose()  # what none of the workers could do is said at once
    told = place.checkpoints or CheckpointSettings()
    with tempfile.TemporaryDirectory(prefix="swe_sdk-resources-") as folder:
        known = {
            "secret": sessions.secret or SecretStr(secrets.token_urlsafe(32)),
            "state_dir": sessions.state_dir or told.state_dir or Path(folder),
        }
        shared = _shared(sessions, place, "sessions").model_copy(update=known)
        arguments = {"tasks": tasks, "sessions": shared, "url": place.url}
        return await _serve("resources", settings, place, arguments, on_ready)


async def serve_agent(
    settings: ServerSettings,
    setup: AgentSetup,
    place: Place,
    limits: AgentSettings,
    episodes: EpisodeSettings,
    *,
    on_ready: OnReady,
) -> signal.Signals:
    """See :func:`.serving.serve_agent`."""
    if not isinstance(setup.agent, str):
        raise InputError("several workers make their agents by name", remedy="give the agent's name and settings")
    async with open_agent(settings, setup, limits, episodes, None):
        pass  # what none of the workers could do is said at once
    arguments = {
        "setup": setup,
        "limits": _shared(limits, place, "activations", "sessions"),
        "episodes": _shared(episodes, place, "max_concurrent_episodes"),
    }
    return await _serve("agent", settings, place, arguments, on_ready)


async def serve_environment(
    settings: ServerSettings,
    resources: PeerAt,
    agent: PeerAt,
    place: Place,
    episodes: EpisodeSettings,
    *,
    on_ready: OnReady,
) -> signal.Signals:
    """See :func:`.serving.serve_environment`."""
    async with environment_server(settings, resources, agent, episodes, None).running():
        pass  # what none of the workers could do is said at once
    told = _shared(episodes, place, "max_concurrent_episodes")
    return await _serve(
        "environment", settings, place, {"resources_at": resources, "agent_at": agent, "episodes": told}, on_ready
    )


async def _serve(
    kind: Kind, settings: ServerSettings, place: Place, arguments: Mapping[str, Any], on_ready: OnReady
) -> signal.Signals:
    checkpoints = place.checkpoints or CheckpointSettings()
    shared = _shared(settings, place, "workers", "queue", "posts", "bodies_mib")
    shared = shared.model_copy(update={"bodies_mib": max(shared.body_mib, shared.bodies_mib)})
    return await serve_workers(
        WorkersSettings(
            factory=f"{__name__}:{kind}",
            arguments=_plain({"settings": shared, **arguments}),
            kind=kind,
            instance=kind,
            workers=place.workers,
            host=place.host,
            port=place.port,
            token=checkpoints.control_auth_token if checkpoints.enabled else None,
            lease_grace_seconds=checkpoints.lease_grace_seconds,
            stop_s=settings.drain_s + _END_S,
        ),
        on_ready=on_ready,
    )


def _shared(settings: R, place: Place, *limits: str) -> R:
    """The same settings with a worker's share of these limits."""
    told = {name: getattr(settings, name) for name in limits}
    shares = {name: math.ceil(limit / place.workers) for name, limit in told.items() if limit is not None}
    return settings.model_copy(update=shares)


def _plain(value: Any) -> Any:
    """As JSON, secrets included: it goes to our own workers, over a pipe."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, TaskSet):
        return [task.private() for task in value]
    if isinstance(value, Record):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


# -- a worker ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def resources(
    member: Member, *, settings: Any, tasks: Any, sessions: Any, url: str | None
) -> AsyncIterator[Served]:
    """What each worker of a resources server serves."""
    async with (
        _carrier(member) as carrier,
        open_resources(
            ServerSettings.model_validate(settings),
            _tasks(tasks),
            ResourcesSettings.model_validate(sessions),
            None,
            url=url or member.url,
            elsewhere=_Elsewhere(member),
        ) as server,
        ungrouped(server.running()),
    ):
        bodies = frozenset({"/seed_session", "/verify", "/close_session"})
        signer = server.sessions.signer
        app = ToAttempt(server.app(), carrier, server.service, bodies=bodies, signer=signer)
        yield Served(server.participant, app, _Draining(server, carrier, server.service.settings), finds_owners=True)


@asynccontextmanager
async def agent(member: Member, *, settings: Any, setup: Any, limits: Any, episodes: Any) -> AsyncIterator[Served]:
    """What each worker of an agent server serves."""
    async with (
        _carrier(member) as carrier,
        open_agent(
            ServerSettings.model_validate(settings),
            _setup(**setup),
            AgentSettings.model_validate(limits),
            EpisodeSettings.model_validate(episodes),
            None,
        ) as server,
        ungrouped(server.running()),
    ):
        bodies = frozenset({"/v1/agent_sessions", "/v1/agent_sessions/close"})
        cookie = ("/v1/responses", SESSION_COOKIE)
        app = ToAttempt(server.app(), carrier, server.front, bodies=bodies, session_cookie=cookie)
        draining = _Draining(server, carrier, server.front.settings)
        yield Served(server.service.participant, app, draining, finds_owners=True)


@asynccontextmanager
async def environment(
    member: Member, *, settings: Any, resources_at: Any, agent_at: Any, episodes: Any
) -> AsyncIterator[Served]:
    """What each worker of an environment server serves."""
    server = environment_server(
        ServerSettings.model_validate(settings),
        _peer_at(resources_at),
        _peer_at(agent_at),
        EpisodeSettings.model_validate(episodes),
        None,
        claims=member,
    )
    async with _carrier(member) as carrier, server.running():
        app = ToAttempt(server.app(), carrier, server.front, bodies=frozenset({"/run"}))
        draining = _Draining(server, carrier, server.front.settings)
        yield Served(server.episodes.participant, app, draining, finds_owners=True)


@asynccontextmanager
async def _carrier(member: Member) -> AsyncIterator[Carrier]:
    async with open_carrying_client() as client:
        yield Carrier(member, client)


class _Draining:
    """A server's own work first, then what it carries to others, which have work of their own."""

    def __init__(self, server: Drains, carrier: Carrier, settings: ServerSettings) -> None:
        self._server = server
        self._carrier = carrier
        self._drain_s = settings.drain_s

    async def drain(self, *, stop: anyio.Event) -> None:
        """See :class:`~swe_sdk.server.serve.Drains`."""
        await self._server.drain(stop=stop)
        await while_patient(self._carrier.idle, self._drain_s, stop)


class _Elsewhere:
    """Where the tools of attempts are; see :data:`.mcp.Elsewhere`."""

    def __init__(self, member: Member) -> None:
        self._member = member

    async def __call__(self, episode_id: EpisodeId) -> str | None:
        """The address of another worker; None = it is here, or lost, which is said here."""
        owner = await self._member.place_of(episode_id)
        return None if owner in (None, self._member.name) else self._member.addresses.get(owner)


def _tasks(told: Sequence[Any] | None) -> TaskSet:
    return TaskSet(Task.model_validate(one) for one in told or ())


def _peer_at(told: Mapping[str, Any]) -> PeerAt:
    return PeerAt(told["url"], None if told["token"] is None else SecretStr(told["token"]))


def _setup(*, model: Any, tasks: Any, resources: Any, **told: Any) -> AgentSetup:
    return AgentSetup(
        model=None if model is None else ModelEndpoint.model_validate(model),
        tasks=_tasks(tasks),
        resources=None if resources is None else _peer_at(resources),
        **told,
    )
