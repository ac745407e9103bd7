"""Sessions of a resources server and of an agent server: made once, used by who may, closed for good."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.errors import SandboxClosed, SandboxLost, TransferFailed
from swe_sdk.server.gym.borrowed import borrow
from swe_sdk.server.gym.contract import SandboxAccess
from swe_sdk.server.gym.tokens import Grant, Signer
from tests.server.gym.conftest import StartGym
from tests.server.gym.gym_servers import SECRET, GymProcess, Post, boxes_of, seed_body, verify_body, wait_for
from tests.server.serving import NAME, answer_patch

pytestmark = pytest.mark.anyio


class Seeded:
    """A session that this test has made."""

    def __init__(self, server: GymProcess, rollout: str, attempt: int = 0) -> None:
        self.server, self.rollout, self.attempt = server, rollout, attempt
        with server.client() as client:
            self.answer = client.post("/seed_session", json=seed_body(rollout, NAME, attempt=attempt))
        assert self.answer.status_code == 200, self.answer.text
        self.reply = self.answer.json()
        self.id = self.reply["resources_session_id"]
        self.tools_token = self.reply["resources_tools"]["headers"]["X-NeMo-Gym-Session-Token"]

    @property
    def access(self) -> SandboxAccess:
        return SandboxAccess.model_validate(self.reply["sandbox_access"])

    def close(self) -> int:
        body = {"resources_session_id": self.id, "episode_id": {"rollout_id": self.rollout, "attempt": self.attempt}}
        with self.server.client() as client:
            return client.post("/close_session", json=body).status_code


async def test_a_seed_again_is_the_same_session(resources: GymProcess) -> None:
    first, second = Seeded(resources, "again"), Seeded(resources, "again")
    assert first.reply == second.reply, "token included: a lost reply loses nothing"
    assert first.answer.headers["x-ng-checkpoint-verify"] == "replay"
    assert len(boxes_of(resources.home)) == 1, boxes_of(resources.home)
    with resources.client() as client:
        other = seed_body("again", NAME, resources_session_id="another-id")
        refused = client.post("/seed_session", json=other)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "checkpoint_conflict")
        elsewhere = client.post("/ng-rollout/somebody-else/seed_session", json=seed_body("again", NAME))
        assert elsewhere.json()["error"]["code"] == "checkpoint_conflict"
    assert [first.close(), first.close()] == [200, 200]
    assert boxes_of(resources.home) == []
    with resources.client() as client:
        late = client.post("/seed_session", json=seed_body("again", NAME, resources_session_id=first.id))
        assert late.json()["error"]["code"] == "checkpoint_conflict"


async def test_concurrent_seeds_of_one_attempt_make_one_sandbox(resources: GymProcess) -> None:
    posts = [Post(resources, "/seed_session", seed_body("at-once", NAME)) for _ in range(6)]
    assert len({post.result()["resources_session_id"] for post in posts}) == 1
    assert len(boxes_of(resources.home)) == 1, boxes_of(resources.home)
    assert Seeded(resources, "at-once").close() == 200


async def test_what_is_closed_while_it_is_made_is_not_left(resources: GymProcess) -> None:
    """Whoever gives a seed up closes its session at once."""
    seed = Post(resources, "/seed_session", seed_body("given-up", NAME, resources_session_id="given-up-id"))
    wait_for(lambda: seed.answer or boxes_of(resources.home))
    with resources.client() as client:
        close = {"resources_session_id": "given-up-id", "episode_id": {"rollout_id": "given-up"}}
        assert client.post("/close_session", json=close).status_code == 200
    seed.join(30)
    assert seed.answer is not None
    assert seed.answer.status_code == 200 or seed.answer.json()["error"]["code"] == "checkpoint_conflict"
    assert boxes_of(resources.home) == []


async def test_sandboxes_that_are_being_made_count_as_well(start_gym: StartGym, gym_home: Path) -> None:
    """A trainer begins all of its rollouts at once."""
    home = gym_home / "burst"
    home.mkdir()
    server = start_gym("resources", "--set", "sessions=2", home=home)
    posts = [Post(server, "/seed_session", seed_body(f"burst-{number}", NAME)) for number in range(6)]
    for post in posts:
        post.join(60)
    answers = [post.answer for post in posts if post.answer is not None]
    assert sorted(answer.status_code for answer in answers) == [200, 200, 429, 429, 429, 429]
    assert len(boxes_of(home)) == 2
    assert server.stop() == 0


async def test_a_later_attempt_ends_what_an_earlier_one_has_left(resources: GymProcess) -> None:
    first = Seeded(resources, "attempts")
    box = borrow(first.access)
    second = Seeded(resources, "attempts", attempt=1)
    assert second.id != first.id
    assert len(boxes_of(resources.home)) == 1, boxes_of(resources.home)
    with pytest.raises(SandboxClosed, match="the loan is over"):
        await box.exec("true")
    await box.close()
    with resources.client() as client:
        stale = client.post("/seed_session", json=seed_body("attempts", NAME))
        assert stale.json()["error"]["code"] == "stale_attempt"
        verify = client.post("/verify", json=verify_body("attempts", NAME))
        assert verify.json()["error"]["code"] == "stale_attempt"
    assert second.close() == 200


async def test_a_borrowed_box_is_a_box(resources: GymProcess) -> None:
    session = Seeded(resources, "borrowed")
    box, heard = borrow(session.access), []
    try:
        assert await box.status() == "running"
        result = await box.exec(
            "echo out; cat; echo err >&2; exit 3",
            stdin=b"in\xff",
            env={"A": "b"},
            on_output=lambda stream, data: heard.append((stream, data)),
        )
        assert (result.status, result.exit_code) == ("exited", 3)
        assert (result.stdout_bytes, result.stderr_bytes) == (b"out\nin\xff", b"err\n")
        assert b"".join(data for stream, data in heard if stream == "stdout") == b"out\nin\xff"
        assert (await box.exec("sleep 60", timeout_s=0.2)).status == "timeout"
        await box.write("new/file", bytes(range(256)) * 5000, mode=0o755)
        assert await box.read("new/file") == bytes(range(256)) * 5000
        assert (await box.exec(["test", "-x", "new/file"])).ok
        with pytest.raises(TransferFailed):
            await box.read("not/there")
        assert (await box.exec("sleep 60 & echo $!")).ok
        with anyio.move_on_after(0.5):
            await box.exec("sleep 77")
        left = await box.exec("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2> /dev/null")
        assert "sleep 77" not in left.stdout, "a call that was cancelled takes its command along"
        assert "sleep 60" in left.stdout
    finally:
        await box.close()
    assert session.close() == 200


async def test_connections_in_a_borrowed_box_come_here(resources: GymProcess) -> None:
    """Here, and not where a header says that the request has come from."""
    session = Seeded(resources, "listens")
    box = borrow(session.access)
    box._client.headers["X-Forwarded-For"] = "127.0.0.2"
    port, listener = await box.listen()
    try:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:

                async def serve() -> None:
                    await anyio.wait_readable(listener)
                    connection, _address = listener.accept()
                    with connection:
                        connection.sendall(b"hello from outside\n")

                tasks.start_soon(serve)
                result = await box.exec(["bash", "-c", f"head -1 < /dev/tcp/127.0.0.1/{port}"])
        assert result.stdout == "hello from outside\n"
    finally:
        listener.close()
        await box.close()
    assert session.close() == 200


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"signer": b"another secret"}, "not one of this server's"),
        ({"purpose": "tools"}, "the token is for tools"),
        ({"expires_at": 1.0}, "expired"),
        ({"attempt": 1}, "not of tokens-other-attempt#1"),
        ({"session_id": "resources-session-0"}, "no session"),
    ],
    ids=["forged", "other purpose", "expired", "other attempt", "other session"],
)
async def test_tokens_that_open_nothing(
    resources: GymProcess, change: dict[str, object], says: str, request: pytest.FixtureRequest
) -> None:
    rollout = f"tokens-{request.node.callspec.id.replace(' ', '-')}"
    session = Seeded(resources, rollout)
    told = session.access.connection.descriptor
    grant = {
        "purpose": "sandbox",
        "session_id": session.id,
        "episode_id": EpisodeId(rollout_id=rollout, attempt=change.get("attempt", 0)),
        "owner": told["url"],
        "expires_at": 4e9,
        **{name: value for name, value in change.items() if name not in ("signer", "attempt")},
    }
    token = Signer(change.get("signer", SECRET.encode())).issue(Grant.model_validate(grant))
    with resources.client() as client:
        path = f"/ng-sandbox/v1/{session.id}"
        answers = [
            client.post(f"{path}/exec", json={"command": "true"}, headers={"Authorization": f"Bearer {shown}"})
            for shown in (token, told["token"][:-4] + "AAAA", ".", "a.b.c")
        ]
        assert [answer.status_code for answer in answers[1:]] == [401] * 3
        assert answers[0].status_code in (401, 409)
        assert says in answers[0].json()["error"]["detail"]
    connection = session.access.connection.model_copy(update={"descriptor": {**told, "token": token}})
    box = borrow(session.access.model_copy(update={"connection": connection}))
    with pytest.raises(SandboxClosed):
        await box.exec("true")
    await box.close()
    assert session.close() == 200


async def test_one_verdict_a_session(resources: GymProcess) -> None:
    session = Seeded(resources, "verdict")
    with resources.client() as client:
        first = client.post("/verify", json=verify_body("verdict", NAME, patch=answer_patch(42)))
        again = client.post("/ng-rollout/verdict/verify", json=verify_body("verdict", NAME, patch=answer_patch(42)))
        other = client.post("/verify", json=verify_body("verdict", NAME, patch=answer_patch(43)))
    assert first.json()["reward"] == 1.0
    assert first.json() == again.json()
    assert (other.status_code, other.json()["error"]["code"]) == (409, "checkpoint_conflict")
    assert session.close() == 200
    with resources.client() as client:
        late = client.post("/verify", json=verify_body("verdict", NAME))
        assert late.json()["error"]["code"] == "checkpoint_error"


async def test_the_verdict_is_of_a_sandbox_that_nobody_has_touched(resources: GymProcess) -> None:
    """What an agent leaves in its sandbox, outside of the repository, has no say in the verdict."""
    session = Seeded(resources, "fresh")
    box = borrow(session.access)
    assert (await box.exec("sed -i 's/answer = 41/answer = 42/' src.txt; echo evil > /tmp/evil; sleep 100 &")).ok
    await box.close()
    with resources.client() as client:
        verdict = client.post("/verify", json=verify_body("fresh", NAME)).json()
    assert (verdict["reward"], verdict["patch_source"]) == (1.0, "sandbox")
    assert "evil" not in verdict["response"]["metadata"]["model_patch"]
    assert session.close() == 200


async def test_posts_without_a_session_are_those_of_a_verifier(resources: GymProcess) -> None:
    with resources.client() as client:
        assert client.post("/seed_session", json={"resources_session_id": "mine"}).json() == {
            "resources_session_id": "mine"
        }
        asked = {"input": "", "metadata": {"instance_id": NAME}}
        said = {"output": [], "metadata": {"model_patch": answer_patch(42)}}
        verdict = client.post("/verify", json={"responses_create_params": asked, "response": said}).json()
        assert (verdict["reward"], verdict["patch_source"]) == (1.0, "metadata")


async def test_a_borrower_whose_owner_is_gone(start_gym: StartGym, gym_home: Path) -> None:
    home = gym_home / "owner-gone"
    home.mkdir()
    own = start_gym("resources", home=home)
    session = Seeded(own, "owner-gone")
    box = borrow(session.access)
    async with anyio.create_task_group() as tasks:
        results = []

        async def work() -> None:
            results.append(await box.exec("sleep 100"))

        tasks.start_soon(work)
        await anyio.sleep(0.5)
        own.kill()
    assert results[0].status == "lost"
    with pytest.raises(SandboxLost, match="is gone"):
        await box.exec("true")
    assert await box.status() == "lost"
    await box.close()
    again = start_gym("resources", home=home)
    assert wait_for(lambda: again.url and boxes_of(home) == []), "the next server removes what the killed one has left"
    again.stop()
