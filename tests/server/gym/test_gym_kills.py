"""A server that is killed in the middle: no sandbox is left, and a mask says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.gym.conftest import StartGym
from tests.server.gym.gym_servers import GymProcess, Post, boxes_of, episode_body, script, seed_body, wait_for
from tests.server.serving import NAME


class Three:
    """An episode's servers, with an agent that waits until somebody ends it."""

    def __init__(self, start: StartGym, home: Path) -> None:
        self.home = home
        self.resources = start("resources", "--set", "session_idle_s=2", "--set", "drain_s=60", home=home)
        agent = ("--agent", "scripted", "--agent-settings", script({"do": "exec", "command": "sleep 100"}))
        self.agent = start("agent", *agent, home=home)
        urls = ("--resources-url", self.resources.url, "--agent-url", self.agent.url)
        self.environment = start("environment", *urls, home=home)

    def at_work(self, rollout: str) -> Post:
        """An episode whose agent has begun."""
        post = Post(self.environment, "/run", episode_body(rollout, NAME))
        wait_for(lambda: boxes_of(self.home) and _activations(self.agent))
        return post


def _activations(agent: GymProcess) -> bool:
    with agent.client() as client:
        return bool(client.get("/health").json()["activations"])


@pytest.fixture
def three(start_gym: StartGym, gym_home: Path) -> Iterator[Three]:
    home = gym_home / "kills"
    home.mkdir(exist_ok=True)
    three = Three(start_gym, home)
    yield three
    for each in (three.environment, three.agent, three.resources):
        if each.process.poll() is None:
            each.stop()
    assert wait_for(lambda: boxes_of(home) == [])


def mask_of(post: Post) -> dict[str, Any]:
    verification = post.result()["result"]["verification"]
    assert (verification["mask_sample"], verification["reward"]) == (True, 0.0)
    assert verification["failure_reason"] == verification["mask"]["reason"]
    mask: dict[str, Any] = verification["mask"]
    return mask


def test_a_killed_agent_server(three: Three) -> None:
    post = three.at_work("kill-agent")
    three.agent.kill()
    mask = mask_of(post)
    assert (mask["kind"], mask["stage"], mask["retryable"]) == ("lost_worker", "agent", True)
    assert "the agent server" in mask["reason"]
    evidence = post.result()["result"]["verification"]["outcome"]["evidence"]
    assert "agent" not in evidence, "nobody knows how it would have ended"
    assert boxes_of(three.home) == [], "the resources session was closed with the episode"


def test_a_killed_resources_server(three: Three, start_gym: StartGym) -> None:
    post = three.at_work("kill-resources")
    three.resources.kill()
    mask = mask_of(post)
    assert (mask["kind"], mask["stage"], mask["retryable"]) == ("sandbox_lost", "agent", True)
    again = start_gym("resources", home=three.home)
    assert again.url
    assert wait_for(lambda: boxes_of(three.home) == []), "the next server removes what the killed one has left"
    again.stop()


def test_a_killed_environment_server(three: Three) -> None:
    post = three.at_work("kill-environment")
    three.environment.kill()
    post.join(20)
    assert post.answer is None, "who drives it has to make a mask of that"
    wait_for(lambda: not _activations(three.agent))
    wait_for(lambda: boxes_of(three.home) == [])


def test_a_client_that_leaves_takes_its_episode_along(three: Three) -> None:
    with three.environment.client() as client, pytest.raises(httpx.ReadTimeout):
        client.post("/run", json=episode_body("leaves", NAME), timeout=1.5)
    wait_for(lambda: not _activations(three.agent))
    wait_for(lambda: boxes_of(three.home) == [], within_s=10)
    with three.agent.client() as client:
        assert client.get("/health").json()["sessions"] == 0


def test_a_stop_gives_the_rest_up(three: Three) -> None:
    """A first signal waits for sessions, a second one ends them; their sandboxes are gone when the server is."""
    post = three.at_work("stop")
    three.resources.process.terminate()
    with three.resources.client() as client:
        wait_for(lambda: client.get("/health").status_code == 503)
        refused = client.post("/seed_session", json=seed_body("late", NAME))
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
    assert three.resources.stop() == 0
    assert boxes_of(three.home) == []
    assert mask_of(post)["kind"] == "sandbox_lost"


def test_a_server_that_is_told_to_stop_lets_its_sessions_end(start_gym: StartGym, gym_home: Path) -> None:
    home = gym_home / "drains"
    home.mkdir()
    patient = ("--set", "drain_s=60")
    resources = start_gym("resources", *patient, home=home)
    answer = script({"do": "exec", "command": "sed -i 's/answer = 41/answer = 42/' src.txt; sleep 2"})
    agent = start_gym("agent", "--agent", "scripted", "--agent-settings", answer, *patient, home=home)
    environment = start_gym("environment", "--resources-url", resources.url, "--agent-url", agent.url, home=home)
    post = Post(environment, "/run", episode_body("drains", NAME))
    wait_for(lambda: boxes_of(home) and _activations(agent))
    for server in (environment, agent, resources):
        server.process.terminate()
    assert post.result()["result"]["verification"]["reward"] == 1.0
    assert [server.process.wait(60) for server in (environment, agent, resources)] == [0, 0, 0]
    assert boxes_of(home) == []
