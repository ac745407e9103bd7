"""A checkpoint over the control routes of all three servers, which are killed then: the episode goes on elsewhere."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from swe_sdk.checkpoint.messages import CommitRequest, EpisodeId, PrepareRequest, RestoreRequest, ResumeRequest
from swe_sdk.errors import SandboxClosed
from swe_sdk.server.control.client import HttpParticipant
from swe_sdk.server.gym.borrowed import borrow
from tests.server.gym.conftest import StartGym
from tests.server.gym.gym_servers import (
    GymProcess,
    Post,
    boxes_of,
    coordinated,
    episode_body,
    script,
    verify_body,
    wait_for,
)
from tests.server.gym.test_gym_sessions import Seeded
from tests.server.serving import NAME

pytestmark = pytest.mark.anyio
CONTROL = "a-control-token"
MARK = ".git/was-here"


class House:
    """The servers of an episode, all of which take part in checkpoints."""

    def __init__(self, start: StartGym, home: Path) -> None:
        (home / "control").write_text(CONTROL)
        control = ("--control-token-file", str(home / "control"), "--state-dir", str(home / "index"))
        actions = script(
            {"do": "exec", "command": f"echo once >> {MARK}; sed -i 's/answer = 41/answer = 42/' src.txt"},
            {"do": "wait", "seconds": 3},
            {"do": "exec", "command": f"test $(wc -l < {MARK}) = 1", "check": True},
        )
        self.resources = start("resources", *control, home=home)
        self.agent = start("agent", "--agent", "scripted", "--agent-settings", actions, *control[:2], home=home)
        urls = ("--resources-url", self.resources.url, "--agent-url", self.agent.url)
        self.environment = start("environment", *urls, *control[:2], home=home)

    @property
    def servers(self) -> dict[str, GymProcess]:
        return {"environment": self.environment, "agent": self.agent, "resources": self.resources}


async def test_killed_and_restored(start_gym: StartGym, gym_home: Path, tmp_path: Path) -> None:
    home = gym_home / "checkpoints"
    home.mkdir()
    first = House(start_gym, home)
    post = Post(first.environment, "/run", episode_body("saved", NAME))
    with first.agent.client() as client:
        wait_for(lambda: client.get("/health").json()["activations"])
    deadline = time.time() + 60
    saved = {"checkpoint_id": "c1", "deadline_ts": deadline}
    async with coordinated(first.servers, CONTROL) as coordinator:
        prepared = await coordinator.prepare(PrepareRequest(**saved))
        assert (prepared.ready, prepared.restarts) == (True, frozenset()), prepared.blockers
        assert prepared.episodes == (EpisodeId(rollout_id="saved", attempt=0),)
        saved |= {"checkpoint_dir": str(tmp_path), "episode_ids": prepared.episodes}
        written = await coordinator.commit(CommitRequest(**saved))
    assert {name: reply.record_count for name, reply in written.items()} == dict.fromkeys(first.servers, 1)
    for server in first.servers.values():
        server.kill()
    post.join(20)
    assert post.answer is None

    second = House(start_gym, home)
    async with coordinated(second.servers, CONTROL) as coordinator:
        await coordinator.restore(RestoreRequest(**saved))
        await coordinator.resume(ResumeRequest(checkpoint_id="c1", deadline_ts=deadline))
    reply = Post(second.environment, "/run", episode_body("saved", NAME, attempt=1)).result()
    verification = reply["result"]["verification"]
    assert (verification["reward"], verification["mask_sample"]) == (1.0, False), verification["reason"]
    assert verification["outcome"]["evidence"]["agent"]["reason"] == "done", "what was done was not done again"
    assert boxes_of(home) == []
    for server in second.servers.values():
        assert server.stop() == 0


async def test_restored_while_it_was_verified(start_gym: StartGym, gym_home: Path, tmp_path: Path) -> None:
    """Nothing is seeded again then: the next attempt asks for its verdict at once, and closes the session."""
    home = gym_home / "verifying"
    home.mkdir()
    (home / "control").write_text(CONTROL)
    control = ("--control-token-file", str(home / "control"), "--state-dir", str(home / "index"))
    saved = {"checkpoint_id": "c1", "deadline_ts": time.time() + 60}
    first = start_gym("resources", *control, home=home)
    session = Seeded(first, "verifying")
    box = borrow(session.access)
    assert (await box.exec("sed -i 's/answer = 41/answer = 42/' src.txt")).ok
    async with HttpParticipant(first.url, token=CONTROL) as participant:
        assert (await participant.prepare(PrepareRequest(**saved))).report.ready
        there = {"checkpoint_dir": str(tmp_path), "episode_ids": (EpisodeId(rollout_id="verifying"),)}
        await participant.commit(CommitRequest(**saved, **there))
    first.kill()
    second = start_gym("resources", *control, "--port", first.url.rpartition(":")[2], home=home)
    async with HttpParticipant(second.url, token=CONTROL) as participant:
        await participant.restore(RestoreRequest(**saved, **there))
        await participant.resume(ResumeRequest(**saved))
    with pytest.raises(SandboxClosed):
        await box.exec("echo who had it before the restore goes on > src.txt")
    await box.close()
    session.server = second
    assert session.close() == 409, "of the attempt that the restore has cut"
    with second.client() as client:
        verdict = client.post("/verify", json=verify_body("verifying", NAME, attempt=1))
        assert verdict.json().get("reward") == 1.0, verdict.text
    session.attempt = 1
    assert session.close() == 200
    assert boxes_of(home) == []
