"""Each server of an episode, run until it is told to stop; must be in the main thread.

They stop as the verifier does: what is being answered gets its answer, and a second signal gives it up.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass

from swe_sdk.checkpoint.settings import CheckpointSettings
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.server.gym import workers
from swe_sdk.server.gym.opening import AgentSetup, PeerAt, environment_server, open_agent, open_resources
from swe_sdk.server.gym.settings import AgentSettings, EpisodeSettings, ResourcesSettings
from swe_sdk.server.serve import listen_at, serve_until_told, url_of
from swe_sdk.server.settings import ServerSettings

__all__ = ["AgentSetup", "PeerAt", "Place", "serve_agent", "serve_environment", "serve_resources"]
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
    workers: int = 1
    """Processes that serve it together; all of its limits are shared out among them."""


async def serve_resources(
    settings: ServerSettings, tasks: TaskSet, place: Place, sessions: ResourcesSettings, *, on_ready: OnReady
) -> signal.Signals:
    """A resources server. Raises ``ProviderUnavailable``, or ``InputError`` for an address that cannot be had."""
    if place.workers > 1:
        return await workers.serve_resources(settings, tasks, place, sessions, on_ready=on_ready)
    with listen_at(place.host, place.port) as listener:
        url = url_of(listener)
        async with open_resources(settings, tasks, sessions, place.checkpoints, url=place.url or url) as server:
            return await serve_until_told(server.app(), server, listener, lambda: on_ready(url))


async def serve_agent(
    settings: ServerSettings,
    setup: AgentSetup,
    place: Place,
    limits: AgentSettings,
    episodes: EpisodeSettings,
    *,
    on_ready: OnReady,
) -> signal.Signals:
    """An agent server. Raises ``InputError``, and ``PrerequisiteError`` where the agent lacks something.

    Several workers make an agent each, so it must be given by its name.
    """
    if place.workers > 1:
        return await workers.serve_agent(settings, setup, place, limits, episodes, on_ready=on_ready)
    with listen_at(place.host, place.port) as listener:
        async with open_agent(settings, setup, limits, episodes, place.checkpoints) as server:
            return await serve_until_told(server.app(), server, listener, lambda: on_ready(url_of(listener)))


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
    if place.workers > 1:
        return await workers.serve_environment(settings, resources, agent, place, episodes, on_ready=on_ready)
    with listen_at(place.host, place.port) as listener:
        server = environment_server(settings, resources, agent, episodes, place.checkpoints)
        return await serve_until_told(server.app(), server, listener, lambda: on_ready(url_of(listener)))
