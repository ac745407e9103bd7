"""Calls through the gateway: passed on byte for byte, recorded, and only those that a key is good for."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

import anyio
import httpx
import pytest

from swe_sdk.agents.gateway.gateway import open_gateway
from swe_sdk.agents.gateway.ledger import FolderLedger
from swe_sdk.agents.gateway.settings import GatewaySettings, ModelAllowance, ModelUsage
from swe_sdk.errors import InputError
from swe_sdk.testing import act, fail, say, use
from swe_sdk.testing.scripted.script import Turn, Usage
from tests.agents.gateway.gates import QUICK, REAL_KEY, USER, bench, client_of

pytestmark = pytest.mark.anyio
SCRIPT = [act(use("bash", command="ls"), text="I look", usage=Usage(prompt_tokens=7, completion_tokens=3))]


@pytest.mark.parametrize("route", ["/chat/completions", "/responses", "/messages"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_comes_through_byte_for_byte(tmp_path: Path, route: str, stream: bool) -> None:
    async with bench(SCRIPT, tmp_path) as b:
        body = {"model": "scripted", "messages": [USER], "input": [USER], "stream": stream}
        body["stream_options"] = {"include_usage": True}
        direct = httpx.post(b.model.url + route, json=body, headers={"authorization": f"Bearer {REAL_KEY}"})
        passed = await b.client.post(route, json=body)
        assert passed.status_code == direct.status_code == 200
        assert passed.content == direct.content
        assert passed.headers["content-type"] == direct.headers["content-type"]
        (call,) = b.ledger.calls
        assert (call.rollout_id, call.attempt, call.n, call.route, call.model) == (
            "task__a-1.0",
            1,
            1,
            route,
            "scripted",
        )
        assert (call.end, call.status, call.is_stream, call.tries) == ("delivered", 200, stream, 1)
        assert (call.prompt_tokens, call.completion_tokens) == (7, 3)
        assert b.ledger.body(call, "response").read_bytes() == passed.content
        assert json.loads(b.ledger.body(call, "request").read_bytes()) == body
        assert call.request_bytes == b.ledger.body(call, "request").stat().st_size
        assert call.response_bytes == len(passed.content)
        assert b.session.usage == ModelUsage(calls=1, prompt_tokens=7, completion_tokens=3)


async def test_a_stream_arrives_as_it_is_made(tmp_path: Path) -> None:
    """Each piece for itself, not when the response is complete; one may be late on a busy machine."""
    async with bench([say("a b c d e f g h", chunk_delay_s=0.1)], tmp_path) as b:
        arrivals: list[float] = []
        body = {"model": "scripted", "messages": [USER], "stream": True}
        async with b.client.stream("POST", "/chat/completions", json=body) as response:
            arrivals += [time.monotonic() async for _piece in response.aiter_raw()]
        gaps = [later - earlier for earlier, later in pairwise(arrivals)]
        assert len(arrivals) >= 8
        assert 0.05 < median(gaps) < 0.2, f"pieces were kept back: {gaps}"
        (call,) = b.ledger.calls
        assert call.pieces >= 8
        assert 0.09 < call.largest_gap_s < call.seconds / 2
        assert 0.09 < call.first_byte_s < call.seconds - 0.6
        assert call.seconds >= 0.8


async def test_the_users_key_stays_here(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The endpoint gets it; the agent, the ledger and the logs do not, even where the endpoint quotes it."""
    caplog.set_level(logging.DEBUG)
    quoting = fail(401, message=f"Incorrect API key provided: {REAL_KEY}", headers={"x-key": REAL_KEY, "x-id": "1"})
    async with bench([quoting], tmp_path) as b:
        answer = await b.ask()
        (played,) = b.model.calls
        assert played.request is not None
        assert played.request.api_key == REAL_KEY
        assert answer.status_code == 401
        assert "x-key" not in answer.headers
        assert answer.headers["x-id"] == "1"
        key = b.session.key.get_secret_value()
        logged = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("httpcore"))
        written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        for secret in (REAL_KEY, key):
            assert secret not in answer.text
            assert secret.encode() not in written
            assert secret not in logged
            assert secret not in repr(b.session) + repr(b.gateway.endpoint) + str(b.session.trouble)
        assert key not in json.dumps(played.request.body)


async def test_only_calls_of_the_model_pass(tmp_path: Path) -> None:
    """The user's key is good for files, jobs and accounts as well; agents do not get there, however they spell it."""
    async with bench(SCRIPT, tmp_path) as b:
        root = b.gateway.url.removesuffix("/v1")
        paths = [
            "/files",
            "/fine_tuning/jobs",
            "/../admin",
            "/chat/completions/../../files",
            "/models/x",
            "//files",
            "",
        ]
        for method in ("GET", "POST", "DELETE", "PUT"):
            for path in paths:
                answer = await b.client.request(method, b.gateway.url + path)
                assert answer.status_code == 404, (method, path)
                assert answer.json()["error"]["type"] == "invalid_request_error"
        assert (await b.client.get(root + "/v2/models")).status_code == 404
        assert (await b.client.delete("/chat/completions")).status_code == 404
        other = await b.client.post("/chat/completions", json={"model": "expensive", "messages": [USER]})
        assert (other.status_code, other.json()["error"]["code"]) == (404, "model_not_found")
        assert b.model.calls == ()
        assert [model["id"] for model in (await b.client.get("/models")).json()["data"]] == ["scripted"]


async def test_headers_that_choose_an_account_do_not_pass(tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []

    async def app(scope, receive, send) -> None:
        seen.append({key.decode(): value.decode() for key, value in scope["headers"]})
        headers = [(b"set-cookie", b"account=1"), (b"openai-organization", b"mine"), (b"x-request-id", b"7")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

    from swe_sdk.agents.gateway.serving import HttpService, listen_on

    listener = listen_on()
    port = listener.getsockname()[1]
    async with HttpService(app).serve(listener), bench([], tmp_path) as b:
        endpoint = b.gateway.endpoint.model_copy(update={"base_url": f"http://127.0.0.1:{port}/api"})
        async with open_gateway(endpoint) as gateway, gateway.session("r.0") as session:
            async with client_of(gateway, session) as client:
                mine = {
                    "openai-organization": "other",
                    "cookie": "a=b",
                    "x-forwarded-for": "1.1.1.1",
                    "openai-beta": "x",
                }
                answer = await client.post("/chat/completions", json={"model": "scripted"}, headers=mine)
    (headers,) = seen
    assert headers["authorization"] == f"Bearer {REAL_KEY}"
    assert headers["openai-beta"] == "x"
    assert {"openai-organization", "cookie", "x-forwarded-for", "x-api-key"}.isdisjoint(headers)
    assert answer.headers["x-request-id"] == "7"
    assert {"set-cookie", "openai-organization"}.isdisjoint(answer.headers)


async def test_keys(tmp_path: Path) -> None:
    async with bench(SCRIPT, tmp_path) as b:
        key = b.session.key.get_secret_value()
        root = b.gateway.url.removesuffix("/v1")
        async with httpx.AsyncClient(trust_env=False) as anybody:
            for headers in ({}, {"authorization": "Bearer no"}, {"authorization": key}, {"x-api-key": REAL_KEY}):
                answer = await anybody.get(b.gateway.url + "/models", headers=headers)
                assert answer.status_code == 401
                assert answer.json()["error"]["type"] == "invalid_request_error", "OpenCode would try for ever"
            for headers in ({"authorization": f"Bearer {key}"}, {"authorization": f"bearer {key}"}, {"x-api-key": key}):
                assert (await anybody.get(b.gateway.url + "/models", headers=headers)).status_code == 200
            assert (await anybody.get(f"{root}/r/{key}/v1/models")).status_code == 200
            assert (await anybody.get(f"{root}/r/no/v1/models")).status_code == 401
        with pytest.raises(InputError, match="has a session"):
            async with b.gateway.session("task__a-1.0", 1):
                pass
        async with b.gateway.session("task__a-1.0", 2) as second:
            assert second.key != b.session.key
            assert b.gateway.sessions == (b.session, second)
        late = await b.client.get("/models", headers={"authorization": f"Bearer {second.key.get_secret_value()}"})
        assert late.status_code == 401


async def test_the_allowance_ends_harnesses(tmp_path: Path) -> None:
    """By calls and by tokens, with an error that no harness repeats; failed calls are free."""
    script = [say("x", before=(fail(500),), usage=Usage(prompt_tokens=60, completion_tokens=5))]
    async with bench(script, tmp_path, allowance=ModelAllowance(calls=2)) as b:
        assert [(await b.ask()).status_code for _ in range(5)] == [500, 200, 200, 403, 403]
        assert (await b.ask()).json()["error"] == {
            "message": "This attempt may make no further calls of the model.",
            "type": "invalid_request_error",
            "param": None,
            "code": "allowance_spent",
        }
        assert b.session.is_spent
        assert b.session.usage.calls == 2
        used = b.session.usage
        async with b.gateway.session("task__a-1.0", 2, allowance=ModelAllowance(tokens=200), used=used) as second:
            async with client_of(b.gateway, second) as client:
                body = {"model": "scripted", "messages": [USER]}
                statuses = [(await client.post("/chat/completions", json=body)).status_code for _ in range(3)]
                assert statuses == [200, 200, 403]
                assert second.usage.tokens == 4 * 65


async def test_calls_that_come_at_once_do_not_get_past_the_allowance(tmp_path: Path) -> None:
    async with bench([say("x", delay_s=0.1)], tmp_path, allowance=ModelAllowance(calls=3)) as b:
        statuses: list[int] = []

        async def ask() -> None:
            statuses.append((await b.ask()).status_code)

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(ask)
        assert sorted(statuses) == [200] * 3 + [403] * 5


async def test_what_is_no_request_is_refused(tmp_path: Path) -> None:
    async with bench(SCRIPT, tmp_path, settings=QUICK.model_copy(update={"request_bytes": 1 << 20})) as b:
        for body in (b"", b"[]", b"{}", b'{"model": 1}', b"[" * 100_000, b"\xff\xfe"):
            answer = await b.client.post("/chat/completions", content=body)
            assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
        answer = await b.client.post("/chat/completions", content=b"x" * (1 << 20) + b"x")
        assert answer.status_code == 413
        answer = await b.client.post("/messages", content=b"")
        assert answer.json()["type"] == "error"
        assert b.model.calls == ()
        assert (await b.ask()).status_code == 200


async def test_headers_that_would_break_the_endpoint_are_the_agents_own_failure(tmp_path: Path) -> None:
    """Else an agent that is about to fail could make it look as if its model had failed."""
    async with bench([say("hi")], tmp_path) as b:
        body = {"model": "scripted", "messages": [USER]}
        for headers in ({"anthropic-beta": "x" * 5000}, {f"anthropic-{n}": "x" * 100 for n in range(50)}):
            refused = await b.client.post("/chat/completions", json=body, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (431, "headers_too_large")
        assert b.session.trouble is None
        assert b.model.requests == ()
        fine = await b.client.post("/chat/completions", json=body, headers={"x-other": "x" * 20_000})
        assert fine.status_code == 200


async def test_whoever_shares_our_network_cannot_take_all_descriptors(tmp_path: Path) -> None:
    async with bench([say("hi")], tmp_path, settings=QUICK.model_copy(update={"connections": 4})) as b:
        flood = [await anyio.connect_tcp("127.0.0.1", b.gateway.port) for _ in range(20)]
        closed = 0
        for each in flood:
            with anyio.move_on_after(0.2):
                with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    await each.receive()
                closed += 1
        assert closed == 16
        for each in flood:
            await each.aclose()
        with anyio.fail_after(10):
            while (await _health(b.gateway.url)) != 200:
                await anyio.sleep(0.05)


async def _health(url: str) -> int:
    async with httpx.AsyncClient() as client:
        try:
            return (await client.get(f"{url.removesuffix('/v1')}/health")).status_code
        except httpx.TransportError:
            return 0


async def test_turns_at_the_endpoint_are_limited(tmp_path: Path) -> None:
    settings = QUICK.model_copy(update={"max_calls": 2})
    async with bench([say("x", delay_s=0.1)], tmp_path, settings=settings) as b:
        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(b.ask)
        spans = [(played.started_at, played.ended_at or 0.0) for played in b.model.calls]
        most = max(sum(start <= at < end for start, end in spans) for at, _ in spans)
        assert most == 2
        assert max(call.queued_s for call in b.ledger.calls) > 0.15


async def test_one_rollout_does_not_take_all_turns(tmp_path: Path) -> None:
    settings = QUICK.model_copy(update={"max_calls": 8, "calls_per_rollout": 2})
    async with bench([say("x", delay_s=0.3)], tmp_path, settings=settings) as b:
        async with b.gateway.session("modest.0") as modest, client_of(b.gateway, modest) as client:
            async with anyio.create_task_group() as tasks:
                for _ in range(10):
                    tasks.start_soon(b.ask)
                await b.model.wait_for_async(2)
                started = time.monotonic()
                await client.post("/chat/completions", json={"model": "scripted", "messages": [USER]})
                assert time.monotonic() - started < 0.6, "it had to wait behind the greedy one"


async def test_an_end_in_the_middle_of_calls_is_not_for_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with anyio.create_task_group() as tasks:
        async with bench([say("a b c", chunk_delay_s=0.2), say("x", gate="never")], tmp_path) as b:

            async def ask(**body: object) -> None:
                client = client_of(b.gateway, b.session)
                async with client:
                    with pytest.raises(httpx.TransportError):
                        await client.post("/chat/completions", json={"model": "scripted", **body})

            tasks.start_soon(lambda: ask(messages=[USER], stream=True))
            tasks.start_soon(lambda: ask(messages=[USER, {"role": "assistant", "content": "a"}]))
            await b.model.wait_for_async(2)
            await anyio.sleep(0.3)
        assert [call.end for call in b.ledger.calls] == ["client_gone"]
    assert [record for record in caplog.records if record.name.startswith("swe_sdk")] == []


async def test_a_response_of_100_mb_passes_and_is_not_kept_in_memory(tmp_path: Path) -> None:
    size = 100_000_000
    async with bench([Turn(padding_bytes=size)], tmp_path) as b:
        before, largest, received = _rss_kib(), 0, 0
        for stream in (False, True):
            body = {"model": "scripted", "messages": [USER], "stream": stream}
            async with b.client.stream("POST", "/chat/completions", json=body) as response:
                async for piece in response.aiter_raw():
                    received += len(piece)
                    largest = max(largest, _rss_kib())
        assert received > 2 * size
        assert largest - before < 60_000, f"memory grew by {largest - before} KiB"
        calls = b.ledger.calls
        assert [call.end for call in calls] == ["delivered"] * 2
        assert [b.ledger.body(call, "response").stat().st_size for call in calls] == [c.response_bytes for c in calls]
        assert calls[0].completion_tokens == 5


async def test_a_response_beyond_the_limit_is_cut_off(tmp_path: Path) -> None:
    settings = GatewaySettings(response_bytes=1_000_000)
    async with bench([Turn(padding_bytes=5_000_000)], tmp_path, settings=settings) as b:
        with pytest.raises(httpx.TransportError):
            await b.ask()
        await _rows(b.ledger, 1)
        (call,) = b.ledger.calls
        assert call.end == "too_large"
        assert call.response_bytes <= 1_000_000


async def test_a_client_that_hangs_up_frees_its_turn(tmp_path: Path) -> None:
    """What it had received is in the ledger; what it had not begun to receive is not."""
    settings = QUICK.model_copy(update={"max_calls": 1})
    script = {"scripted": [say("a b c d e f", chunk_delay_s=0.3), say("x", gate="never")]}
    async with bench(script, tmp_path, settings=settings) as b:
        body = {"model": "scripted", "messages": [USER], "stream": True}
        async with b.client.stream("POST", "/chat/completions", json=body) as response:
            await anext(response.aiter_raw())
        with anyio.move_on_after(0.3):
            await b.ask(messages=[USER, {"role": "assistant", "content": "a"}])
        await _rows(b.ledger, 1)
        with anyio.fail_after(5):
            while b.gateway.calls():
                await anyio.sleep(0.01)
        assert [call.end for call in b.ledger.calls] == ["client_gone"]
        await b.model.wait_for_async(lambda calls: all(call.end == "broken" for call in calls))


async def _rows(ledger: FolderLedger, count: int) -> None:
    with anyio.fail_after(5):
        while len(ledger.calls) < count:
            await anyio.sleep(0.01)


def _rss_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])
