"""More than a server can do at once: what is shared, what is refused, and what leaves with its client."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import StartServer
from tests.server.serving import NAME, Poster, ServerProcess, answer_patch, post_body

SLOW = "tiny__slow-1"
MIB = 1 << 20


class Evaluations:
    """Those of the session's server since this was made."""

    def __init__(self, server: ServerProcess) -> None:
        self._results = server.home / "results"
        self._before = self._found()

    def _found(self) -> set[Path]:
        return set(self._results.glob("artifacts/*/*"))

    @property
    def begun(self) -> int:
        return len(self._found() - self._before)

    @property
    def finished(self) -> int:
        return sum((folder / "outcome.json").exists() for folder in self._found() - self._before)


# -- sharing -----------------------------------------------------------------------------------------------------------


def test_equal_posts_at_the_same_time_share_one_evaluation(server: ServerProcess) -> None:
    evaluations = Evaluations(server)
    bodies = [post_body({"instance_id": SLOW}, answer_patch(44), n=number) for number in range(12)]
    answers = [poster.result().json() for poster in [Poster(server, body) for body in bodies]]
    assert [answer["status"] for answer in answers] == ["unresolved"] * 12
    assert sorted(answer["n"] for answer in answers) == list(range(12))
    assert len({answer["key"] for answer in answers}) == 1
    assert (evaluations.begun, evaluations.finished) == (1, 1)
    assert Poster(server, bodies[0]).result().json()["key"] == answers[0]["key"]
    assert evaluations.begun == 1


def test_different_posts_do_not(server: ServerProcess) -> None:
    evaluations, numbers = Evaluations(server), (31, 32, 33, 34, 32)
    posters = [Poster(server, post_body({"instance_id": NAME}, answer_patch(number))) for number in numbers]
    assert [poster.result().json()["reward"] for poster in posters] == [0.0] * 5
    assert evaluations.finished == 4


def test_a_client_that_is_killed_does_not_disturb_the_others(server: ServerProcess) -> None:
    """The first of three to ask for the same is killed as a program; the others get their verdicts."""
    evaluations, body = Evaluations(server), post_body({"instance_id": SLOW}, answer_patch(45))
    victim = killable_client(server, body)
    server.wait_until(posts=1, evaluations=1)
    posters = [Poster(server, body) for _ in range(2)]
    server.wait_until(posts=3, evaluations=1)
    time.sleep(0.2)  # they are counted before they are read, and share the evaluation after that
    victim.kill()
    victim.wait()
    server.wait_until(posts=2, evaluations=1)
    assert [poster.result().json()["status"] for poster in posters] == ["unresolved"] * 2
    assert evaluations.begun == 1


def test_the_last_client_takes_its_evaluation_along(server: ServerProcess) -> None:
    """Its box is gone in no time, and a later post starts afresh."""
    evaluations, body = Evaluations(server), post_body({"instance_id": SLOW}, answer_patch(47))
    gone = 'swe_sdk_responses_total{path="/verify",status="499"}'
    before = server.metric(gone)
    victim = killable_client(server, body)
    server.wait_until(posts=1, evaluations=1)
    deadline = time.monotonic() + 20
    while not server.boxes():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    victim.kill()
    victim.wait()
    server.wait_until(posts=0, evaluations=0)
    assert server.boxes() == []
    assert (evaluations.begun, evaluations.finished) == (1, 0)
    assert Poster(server, body).result().json()["status"] == "unresolved"
    assert (evaluations.begun, evaluations.finished) == (2, 1)
    assert server.metric(gone) == before + 1


def killable_client(server: ServerProcess, body: Any) -> subprocess.Popen[bytes]:
    program = "import httpx, sys, json; httpx.post(sys.argv[1], content=sys.stdin.buffer.read(), timeout=100)"
    command = [sys.executable, "-c", program, f"{server.url}/verify"]
    client = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert client.stdin is not None
    with client.stdin as stdin:
        stdin.write(json.dumps(body).encode())
    return client


# -- limits ------------------------------------------------------------------------------------------------------------


def test_a_full_queue_refuses_and_says_when_to_come_again(start: StartServer) -> None:
    server = start("--workers", "1", "--queue", "1")
    bodies = [post_body({"instance_id": SLOW}, answer_patch(number)) for number in (50, 51, 52)]
    first = Poster(server, bodies[0])
    server.wait_until(evaluations=1)
    second = Poster(server, bodies[1])
    server.wait_until(evaluations=1, waiting=1)
    refused = Poster(server, bodies[2]).result()
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_busy")
    assert 1 <= int(refused.headers["retry-after"]) <= 300
    joined = Poster(server, bodies[1])  # needs no evaluation of its own
    answers = [each.result() for each in (first, second, joined)]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert Poster(server, bodies[2]).result().status_code == 200


def test_a_post_that_waits_too_long_is_answered_with_a_mask(start: StartServer) -> None:
    server = start("--workers", "1", "--request-timeout", "0.4")
    posters = [Poster(server, post_body({"instance_id": SLOW}, answer_patch(number))) for number in (60, 61)]
    for poster in posters:
        verdict = poster.result().json()
        assert (verdict["reward"], verdict["mask_sample"], verdict["error_kind"]) == (0.0, True, "timeout")
        assert verdict["failure_kind"] == "swe_sdk:timeout"
        assert "within 0.4 s" in verdict["failure_reason"]
    server.wait_until(posts=0, evaluations=0, waiting=0)
    assert server.boxes() == []


@pytest.mark.parametrize("chunked", [False, True])
def test_a_hundred_megabytes_are_refused_and_take_no_room(server: ServerProcess, chunked: bool) -> None:
    """Where eight are taken."""
    before = server.peak_mib()
    answers: list[int | None] = []

    def post() -> None:
        data = (b"x" * MIB for _ in range(100)) if chunked else b"x" * (100 * MIB)
        with server.client() as client:
            answers.append(client.post("/verify", content=data).status_code)

    threads = [threading.Thread(target=post) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [413] * 2
    assert server.peak_mib() - before < 48
    assert server.health()["posts"] == 0


def test_a_client_that_asks_before_it_sends_is_told_at_once(server: ServerProcess) -> None:
    answer = spoken(server, b"Content-Length: 99999999\r\nExpect: 100-continue", b"")
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in answer.lower()


def test_all_bodies_together_have_a_limit(server: ServerProcess) -> None:
    """Bodies that are on their way count: with half of a large one there, a second does not fit."""
    from swe_sdk.server.admission import ServerAdmission, TooBusy
    from swe_sdk.server.settings import ServerSettings

    admission = ServerAdmission(ServerSettings(body_mib=1, bodies_mib=1.5, posts=2))
    with admission.post() as first, admission.post() as second:
        first.add(MIB)
        second.add(MIB // 2)
        with pytest.raises(TooBusy, match="bytes"):
            second.add(1)
        with pytest.raises(TooBusy, match="posts"), admission.post():
            pass
    with admission.post() as third:
        third.add(MIB)
    assert admission.posts == 0


def test_a_client_that_leaves_within_its_body_is_forgotten(server: ServerProcess) -> None:
    with connection(server) as line:
        line.sendall(b"POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        server.wait_until(posts=1)
    server.wait_until(posts=0)


def test_a_body_has_its_time(start: StartServer) -> None:
    server = start("--set", "body_timeout_s=0.3")
    started = time.monotonic()
    answer = spoken(server, b"Content-Length: 100", b"{")
    assert time.monotonic() - started < 3
    assert answer.startswith(b"HTTP/1.1 408")
    server.wait_until(posts=0)


def connection(server: ServerProcess) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def spoken(server: ServerProcess, headers: bytes, body: bytes) -> bytes:
    """The head of what a server says to a request."""
    with connection(server) as line:
        line.sendall(b"POST /verify HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n\r\n" + body)
        answer = b""
        while b"\r\n\r\n" not in answer and (chunk := line.recv(1 << 16)):
            answer += chunk
        return answer


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: -1",
        b"Content-Length: x",
        b"Content-Length: 1\r\nContent-Length: 2",
        b"Transfer-Encoding: what",
        b"A: " + b"x" * 100_000,
        b"\xff: \x00",
    ],
)
def test_broken_http_is_the_clients_doing(server: ServerProcess, head: bytes) -> None:
    assert spoken(server, head, b"").startswith(b"HTTP/1.1 4")


def test_posts_at_once_are_answered_while_evaluations_go_on(server: ServerProcess) -> None:
    """A waiting verdict holds nobody up: health, errors and refusals come at once."""
    slow = Poster(server, post_body({"instance_id": SLOW}, answer_patch(70)))
    server.wait_until(evaluations=1)
    started = time.monotonic()
    with server.client() as client:
        for _ in range(20):
            assert client.get("/health").status_code == 200
            assert client.post("/verify", json={}).status_code == 422
    assert time.monotonic() - started < 1.5
    assert slow.result().status_code == 200


def test_many_clients_at_once(server: ServerProcess) -> None:
    evaluations = Evaluations(server)
    bodies = [post_body({"instance_id": NAME}, answer_patch(100 + number % 5)) for number in range(60)]
    posters = [Poster(server, body) for body in bodies]
    assert [poster.result().json()["status"] for poster in posters] == ["unresolved"] * 60
    assert evaluations.finished == 5
