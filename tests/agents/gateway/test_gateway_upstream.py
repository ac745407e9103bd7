"""An endpoint that fails: refused, slow, broken, overloaded. What agents get, and what the engine is told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from swe_sdk.agents.gateway.gateway import open_gateway
from swe_sdk.agents.gateway.serving import HttpService, listen_on
from swe_sdk.agents.gateway.settings import GatewaySettings
from swe_sdk.errors import ModelFailed, ModelUnreachable
from swe_sdk.grading.classify import classify
from swe_sdk.model.policy import DEFAULT_POLICY
from swe_sdk.testing import ScriptedModel, fail, say
from tests.agents.gateway.gates import QUICK, REAL_KEY, USER, bench, client_of, endpoint_of

pytestmark = pytest.mark.anyio


async def test_only_a_refused_connection_is_tried_again(tmp_path: Path) -> None:
    settings = GatewaySettings(connect_tries=20, connect_pause_s=0.02)
    async with bench([say("x")], tmp_path, settings=settings) as b, anyio.create_task_group() as tasks:
        with b.model.refusing():
            tasks.start_soon(b.ask)
            await anyio.sleep(0.2)
            assert [call.state for call in b.gateway.calls()] == ["sent"]
        with anyio.fail_after(10):
            while not b.ledger.calls:
                await anyio.sleep(0.01)
        (call,) = b.ledger.calls
        assert (call.status, call.end) == (200, "delivered")
        assert call.tries > 2
        assert b.model.turns == [0], "it was sent once"


@pytest.mark.parametrize("cut", ["before_reply", "within_reply"])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_may_have_arrived_is_never_sent_again(tmp_path: Path, cut: str, stream: bool) -> None:
    async with bench([say("x", before=(fail(cut=cut),))], tmp_path) as b:
        if cut == "before_reply":
            answer = await b.ask(stream=stream)
            assert (answer.status_code, answer.json()["error"]["type"]) == (502, "server_error")
        else:
            with pytest.raises(httpx.TransportError):  # what was cut there is cut here: it does not look complete
                await b.ask(stream=stream)
        assert len(b.model.calls) == 1
        await b.gateway.quiet(timeout_s=5)
        (row,) = b.ledger.calls
        assert row.end == ("delivered" if cut == "before_reply" else "endpoint_broke")
        assert isinstance(b.session.trouble, ModelUnreachable)
        assert (await b.ask(stream=stream)).status_code == 200
        assert b.session.trouble is None


async def test_an_endpoint_that_is_not_there(tmp_path: Path) -> None:
    async with bench([say("x")], tmp_path) as b:
        with b.model.refusing():
            answer = await b.ask()
            with pytest.raises(ModelUnreachable, match="is the endpoint up"):
                await b.gateway.check()
        assert (answer.status_code, answer.json()["error"]["type"]) == (503, "server_error")
        assert answer.json()["error"]["code"] == "endpoint_unreachable"
        assert REAL_KEY not in str(b.session.trouble)
        (row,) = b.ledger.calls
        assert (row.tries, row.error) == (2, "endpoint_unreachable")
        failure = classify(b.session.trouble or ValueError(), "agent")
        assert failure.kind == "model_unreachable"
        assert DEFAULT_POLICY.decide(failure.stage, failure.kind).verdict == "masked"
        assert b.session.usage.calls == 0
        await b.gateway.check()


async def test_an_endpoint_without_a_route_is_given_up_in_time() -> None:
    """Its packets get no answer at all, as behind a firewall."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        fillers = []
        for _ in range(4):  # the queue of connections that nobody accepts is full: further ones hang
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(deaf.getsockname())
            fillers.append(filler)
        settings = GatewaySettings(connect_timeout_s=0.3, connect_tries=2, connect_pause_s=0.01, check_timeout_s=0.5)
        model = ScriptedModel([say("x")])
        endpoint = endpoint_of(model).model_copy(update={"base_url": f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"})
        async with open_gateway(endpoint, settings=settings) as gateway, gateway.session("r.0") as session:
            started = time.monotonic()
            with pytest.raises(ModelUnreachable):
                await gateway.check()
            async with client_of(gateway, session) as client:
                answer = await client.post("/chat/completions", json={"model": "scripted", "messages": [USER]})
            assert answer.status_code in (503, 504)
            assert time.monotonic() - started < 5
        for filler in fillers:
            filler.close()


@pytest.mark.parametrize("stream", [False, True])
async def test_an_endpoint_that_does_not_answer_in_time(tmp_path: Path, stream: bool) -> None:
    settings = QUICK.model_copy(update={"silence_timeout_s": 0.3})
    for turn in (say("x", delay_s=30), say("a b c", chunk_delay_s=30)):  # no headers; or headers, and no body
        async with bench([turn], tmp_path / str(turn.delay_s), settings=settings) as b:
            if not stream and turn.chunk_delay_s:
                continue
            answer = await b.ask(stream=stream)
            assert (answer.status_code, answer.json()["error"]["type"]) == (504, "server_error")
            assert answer.json()["error"]["code"] == "endpoint_silent"
            assert len(b.model.calls) == 1, "it may have arrived"
            assert isinstance(b.session.trouble, ModelUnreachable)


async def test_an_endpoint_that_falls_silent(tmp_path: Path) -> None:
    """In the middle of a response: the agent sees that it is cut off."""
    settings = QUICK.model_copy(update={"silence_timeout_s": 0.3})
    async with raw_endpoint(200, [], b"data: 1\n\n", silent_s=30) as url, bench([], tmp_path) as b:
        endpoint = b.gateway.endpoint.model_copy(update={"base_url": url})
        async with open_gateway(endpoint, b.ledger, settings=settings) as gateway, gateway.session("r.0") as session:
            async with client_of(gateway, session) as client:
                with pytest.raises(httpx.TransportError):
                    await client.post("/chat/completions", json={"model": "scripted"})
        (row,) = b.ledger.calls
        assert (row.end, row.response_bytes) == ("endpoint_silent", 9)
        assert isinstance(session.trouble, ModelUnreachable)


@pytest.mark.parametrize(
    ("fault", "kind", "is_trouble"),
    [
        (fail(500), "server_error", True),
        (fail(503, headers={"retry-after": "3"}), "server_error", True),
        (fail(429), "rate_limit_error", True),
        (fail(401, type="server_error"), "invalid_request_error", True),
        (fail(403, type="server_error"), "invalid_request_error", True),
        (fail(400, type="server_error", code="context_length_exceeded"), "invalid_request_error", False),
        (fail(422, type="a_type_of_its_own"), "a_type_of_its_own", False),
        (fail(529, type="overloaded_error"), "overloaded_error", True),
    ],
)
async def test_errors_pass_with_a_type_that_goes_with_their_status(
    tmp_path: Path, fault: fail, kind: str, is_trouble: bool
) -> None:
    async with bench([fault], tmp_path) as b:
        answer = await b.ask()
        assert answer.status_code == fault.status
        assert answer.json()["error"]["type"] == kind
        assert answer.json()["error"]["message"] == fault.message
        assert answer.json()["error"]["code"] == fault.code or fault.code is None
        assert answer.headers.get("retry-after") == fault.headers.get("retry-after")
        assert isinstance(b.session.trouble, ModelFailed) == is_trouble
        assert len(b.model.calls) == 1, "errors are the harness's to repeat"
        (row,) = b.ledger.calls
        assert (row.status, row.end) == (fault.status, "delivered")
        assert row.error in (answer.json()["error"]["code"], kind)


@asynccontextmanager
async def raw_endpoint(
    status: int, headers: list[tuple[bytes, bytes]], *pieces: bytes, silent_s: float = 0.0
) -> AsyncIterator[str]:
    """An endpoint that answers everything with the same bytes."""

    async def app(scope, receive, send) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await anyio.sleep(silent_s)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    listener = listen_on()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/api"
    async with HttpService(app).serve(listener):
        yield url


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (502, b"<html>Bad Gateway</html>", 502),
        (401, b"", 401),
        (400, b'{"error": "just text"}', 400),
        (404, b'{"detail": "Not Found"}', 404),
        (500, b"\xff\xfe\x00", 500),
        (413, b"[" * 300_000, 413),
        (400, b"x" * 3_000_000, 400),
    ],
)
async def test_errors_that_are_no_json_get_a_form_that_harnesses_read(status: int, body: bytes, code: int) -> None:
    async with raw_endpoint(status, [(b"content-type", b"text/html")], body) as url:
        endpoint = endpoint_of(ScriptedModel([])).model_copy(update={"base_url": url})
        async with open_gateway(endpoint) as gateway, gateway.session("r.0") as session:
            async with client_of(gateway, session) as client:
                answer = await client.post("/chat/completions", json={"model": "scripted"})
    assert answer.status_code == code
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert error["type"] == ("server_error" if status >= 500 else "invalid_request_error")
    assert error["message"]
    assert len(answer.content) < 10_000


async def test_bytes_that_are_no_text_and_odd_statuses_pass(tmp_path: Path) -> None:
    pieces = (b"\x00\xff", b"data: {", b'"usage": {"prompt_tokens": 4, "compl', b'etion_tokens": 2}}\n\n', b"\r\n\xfe")
    async with raw_endpoint(
        206, [(b"content-type", b"x/y"), (b"content-length", b"%d" % sum(map(len, pieces)))], *pieces
    ) as url:
        async with bench([], tmp_path) as b:
            endpoint = b.gateway.endpoint.model_copy(update={"base_url": url})
            async with open_gateway(endpoint, b.ledger) as gateway, gateway.session("r.0") as session:
                async with client_of(gateway, session) as client:
                    answer = await client.post("/chat/completions", json={"model": "scripted"})
            (row,) = b.ledger.calls
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (206, b"".join(pieces), "x/y")
    assert (row.prompt_tokens, row.completion_tokens) == (4, 2)


@pytest.mark.parametrize(
    ("fault", "error"),
    [(None, None), (404, None), (429, None), (401, ModelFailed), (403, ModelFailed), (500, ModelFailed)],
)
async def test_the_endpoint_is_asked_before_a_token_is_spent(fault: int | None, error: type[Exception] | None) -> None:
    async with raw_endpoint(fault or 200, [], b"{}") as url:
        endpoint = endpoint_of(ScriptedModel([])).model_copy(update={"base_url": url})
        async with open_gateway(endpoint) as gateway:
            if error is None:
                await gateway.check()
                return
            with pytest.raises(error):
                await gateway.check()


async def test_the_answer_is_believed_for_a_while(tmp_path: Path) -> None:
    async with bench([say("x")], tmp_path) as b:
        await b.gateway.check()
        with b.model.refusing():
            async with anyio.create_task_group() as tasks:
                for _ in range(100):
                    tasks.start_soon(b.gateway.check)


_SERVER = """
import sys, anyio
from swe_sdk.agents.gateway.endpoint import ModelEndpoint
from swe_sdk.agents.gateway.gateway import open_gateway

async def main():
    async with open_gateway(ModelEndpoint(base_url=sys.argv[1], model="scripted")) as gateway:
        async with gateway.session("r.0") as session:
            print(gateway.url, session.key.get_secret_value(), flush=True)
            await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.parametrize("stream", [False, True])
async def test_a_gateway_that_is_killed_leaves_nobody_waiting(stream: bool) -> None:
    """Neither the agent nor the endpoint: both see a broken connection."""
    script = [say("a b c", chunk_delay_s=0.2, gate="g" if not stream else None, delay_s=0.0)]
    async with ScriptedModel(script, title=None) as model:
        command = [sys.executable, "-c", _SERVER, model.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=os.getcwd()) as server:
            assert server.stdout is not None
            line = await anyio.to_thread.run_sync(server.stdout.readline)
            url, key = line.split()
            headers = {"authorization": f"Bearer {key}"}
            async with httpx.AsyncClient(headers=headers, timeout=30, trust_env=False) as client:

                async def kill() -> None:
                    await model.wait_for_async(1)
                    await anyio.sleep(0.2)
                    server.send_signal(signal.SIGKILL)

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(kill)
                    body = {"model": "scripted", "messages": [USER], "stream": stream}
                    with pytest.raises(httpx.TransportError), anyio.fail_after(10):
                        await client.post(url + "/chat/completions", json=body)
                await anyio.to_thread.run_sync(server.wait)
                with pytest.raises(httpx.ConnectError):
                    await client.get(url + "/models")
            await model.wait_for_async(lambda calls: calls[0].end == "broken")
