"""Several workers of each server of an episode: whichever a request comes to, the one that has its attempt answers."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from swe_sdk.checkpoint.messages import (
    CommitRequest,
    EpisodeId,
    PrepareRequest,
    ReleaseRequest,
    RestoreRequest,
    ResumeRequest,
)
from swe_sdk.checkpoint.store import folder, read_manifest
from swe_sdk.errors import SandboxClosed, SandboxLost, TransferFailed
from swe_sdk.server.gym.borrowed import BorrowedBox, borrow
from swe_sdk.server.wire import path_of
from tests.leaks import memory_folder
from tests.server.gym.gym_servers import (
    GymProcess,
    Post,
    boxes_of,
    coordinated,
    episode_body,
    mcp_call,
    script,
    seed_body,
    verify_body,
    wait_for,
)
from tests.server.gym.test_gym_sessions import Seeded
from tests.server.serving import NAME

pytestmark = pytest.mark.anyio
CONTROL = "a-control-token"
MARK = ".git/was-here"
_ACTIONS = script(
    {"do": "exec", "command": f"echo once >> {MARK}; sed -i 's/answer = 41/answer = 42/' src.txt"},
    {"do": "wait", "seconds": 2},
    {"do": "exec", "command": f"test $(wc -l < {MARK}) = 1", "check": True},
)


class Crews:
    """The servers of an episode, each of several workers. They have no secret but what their main process makes up."""

    def __init__(self, home: Path, tasks: Path, *, resources: int, others: int) -> None:
        (home / "control").write_text(CONTROL)
        control = ("--control-token-file", str(home / "control"))
        quick = ("--set", "drain_s=20", "--set", "patience_s=1", "--workers")
        own = (str(tasks), "--provider", "local", "--state-dir", str(home / "index"))
        limits = ("--set", "transfer_mib=1", "--set", "reap_every_s=1")
        self.home = home
        self.resources = GymProcess(home, "resources", *own, *limits, *control, *quick, str(resources))
        agent = ("--agent", "scripted", "--agent-settings", _ACTIONS, "--resources-url", self.resources.url)
        self.agent = GymProcess(home, "agent", *agent, *control, *quick, str(others))
        peers = ("--resources-url", self.resources.url, "--agent-url", self.agent.url)
        self.environment = GymProcess(home, "environment", *peers, *control, *quick, str(others))
        assert self.environment.url

    @property
    def servers(self) -> dict[str, GymProcess]:
        return {"environment": self.environment, "agent": self.agent, "resources": self.resources}

    @property
    def begun(self) -> int:
        """Sandboxes in which the agent has taken its first step."""
        return len(list((self.home / "state" / "boxes").rglob(Path(MARK).name)))

    def kill(self) -> None:
        """All at once, main processes and workers."""
        for server in self.servers.values():
            with suppress(ProcessLookupError):
                os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait(20)


@pytest.fixture(scope="module")
def crews_home(gym_tasks: Path) -> Iterator[Path]:
    found = Path(tempfile.mkdtemp(prefix="swe_sdk-crews-", dir=memory_folder()))
    yield found
    shutil.rmtree(found, ignore_errors=True)


@pytest.fixture(scope="module")
def crews(crews_home: Path, gym_tasks: Path) -> Iterator[Crews]:
    """One life of all servers, for all tests but the last, which ends it."""
    found = Crews(crews_home, gym_tasks, resources=3, others=2)
    yield found
    found.kill()


def workers_of(server: GymProcess) -> list[int]:
    pid = server.process.pid
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def anywhere(server: GymProcess, path: str, body: Any, **headers: str) -> httpx.Response:
    """A post of a connection of its own, which any worker may accept."""
    with server.client(connection="close", **headers) as client:
        return client.post(path, json=body)


def verdict_of(answer: dict[str, Any]) -> tuple[float, bool, Any]:
    told = answer["result"]["verification"]
    return told["reward"], told["mask_sample"], told["outcome"]["evidence"].get("agent", {}).get("reason")


def test_whole_episodes_in_both_variants(crews: Crews) -> None:
    plain = [Post(crews.environment, "/run", episode_body(f"plain-{number}", NAME)) for number in range(2)]
    below = Post(crews.environment, "/ng-rollout/below/run", episode_body("below", NAME))
    flat = {"responses_create_params": {"input": [], "metadata": {"instance_id": NAME}}}
    rows = [Post(crews.agent, "/run", flat), Post(crews.agent, "/ng-rollout/flat-a1/run", flat)]
    for post in (*plain, below):
        assert verdict_of(post.result()) == (1.0, False, "done")
    for row in rows:
        assert (row.result()["reward"], row.result()["resolved"]) == (1.0, True), row.result()
    assert boxes_of(crews.home) == []


async def test_what_is_lent_by_one_is_reached_through_all(crews: Crews) -> None:
    """Loans and tools, of one attempt, with tokens that any worker verifies."""
    session = Seeded(crews.resources, "through-all")
    assert Seeded(crews.resources, "through-all").reply == session.reply, "wherever it is seeded again"
    for number in range(6):
        box = borrow(session.access)
        result = await box.exec(f"echo {number} >> seen; cat seen")
        assert result.stdout.split() == [str(one) for one in range(number + 1)]
        await box.write("file", bytes([number]) * 300_000)
        assert await box.read("file") == bytes([number]) * 300_000
        await box.close()
        with crews.resources.client(connection="close") as client:
            assert not mcp_call(client, session.tools_token, "exec", command="cat seen")["isError"]
            forged = mcp_call(client, session.tools_token[:-4] + "AAAA", "exec", command="cat seen")
            assert (forged["isError"], "not one of this server's" in forged["content"][0]["text"]) == (True, True)
    await _bounds(borrow(session.access))
    forged_hop = {"x-ng-forwarded": "1"}
    posts = [anywhere(crews.resources, "/verify", verify_body("through-all", NAME), **forged_hop) for _ in range(4)]
    assert len({post.text for post in posts}) == 1, "one verdict, whoever is asked, and whatever he says of himself"
    assert posts[0].json()["mask_sample"] is False
    assert {session.close() for _ in range(4)} == {200}
    late = anywhere(crews.resources, "/seed_session", seed_body("through-all", NAME, resources_session_id=session.id))
    assert late.json()["error"]["code"] == "checkpoint_conflict"
    assert boxes_of(crews.home) == []


async def _bounds(box: BorrowedBox) -> None:
    assert (await box.exec("truncate -s 3M large; echo hello > small")).ok
    with pytest.raises(TransferFailed, match=r"large is larger than 1,048,576 bytes"):
        await box.read("large")
    assert await box.read("small") == b"hello\n"
    port, listener = await box.listen()
    assert (await box.exec(["sh", "-c", f"(true < /dev/tcp/127.0.0.1/{port}) 2>/dev/null || true"])).ok
    listener.close()
    await box.close()


def test_sessions_of_an_agent_are_found_by_cookie_path_and_body(crews: Crews) -> None:
    lent = Seeded(crews.resources, "by-cookie")
    episode = {"rollout_id": "by-cookie", "attempt": 0}
    seed = {"agent_session_id": "s-1", "episode_id": episode, "task_id": {"taskset": "tests", "task_id": NAME}}
    seed["sandbox_access"] = lent.reply["sandbox_access"]
    seeded = [anywhere(crews.agent, "/v1/agent_sessions", seed) for _ in range(3)]
    assert {answer.status_code for answer in seeded} == {200}
    cookies = {tuple(answer.cookies.items()) for answer in seeded}
    assert cookies == {(("agent_session_id", "s-1"),)}, "and none that would bind a client to a worker"
    told = {"cookie": "agent_session_id=s-1", "x-ng-agent-activation": "1"}
    first = anywhere(crews.agent, "/v1/responses", {"input": []}, **told).json()
    assert first["status"] == "completed", first
    by_path = "/ng-rollout/by-cookie/v1/responses"
    again = [anywhere(crews.agent, path, {"input": []}, **told).json() for path in ("/v1/responses", by_path) * 2]
    assert again == [first] * 4, "an activation is made once, wherever it is asked for again"
    unknown = anywhere(crews.agent, "/v1/responses", {"input": []}, cookie="agent_session_id=nobody")
    assert unknown.json()["error"]["code"] == "checkpoint_error"
    close = {"agent_session_id": "s-1", "episode_id": episode}
    assert anywhere(crews.agent, "/v1/agent_sessions/close", close).status_code == 200
    assert lent.close() == 200


async def test_a_worker_that_is_killed_takes_along_what_it_had_and_nothing_else(crews: Crews) -> None:
    sessions = [Seeded(crews.resources, f"kill-{number}") for number in range(3)]
    boxes = [borrow(session.access) for session in sessions]
    killed = workers_of(crews.resources)[0]
    os.kill(killed, signal.SIGKILL)
    ends = [await _end_of(box) for box in boxes]
    assert sorted(ends) == ["lives", "lives", "lost"], "each worker had one"
    lost = sessions[ends.index("lost")]
    with crews.resources.client(connection="close") as client:
        told = mcp_call(client, lost.tools_token, "exec", command="true")
        assert (told["isError"], lost.id in told["content"][0]["text"]) == (True, True)
    for path, body in {
        "/verify": verify_body(lost.rollout, NAME),
        "/seed_session": seed_body(lost.rollout, NAME, resources_session_id=lost.id),
    }.items():
        for prefix in ("", path_of(EpisodeId(rollout_id=lost.rollout))):
            gone = anywhere(crews.resources, f"{prefix}{path}", body)
            assert (gone.status_code, gone.json()["error"]["code"]) == (410, "session_lost")
    wait_for(lambda: len(boxes_of(crews.home)) == 2)
    again = Seeded(crews.resources, lost.rollout, attempt=1)
    for session in sessions:
        assert session is lost or session.close() == 200
    assert again.close() == 200
    wait_for(lambda: len(workers_of(crews.resources)) == 3 and killed not in workers_of(crews.resources))
    assert boxes_of(crews.home) == []


async def _end_of(box: BorrowedBox) -> str:
    try:
        return "lives" if (await box.exec("true")).ok else "lost"
    except (SandboxLost, SandboxClosed):
        return "lost"
    finally:
        await box.close()


def test_an_episode_whose_worker_is_killed_is_a_mask_and_its_next_attempt_a_verdict(crews: Crews) -> None:
    """Whatever the dead one had, or was only carrying; what it had nothing to do with goes on."""
    posts = {name: Post(crews.environment, "/run", episode_body(name, NAME)) for name in ("agent-0", "agent-1")}
    wait_for(lambda: crews.begun == 2)
    os.kill(workers_of(crews.agent)[0], signal.SIGKILL)
    verifications = {name: post.result()["result"]["verification"] for name, post in posts.items()}
    masked = {name: told["mask"] for name, told in verifications.items() if told["mask_sample"]}
    assert {told["reward"] for name, told in verifications.items() if name not in masked} <= {1.0}
    assert {(mask["kind"], mask["stage"], mask["retryable"]) for mask in masked.values()} == {
        ("lost_worker", "agent", True)
    }
    again = [Post(crews.environment, "/run", episode_body(name, NAME, attempt=1)) for name in masked]
    wait_for(lambda: crews.begun == len(again))
    os.kill(workers_of(crews.environment)[0], signal.SIGKILL)
    for post in again:
        post.join(60)
    ends = [None if post.answer is None else post.answer.status_code for post in again]
    assert set(ends) <= {200, 502, None}, "who carried it says that its worker is lost, or was that itself"
    left = [name for name, end in zip(masked, ends, strict=True) if end != 200]
    for post in [Post(crews.environment, "/run", episode_body(name, NAME, attempt=2)) for name in left]:
        assert verdict_of(post.result()) == (1.0, False, "done")
    assert boxes_of(crews.home) == []


def test_a_client_that_leaves_takes_its_episode_along(crews: Crews) -> None:
    """Through a worker of each server that only carries the request."""
    for number in range(2):
        with crews.environment.client() as client, pytest.raises(httpx.ReadTimeout):
            client.post(f"/ng-rollout/leaves-{number}/run", json=episode_body(f"leaves-{number}", NAME), timeout=1)
    wait_for(lambda: boxes_of(crews.home) == [], within_s=10)


async def test_killed_and_restored_with_other_workers(crews: Crews, gym_tasks: Path, tmp_path: Path) -> None:
    names = [f"saved-{number}" for number in range(3)]
    posts = [Post(crews.environment, "/run", episode_body(name, NAME)) for name in names]
    wait_for(lambda: crews.begun == 3)
    deadline = time.time() + 60
    saved: dict[str, Any] = {"checkpoint_id": "c1", "deadline_ts": deadline}
    async with coordinated(crews.servers, CONTROL) as coordinator:
        prepared = await coordinator.prepare(PrepareRequest(**saved))
        assert prepared.ready, prepared.blockers
        assert not {one.rollout_id for one in prepared.restarts} & set(names)
        assert {one.rollout_id for one in prepared.episodes} == set(names)
        saved |= {"checkpoint_dir": str(tmp_path), "episode_ids": prepared.episodes}
        written = await coordinator.commit(CommitRequest(**saved))
    assert {name: reply.record_count for name, reply in written.items()} == dict.fromkeys(crews.servers, 3)
    owners = (read_manifest(folder(tmp_path, "resources", "resources")).model_extra or {})["session_owners"]
    assert len(set(owners.values())) == 3, "whoever has least gets the next one"
    crews.kill()
    assert [post.join(20) or post.answer for post in posts] == [None] * 3

    second = Crews(crews.home, gym_tasks, resources=2, others=2)
    try:
        async with coordinated(second.servers, CONTROL) as coordinator:
            await coordinator.restore(RestoreRequest(**saved))
            await coordinator.resume(ResumeRequest(checkpoint_id="c1", deadline_ts=deadline))
            posts = [Post(second.environment, "/run", episode_body(name, NAME, attempt=1)) for name in names]
            for post in posts:
                assert verdict_of(post.result()) == (1.0, False, "done"), "what was done was not done again"
            kept = ReleaseRequest(checkpoint_id="c1", deadline_ts=deadline, kept=())
            assert (await coordinator.participants["resources"].release(kept)).released == 3
        assert boxes_of(second.home) == []
        _drained(second)
    finally:
        second.kill()


def _drained(crews: Crews) -> None:
    """What was begun is finished, by all workers of all servers."""
    posts = [Post(crews.environment, "/run", episode_body(f"drained-{number}", NAME)) for number in range(2)]
    wait_for(lambda: crews.begun == 2)
    for server in crews.servers.values():
        server.process.terminate()
    for post in posts:
        assert verdict_of(post.result()) == (1.0, False, "done")
    for name, server in crews.servers.items():
        assert server.process.wait(30) == 0, name
        assert "Traceback" not in server.log.read_text(), server.log.read_text()
    assert boxes_of(crews.home) == []
