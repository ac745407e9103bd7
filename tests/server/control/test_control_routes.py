"""The routes as a stranger meets them, who has only their table: paths, tokens, bodies, answers."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.testclient import TestClient

from swe_sdk.checkpoint import CheckpointSettings, ModelParticipant, ResourcesHooks, ResourcesParticipant
from swe_sdk.checkpoint.call_gate import CallGate
from swe_sdk.checkpoint.participant import Participant
from swe_sdk.checkpoint.participants.restart_only import RestartOnlyParticipant
from swe_sdk.server.control import ControlLimits, control_app, control_routes, serve_control
from tests.checkpoint.house import ep
from tests.server.control.over_http import SETTINGS, TOKEN

PREFIX = "/ng-control/v1/checkpoint"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


class Breaks(ResourcesHooks):
    def checkpoint_mode_in_effect(self) -> Any:
        return "exported"

    async def release_external_state(self, kept: frozenset[str]) -> int:
        raise KeyError("a defect of the hook")


@contextmanager
def client_of(participant: Any, **limits: Any) -> Iterator[TestClient]:
    """In another thread, as in a server."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with participant:
            yield

    app = control_app(participant, SETTINGS, ControlLimits(**limits))
    app.router.lifespan_context = lifespan
    with TestClient(app, headers=AUTHORIZED) as client:
        yield client


def body(**more: Any) -> dict[str, Any]:
    return {"checkpoint_id": "c1", "deadline_ts": time.time() + 30} | more


@pytest.fixture
def client() -> Iterator[TestClient]:
    with client_of(ResourcesParticipant(hooks=Breaks())) as found:
        yield found


def test_a_checkpoint_by_the_table_of_routes(client: TestClient, tmp_path: Path) -> None:
    def post(operation: str, **more: Any) -> Any:
        answer = client.post(f"{PREFIX}/{operation}", json=body(**more))
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert client.get(f"{PREFIX}/status").json()["phase"] == "idle"
    prepared = post("prepare")
    assert prepared["report"] == {
        "ready": True,
        "blockers": [],
        "blocker_count": 0,
        "counts": {"sessions": 0, "requests": 0},
        "restarts": [],
        "episodes": [],
    }
    assert post("renew")["lease_expires_at"] > time.time() + 600
    scope = [{"rollout_id": "r", "attempt": 0}, {"rollout_id": "q"}]
    written = post("commit", checkpoint_dir=str(tmp_path / "c1"), episode_ids=scope)
    assert Path(written["manifest"]) == tmp_path / "c1/gym/resources/resources/manifest.json"
    assert post("resume") == {"checkpoint_id": "c1", "phase": "idle"}
    restoring = {"checkpoint_dir": str(tmp_path / "c1"), "episode_ids": scope}
    again = client.post(f"{PREFIX}/restore", json=body(**restoring))
    assert (again.status_code, again.json()["error"]["code"]) == (409, "stale_checkpoint")
    assert post("retire", checkpoint_id="w", episode_ids=scope)["retired"] == [
        {"rollout_id": "r", "attempt": 0},
        {"rollout_id": "q", "attempt": 0},
    ]
    assert client.get(f"{PREFIX}/status").json()["retired_rollouts"] == {"r": 0, "q": 0}
    assert post("forget", checkpoint_id="w", rollout_ids=["r", "q"])["forgotten"] == ["r", "q"]


def test_a_hook_that_breaks_is_this_calls_error_and_no_500(client: TestClient) -> None:
    client.post(f"{PREFIX}/resume", json=body())
    answer = client.post(f"{PREFIX}/release", json=body(kept=[]))
    assert answer.status_code == 409
    assert answer.json() == {"error": {"code": "checkpoint_error", "detail": "KeyError('a defect of the hook')"}}


@pytest.mark.parametrize("shown", ["", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "é"])
def test_nothing_is_told_or_done_without_the_token(client: TestClient, shown: str) -> None:
    wrong = {"Authorization": shown.encode("latin-1")} if shown else {"Authorization": ""}
    for answer in (
        client.get(f"{PREFIX}/status", headers=wrong),
        client.post(f"{PREFIX}/prepare", headers=wrong, json=body()),
        client.post(f"{PREFIX}/prepare", headers=wrong, content=b"no json"),
    ):
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "unauthorized"
        assert answer.headers["www-authenticate"] == "Bearer"
    assert client.get(f"{PREFIX}/status").json()["phase"] == "idle"


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"{", 400, "bad_json"),
        (b'{"checkpoint_id": "c1", "deadline_ts": NaN}', 400, "bad_json"),
        (b'{"checkpoint_id": "c1", "deadline_ts": 1e999}', 400, "bad_json"),
        (b"[]", 422, "invalid_request"),
        (b"{}", 422, "invalid_request"),
        (json.dumps({"checkpoint_id": "", "deadline_ts": 1}).encode(), 422, "invalid_request"),
        (json.dumps({"checkpoint_id": "../x", "deadline_ts": 1}).encode(), 422, "invalid_request"),
        (json.dumps({"checkpoint_id": "c" * 129, "deadline_ts": 1}).encode(), 422, "invalid_request"),
        (json.dumps({"checkpoint_id": "c1", "deadline_ts": 1, "stop": True}).encode(), 422, "invalid_request"),
        (json.dumps({"checkpoint_id": "c1", "deadline_ts": 1}).encode(), 409, "deadline_exceeded"),
        (b" " * 2000, 413, "body_too_large"),
    ],
)
def test_what_is_wrong_with_a_body_is_said(sent: bytes, status: int, code: str) -> None:
    with client_of(ResourcesParticipant(hooks=Breaks()), body_mib=1 / 1024) as client:
        answer = client.post(f"{PREFIX}/prepare", content=sent)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert set(answer.json()["error"]) == {"code", "detail"}
        assert client.get(f"{PREFIX}/status").json()["phase"] == "idle"


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    def slowly() -> Iterator[bytes]:
        yield b"{"
        time.sleep(0.4)
        yield b"}"

    async def main() -> int:
        async with ResourcesParticipant(hooks=Breaks()) as one:
            limits = ControlLimits(body_timeout_s=0.1)
            async with serve_control(one, SETTINGS, limits=limits) as url:
                request = f"POST {PREFIX}/prepare HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
                async with await anyio.connect_tcp("127.0.0.1", int(url.rpartition(":")[2])) as stream:
                    await stream.send(f"{request}Content-Length: 100\r\n\r\n{{".encode())
                    with anyio.fail_after(5):
                        return int((await stream.receive()).split()[1])

    assert anyio.run(main) == 408


def test_paths_and_methods_that_there_are_not(client: TestClient) -> None:
    missing, method = client.get("/ng-control/v1/checkpoint"), client.get(f"{PREFIX}/prepare")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")
    assert (method.status_code, method.json()["error"]["code"], method.headers["allow"]) == (
        405,
        "method_not_allowed",
        "POST",
    )
    assert client.post(f"{PREFIX}/prepare/", json=body()).status_code == 404, "it was sent on"


def test_checkpoints_stay_below_their_root(tmp_path: Path) -> None:
    with client_of(ResourcesParticipant(hooks=Breaks()), checkpoint_root=tmp_path / "runs") as client:
        client.post(f"{PREFIX}/prepare", json=body())
        for place in ("runs/c1", str(tmp_path), str(tmp_path / "runs/../other"), "/\0"):
            answer = client.post(f"{PREFIX}/commit", json=body(checkpoint_dir=place))
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "checkpoint_error"), answer.text
        assert list(tmp_path.iterdir()) == []
        assert client.post(f"{PREFIX}/commit", json=body(checkpoint_dir=str(tmp_path / "runs/c1"))).status_code == 200
    with pytest.raises(ValidationError, match="checkpoint_root must be absolute"):
        ControlLimits(checkpoint_root=Path("here"))


def test_where_checkpoints_are_not_enabled_there_are_no_routes() -> None:
    one = RestartOnlyParticipant("agent", "a", in_flight=lambda: [ep("r")])
    assert control_routes(one, CheckpointSettings()) == []
    assert len(control_routes(one, SETTINGS)) == 9


@pytest.mark.parametrize(
    ("participant", "kind"),
    [
        (RestartOnlyParticipant("environment", "e", in_flight=lambda: [ep("r", 0)]), "environment"),
        (ModelParticipant(gate=CallGate()), "model"),
    ],
)
def test_every_kind_is_served_alike(participant: Participant, kind: str) -> None:
    with client_of(participant) as client:
        assert client.get(f"{PREFIX}/status").json()["kind"] == kind
        report = client.post(f"{PREFIX}/prepare", json=body()).json()["report"]
        restarts = [{"rollout_id": "r", "attempt": 0}] if kind == "environment" else []
        assert report["restarts"] == restarts


def test_a_client_that_leaves_ends_its_wait_and_the_checkpoint_stays_open() -> None:
    async def main() -> None:
        async with ResourcesParticipant(hooks=Breaks()) as one, serve_control(one, SETTINGS) as url:
            async with httpx.AsyncClient(base_url=url, headers=AUTHORIZED) as client:
                async with one.request("s", ep("r")):
                    with pytest.raises(httpx.ReadTimeout):
                        await client.post(f"{PREFIX}/prepare", json=body(), timeout=0.2)
                    assert one.control.phase == "preparing"
                again = await client.post(f"{PREFIX}/prepare", json=body())
                assert again.json()["report"]["ready"]
                assert one.control.phase == "prepared"

    anyio.run(main)
