"""Each server of an episode with all that it needs, opened and closed again; whoever opens it serves it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from swe_sdk.agents.contract import Agent, Prepares
from swe_sdk.agents.gateway.endpoint import ModelEndpoint
from swe_sdk.agents.registry import make_agent
from swe_sdk.checkpoint.participants.episodes import Claims, EpisodeParticipant
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
from swe_sdk.server.gym.mcp import Elsewhere
from swe_sdk.server.gym.peers import Peer
from swe_sdk.server.gym.resources_app import ResourcesServer
from swe_sdk.server.gym.settings import AgentSettings, EpisodeSettings, ResourcesSettings
from swe_sdk.server.gym.stages import RemoteAgent
from swe_sdk.server.serve import to_the_end
from swe_sdk.server.settings import ServerSettings


@dataclass(frozen=True)
class PeerAt:
    """Another server."""

    url: str
    token: SecretStr | None = None


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


@asynccontextmanager
async def open_resources(
    settings: ServerSettings,
    tasks: TaskSet,
    sessions: ResourcesSettings,
    checkpoints: CheckpointSettings | None,
    *,
    url: str,
    elsewhere: Elsewhere | None = None,
) -> AsyncIterator[ResourcesServer]:
    """A resources server that borrowers reach at ``url``. Raises ``ProviderUnavailable``."""
    provider = await get_provider(settings.provider)
    try:
        server = ResourcesServer(
            settings, tasks, provider, sessions=sessions, checkpoints=checkpoints, elsewhere=elsewhere
        )
        server.sessions.url = url.rstrip("/")
        yield server
    finally:
        with to_the_end():
            await provider.aclose()


@asynccontextmanager
async def open_agent(
    settings: ServerSettings,
    setup: AgentSetup,
    limits: AgentSettings,
    episodes: EpisodeSettings,
    checkpoints: CheckpointSettings | None,
) -> AsyncIterator[AgentServer]:
    """An agent server. Raises ``InputError``, and ``PrerequisiteError`` where the agent lacks something."""
    agent = make_agent(setup.agent, **setup.agent_settings)
    if isinstance(agent, Prepares):
        await agent.prepare()
    policy = get_policy(settings.policy)
    rollouts = RolloutSettings(agent_timeout_s=limits.activation_timeout_s, command_timeout_s=limits.command_timeout_s)
    async with AsyncExitStack() as stack:
        workshop = Workshop(agent, policy, rollouts, await stack.enter_async_context(_model(agent, setup)))
        service = AgentService(workshop, limits, tasks=setup.tasks, checkpoints=checkpoints)
        flat = None
        if setup.resources is not None:
            resources = _peer("resources", setup.resources, episodes)
            stack.push_async_callback(resources.aclose)
            # its episodes are this server's own, and start over after a crash: no coordinator asks for them
            driver = Episodes(resources, service, EpisodeParticipant("flat"), episodes, policy)
            flat = FlatRuns(driver, {"agent": agent.name, "policy": settings.policy})
        yield AgentServer(settings, service, flat)


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


def environment_server(
    settings: ServerSettings,
    resources: PeerAt,
    agent: PeerAt,
    episodes: EpisodeSettings,
    checkpoints: CheckpointSettings | None,
    *,
    claims: Claims | None = None,
) -> EnvironmentServer:
    """An environment server; it closes its connections when it ends. ``claims``: of several workers."""
    peers = _peer("resources", resources, episodes), _peer("agent", agent, episodes)
    participant = EpisodeParticipant("environment", settings=checkpoints, claims=claims)
    driver = Episodes(peers[0], RemoteAgent(peers[1]), participant, episodes, get_policy(settings.policy))
    return EnvironmentServer(settings, driver, *peers)


def _peer(what: str, at: PeerAt, episodes: EpisodeSettings) -> Peer:
    return Peer(what, at.url, token=at.token, patience_s=episodes.patience_s)
