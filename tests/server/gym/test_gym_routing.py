"""Who is asked for whose request, and what is never asked."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.server.gym.front import Front
from swe_sdk.server.gym.routing import ToAttempt
from swe_sdk.server.gym.tokens import Grant, Signer
from swe_sdk.server.settings import ServerSettings

pytestmark = pytest.mark.anyio
ME = EpisodeId(rollout_id="r", attempt=1)
SIGNER = Signer()
LOAN = "/ng-sandbox/v1/s"


class Worker:
    """One of two; ``owners`` is what the coordinator says."""

    def __init__(self, **settings: Any) -> None:
        self.owners: dict[str, str | None] = {"r": "b", "lost": None}
        self.asked: list[str] = []
        self.carried: list[tuple[str, bytes]] = []
        member = SimpleNamespace(name="a", place_of=self.place_of, holder_of=self.holder_of)
        carrier: Any = SimpleNamespace(member=member, carry=self.carry)
        self.front = Front(ServerSettings.of(body_mib=0.01, **settings))
        self.app: Any = ToAttempt(
            Starlette(routes=[Route("/{path:path}", self.here, methods=["GET", "POST"])]),
            carrier,
            self.front,
            bodies=frozenset({"/verify"}),
            session_cookie=("/v1/responses", "agent_session_id"),
            signer=SIGNER,
        )

    async def here(self, request: Request) -> Response:
        return Response(b"here:" + await request.body())

    async def place_of(self, episode: EpisodeId) -> str | None:
        self.asked.append(str(episode))
        return self.owners.get(episode.rollout_id, "a")

    async def holder_of(self, session: str) -> str | None:
        self.asked.append(session)
        return {"theirs": "b"}.get(session)

    async def carry(self, owner: str, scope: Any, receive: Any, send: Any) -> None:
        assert self.front.admission.posts == 0, "its owner counts it; two would be twice as many"
        self.carried.append((owner, await Request(scope, receive).body()))
        await Response("there")(scope, receive, send)

    async def ask(self, path: str, *, client: str = "127.0.0.1", method: str = "POST", **request: Any) -> Any:
        transport = httpx.ASGITransport(app=self.app, client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as asking:
            answer = await asking.request(method, path, **request)
        return answer if answer.is_error else answer.text


def loan_token(session: str = "s") -> dict[str, str]:
    grant = Grant(purpose="sandbox", session_id=session, episode_id=ME, owner="", expires_at=time.time() + 60)
    return {"authorization": f"Bearer {SIGNER.issue(grant)}"}


async def test_an_attempt_is_named_by_path_token_body_or_session() -> None:
    worker = Worker()
    body = json.dumps({"episode_id": ME.model_dump(), "more": "x"})
    assert await worker.ask("/ng-rollout/r-a1/verify", content="whole") == "there"
    assert await worker.ask(f"{LOAN}/exec", content="run", headers=loan_token()) == "there"
    assert await worker.ask("/verify", content=body) == "there"
    assert await worker.ask("/v1/responses", headers={"cookie": "agent_session_id=theirs"}) == "there"
    assert worker.asked == ["r#1", "r#1", "r#1", "theirs"]
    assert worker.carried == [("b", b"whole"), ("b", b"run"), ("b", body.encode()), ("b", b"")]


async def test_what_names_no_attempt_or_one_of_ours_is_answered_here() -> None:
    worker = Worker()
    ours = json.dumps({"episode_id": {"rollout_id": "ours"}})
    assert await worker.ask("/verify", content=ours) == f"here:{ours}"
    for content in ("{}", "[]", "no json", '{"episode_id": 7}', '{"episode_id": {"rollout_id": ""}}'):
        assert await worker.ask("/verify", content=content) == f"here:{content}"
    assert await worker.ask("/v1/responses", headers={"cookie": "agent_session_id=nobody's"}) == "here:"
    assert await worker.ask("/health", method="GET") == "here:"
    assert await worker.ask("/ng-rollout/r/health", method="GET") == "here:"
    assert await worker.ask("/ng-rollout/r/verify", headers={"x-ng-forwarded": "1"}) == "here:"
    assert await worker.ask(f"{LOAN}/exec", headers={"authorization": "Bearer forged"}) == "here:"
    assert worker.asked == ["ours#0", "nobody's"]


async def test_nothing_is_read_or_remembered_of_who_may_not_post() -> None:
    worker = Worker(token=SecretStr("a-token"))
    for headers in ({}, {"authorization": "Bearer another"}, {"authorization": "Bearer a-token", "origin": "x"}):
        assert await worker.ask("/ng-rollout/r/verify", headers=headers) == "here:"
        assert await worker.ask("/verify", headers=headers, content="{}") == "here:{}"
    assert worker.asked == []
    assert await worker.ask("/ng-rollout/r/verify", headers={"authorization": "Bearer a-token"}) == "there"


async def test_what_cannot_be_carried_is_an_error_that_says_so() -> None:
    worker = Worker()
    lost = await worker.ask("/ng-rollout/lost/verify")
    assert (lost.status_code, lost.json()["error"]["code"]) == (410, "session_lost")
    large = await worker.ask("/verify", content="x" * 20_000)
    assert (large.status_code, large.json()["error"]["code"]) == (413, "body_too_large")
    assert await worker.ask(f"{LOAN}/listen", headers=loan_token()) == "there"
    far = await worker.ask(f"{LOAN}/listen", headers=loan_token(), client="192.0.2.7")
    assert (far.status_code, far.json()["error"]["code"]) == (409, "capability_missing")
    assert len(worker.carried) == 1


async def test_a_body_that_is_too_slow_or_too_large_is_refused_by_whom_its_client_talks_to() -> None:
    """Its owner would refuse it as well, which a client that is still sending would not hear of."""
    worker = Worker(body_timeout_s=0.1)

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep_forever()

    for path in ("/verify", "/ng-rollout/r-a1/verify"):
        slow = await worker.ask(path, content=endless())
        assert (slow.status_code, slow.json()["error"]["code"]) == (408, "body_timeout")
        large = await worker.ask(path, content="x" * 20_000)
        assert (large.status_code, large.json()["error"]["code"]) == (413, "body_too_large")
    assert worker.carried == []


async def test_an_attempt_that_no_number_could_be_is_none() -> None:
    worker = Worker()
    key = f"r-a{'9' * 5000}"
    assert await worker.ask(f"/ng-rollout/{key}/verify") == "here:"
    assert worker.asked == [f"{key}#0"]
