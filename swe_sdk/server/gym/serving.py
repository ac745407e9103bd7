"""Each server of an episode, run until it is told to stop; must be in the main thread.

They stop as the verifier does: what is being answered gets its answer, and a second signal gives it up.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from swe_sdk.agents.contract import Agent, Prepares
from swe_sdk.agents.gateway.endpoint import ModelEndpoint
from swe_sdk.agents.registry import make_agent
from swe_sdk.checkpoint.participants.episodes import EpisodeParticipant
from swe_sdk.checkpoint.settings import CheckpointSettings
from swe_sdk.errors import InputError
from swe_sdk.model.policy import get_policy
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.rollouts.ports import ModelSource
from swe_sdk.rollouts.settings import RolloutSettings
from swe_sdk.sandbox.registry import get_provider
from swe_sdk.server.gym.activation import Workshop
from swe_sdk.server.gym.agent import AgentService
from swe_sdk.server.gym.agent_app import AgentServer
from swe_sdk.server.gym.environment_app import EnvironmentServer
from swe_sdk.server.gym.episodes import Episodes
from swe_sdk.server.gym.flat import FlatRuns
from swe_sdk.server.gym.peers import Peer
from swe_sdk.server.gym.resources_app import ResourcesServer
from swe_sdk.server.gym.settings import AgentSettings, EpisodeSettings, ResourcesSettings
from swe_sdk.server.gym.stages import RemoteAgent
from swe_sdk.server.serve import listen_at, serve_until_told, to_the_end, url_of
from swe_sdk.server.settings import ServerSettings

OnReady = Callable[[str], None]


@dataclass(frozen=True)
class Place:
    """Where a server listens, and who may post."""

    host: str = "127.0.0.1"
    port: int = 0
    url: str | None = None
    """Where others reach it, if that is not where it listens."""
    checkpoints: CheckpointSettings | None = None
    """Whether it takes part in checkpoints over HTTP."""


@dataclass(frozen=True)
class PeerAt:
    """Another server."""

    url: str
    token: SecretStr | None = None


async def serve_resources(
    settings: ServerSettings, tasks: TaskSet, place: Place, sessions: ResourcesSettings, *, on_ready: OnReady
) -> signal.Signals:
    """A resources server. Raises ``ProviderUnavailable``, or ``InputError`` for an address that cannot be had."""
    with listen_at(place.host, place.port) as listener:
        provider = await get_provider(settings.provider)
        server = ResourcesServer(settings, tasks, provider, sessions=sessions, checkpoints=place.checkpoints)
        url = url_of(listener)
        server.sessions.url = (place.url or url).rstrip("/")
        try:
            return await serve_until_told(server.app(), server, listener, lambda: on_ready(url))
        finally:
            with to_the_end():
                await provider.aclose()


@dataclass(frozen=True)
class AgentSetup:
    """The agent of an agent server."""

    agent: Agent | str
    agent_settings: Mapping[str, Any]
    model: ModelEndpoint | None = None
    service_url: str | None = None
    """The model gateway's address as boxes elsewhere see it."""
    tasks: TaskSet | None = None
    """For agents that play back the datasets' own solutions."""
    resources: PeerAt | None = None
    """Where the legacy ``/run`` seeds and verifies; None = there is no ``/run``."""


async def serve_agent(
    settings: ServerSettings,
    setup: AgentSetup,
    place: Place,
    limits: AgentSettings,
    episodes: EpisodeSettings,
    *,
    on_ready: OnReady,
) -> signal.Signals:
    """An agent server. Raises ``InputError``, and ``PrerequisiteError`` where the agent lacks something."""
    agent = make_agent(setup.agent, **setup.agent_settings)
    if isinstance(agent, Prepares):
        await agent.prepare()
    policy = get_policy(settings.policy)
    rollouts = RolloutSettings(agent_timeout_s=limits.activation_timeout_s, command_timeout_s=limits.command_timeout_s)
    with listen_at(place.host, place.port) as listener:
        async with AsyncExitStack() as stack:
            workshop = Workshop(agent, policy, rollouts, await stack.enter_async_context(_model(agent, setup)))
            service = AgentService(workshop, limits, tasks=setup.tasks, checkpoints=place.checkpoints)
            flat = None
            if setup.resources is not None:
                resources = _peer("resources", setup.resources, episodes)
                stack.push_async_callback(resources.aclose)
                # its episodes are this server's own, and start over after a crash: no coordinator asks for them
                driver = Episodes(resources, service, EpisodeParticipant("flat"), episodes, policy)
                flat = FlatRuns(driver, {"agent": agent.name, "policy": settings.policy})
            server, url = AgentServer(settings, service, flat), url_of(listener)
            return await serve_until_told(server.app(), server, listener, lambda: on_ready(url))


@asynccontextmanager
async def _model(agent: Agent, setup: AgentSetup) -> AsyncIterator[ModelSource | None]:
    if agent.needs.egress == "none":
        yield None
        return
    if setup.model is None:
        raise InputError(f"the agent {agent.name!r} needs a model", remedy="give --model and --base-url")
    from swe_sdk.agents.gateway.gateway import open_gateway
    from swe_sdk.agents.model_endpoint import ModelEgress

    async with open_gateway(setup.model) as gateway:
        yield ModelEgress(gateway, service_url=setup.service_url, must_reach=agent.needs.model_from_box)


async def serve_environment(
    settings: ServerSettings,
    resources: PeerAt,
    agent: PeerAt,
    place: Place,
    episodes: EpisodeSettings,
    *,
    on_ready: OnReady,
) -> signal.Signals:
    """An environment server."""
    with listen_at(place.host, place.port) as listener:
        peers = _peer("resources", resources, episodes), _peer("agent", agent, episodes)
        participant = EpisodeParticipant("environment", settings=place.checkpoints)
        driver = Episodes(peers[0], RemoteAgent(peers[1]), participant, episodes, get_policy(settings.policy))
        server, url = EnvironmentServer(settings, driver, *peers), url_of(listener)
        return await serve_until_told(server.app(), server, listener, lambda: on_ready(url))


def _peer(what: str, at: PeerAt, episodes: EpisodeSettings) -> Peer:
    return Peer(what, at.url, token=at.token, patience_s=episodes.patience_s)
