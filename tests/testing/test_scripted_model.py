"""The scripted model: its three interfaces, its faults, its log; by plain HTTP, and by threads of clients at once."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.testing import ScriptedModel, act, fail, say, use
from swe_sdk.testing.scripted.requests import count_turns
from swe_sdk.testing.scripted.script import Role, ToolUse, Turn, Usage

TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
USER = {"role": "user", "content": "fix it"}
SCRIPT = [act(use("bash", command="ls"), use("bash", command="pwd"), text="look"), say("all done now")]


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(SCRIPT) as model:
        yield model


def post(at: ScriptedModel, path: str = "/chat/completions", /, **body: Any) -> httpx.Response:
    body = {"model": "scripted", "tools": TOOLS, **body}
    if path != "/responses":
        body.setdefault("messages", [USER])
    return httpx.post(at.url + path, json=body, timeout=20, headers={"authorization": "Bearer k"})


def events(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def test_a_reply_is_a_function_of_the_history(model: ScriptedModel) -> None:
    first = post(model).json()["choices"][0]
    assert first["finish_reason"] == "tool_calls"
    assert [json.loads(call["function"]["arguments"]) for call in first["message"]["tool_calls"]] == [
        {"command": "ls"},
        {"command": "pwd"},
    ]
    history = [USER, first["message"], {"role": "tool", "tool_call_id": "call_0_0", "content": "calc.py"}]
    second = post(model, messages=history).json()
    assert second["choices"][0]["message"] == {"role": "assistant", "content": "all done now"}
    assert second["usage"] == {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    assert post(model).json()["choices"][0] == first  # the same question again
    assert model.turns == [0, 1, 0]
    asked = model.requests[1].request
    assert asked is not None
    assert asked.says("calc.py")
    assert (asked.tools, asked.api_key, asked.api) == (("bash",), "k", "chat")


def test_a_streamed_reply_adds_up_to_the_whole_one(model: ScriptedModel) -> None:
    whole = post(model).json()["choices"][0]["message"]
    got = events(post(model, stream=True, stream_options={"include_usage": True}))
    deltas = [event["choices"][0]["delta"] for event in got if event["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == whole["content"]
    calls: dict[int, str] = {}
    for delta in deltas:
        for call in delta.get("tool_calls", []):
            calls[call["index"]] = calls.get(call["index"], "") + call["function"]["arguments"]
    assert [calls[index] for index in sorted(calls)] == [c["function"]["arguments"] for c in whole["tool_calls"]]
    assert got[-1]["usage"]["total_tokens"] == 15
    assert not any("usage" in event for event in events(post(model, stream=True))), "usage that nobody asked for"


def test_the_responses_interface(model: ScriptedModel) -> None:
    whole = post(model, "/responses", input="fix it").json()
    assert [item["type"] for item in whole["output"]] == ["message", "function_call", "function_call"]
    got = events(post(model, "/responses", input="fix it", stream=True))
    assert got[0]["type"] == "response.created"
    assert got[-1]["response"]["output"] == whole["output"]
    assert [event["sequence_number"] for event in got] == list(range(len(got)))
    done = {"type": "function_call_output", "call_id": "call_0_0", "output": "x"}
    second = post(model, "/responses", input=[USER, *whole["output"], done]).json()
    assert second["output"][0]["content"][0]["text"] == "all done now"
    assert model.turns == [0, 0, 1]


def test_the_messages_interface(model: ScriptedModel) -> None:
    whole = post(model, "/messages").json()
    assert [part["type"] for part in whole["content"]] == ["text", "tool_use", "tool_use"]
    assert whole["stop_reason"] == "tool_use"
    got = events(post(model, "/messages", stream=True))
    assert (got[0]["type"], got[-1]["type"]) == ("message_start", "message_stop")
    inputs = [e["delta"]["partial_json"] for e in got if e.get("delta", {}).get("type") == "input_json_delta"]
    assert [json.loads(text) for text in inputs] == [part["input"] for part in whole["content"][1:]]
    history = [USER, {"role": "assistant", "content": whole["content"]}, USER]
    assert post(model, "/messages", messages=history).json()["content"] == [{"type": "text", "text": "all done now"}]


def test_a_title_is_no_turn(model: ScriptedModel) -> None:
    assert post(model, tools=[]).json()["choices"][0]["message"]["content"] == "Scripted title"
    assert [played.kind for played in model.calls] == ["title"]
    assert model.requests == ()
    with ScriptedModel(SCRIPT, title=None) as strict:
        assert post(strict, tools=[]).json()["choices"][0]["message"]["content"] == "look"


def test_beyond_its_end_a_script_says_so(model: ScriptedModel) -> None:
    said = {"role": "assistant", "content": "x"}
    response = post(model, messages=[USER, said, USER, said, USER])
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "script_ended"
    assert response.json()["error"]["type"] == "invalid_request_error", "harnesses would try for ever"


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "invalid_request_error", None),
        (401, "invalid_request_error", "invalid_api_key"),
        (404, "invalid_request_error", "model_not_found"),
        (429, "rate_limit_error", "rate_limit_exceeded"),
        (500, "server_error", None),
        (503, "server_error", None),
    ],
)
def test_errors_have_the_types_of_the_original(status: int, kind: str, code: str | None) -> None:
    with ScriptedModel([fail(status, headers={"retry-after": "7"})]) as model:
        response = post(model)
    assert response.status_code == status
    assert (response.json()["error"]["type"], response.json()["error"]["code"]) == (kind, code)
    assert response.headers["retry-after"] == "7"


def test_faults_before_a_turn_are_played_once_for_each_history() -> None:
    with ScriptedModel([say("one", before=(fail(500), fail(429))), say("two")]) as model:
        other = [{"role": "user", "content": "another rollout"}]
        statuses = [post(model).status_code for _ in range(3)]
        assert [post(model, messages=other).status_code for _ in range(3)] == statuses == [500, 429, 200]
        assert [played.kind for played in model.calls] == ["fault", "fault", "turn"] * 2


@pytest.mark.parametrize("stream", [False, True])
def test_connections_are_cut(stream: bool) -> None:
    with ScriptedModel([say("x", before=(fail(cut="before_reply"), fail(cut="within_reply")))]) as model:
        with pytest.raises(httpx.RemoteProtocolError):
            post(model, stream=stream)
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            post(model, stream=stream)
        assert post(model, stream=stream).status_code == 200
        assert [played.end for played in model.calls] == ["broken", "broken", "delivered"]


def test_connections_are_refused_and_the_port_comes_back(model: ScriptedModel) -> None:
    port = model.port
    with model.refusing(), pytest.raises(httpx.ConnectError):
        post(model)
    assert post(model).status_code == 200
    assert model.port == port


def test_delays_and_gates() -> None:
    turns = [say("a b c d", delay_s=0.2, chunk_delay_s=0.05), say("late", gate="door")]
    with ScriptedModel(turns) as model:
        started = time.monotonic()
        post(model, stream=True)
        assert 0.2 + 5 * 0.05 <= time.monotonic() - started < 3
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(post, model, messages=[USER, {"role": "assistant", "content": "a"}])
            model.wait_for(2)
            time.sleep(0.1)
            assert not waiting.done()
            assert model.calls[-1].end == "pending"
            model.open_gate("door")
            assert waiting.result(10).status_code == 200
        with pytest.raises(TimeoutError, match="'turn', 1, 'delivered'"):
            model.wait_for(3, timeout_s=0.05)


def test_scripts_by_model_and_by_role() -> None:
    with ScriptedModel({"big": [say("I am big")], "small": [say("I am small")]}) as model:
        assert [item["id"] for item in httpx.get(model.url + "/models").json()["data"]] == ["big", "small"]
        assert post(model, model="small").json()["choices"][0]["message"]["content"] == "I am small"
        assert post(model, model="other").status_code == 404
        assert [played.role for played in model.calls] == ["small", ""]
    roles = [
        Role(lambda request: request.says("calc"), [say("calculator")], "calc"),
        Role(lambda _request: True, lambda request: say(f"turn {request.turn}"), "any"),
    ]
    with ScriptedModel(roles) as model:
        replies = [post(model, messages=[{"role": "user", "content": text}]).json() for text in ("calc", "x")]
        assert [reply["choices"][0]["message"]["content"] for reply in replies] == ["calculator", "turn 0"]


def test_a_key_is_required_where_one_is_given() -> None:
    with ScriptedModel([say("hello")], api_key="k") as model:
        assert post(model).status_code == 200
        assert httpx.post(model.url + "/chat/completions", json={}).status_code == 400
        denied = httpx.post(model.url + "/chat/completions", json={"model": "scripted", "messages": []})
        assert (denied.status_code, denied.json()["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"model": "m"}', b'{"model": 3, "messages": []}', b'{"model":"m","messages":[3]}']
)
def test_what_is_no_request_is_refused(model: ScriptedModel, body: bytes) -> None:
    response = httpx.post(model.url + "/chat/completions", content=body)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("not a request")
    assert model.calls[0].request is None


def test_malformed_arguments_usage_and_padding_are_sent_as_told() -> None:
    turn = Turn(
        tools=(ToolUse(name="bash", arguments='{"command": '),),
        usage=Usage(prompt_tokens=70, completion_tokens=8),
        padding_bytes=3_000_001,
    )
    with ScriptedModel([turn]) as model:
        reply = post(model).json()
        streamed = events(post(model, stream=True))
    assert reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"command": '
    assert reply["choices"][0]["message"]["content"] == "x" * 3_000_001
    assert sum(len(e["choices"][0]["delta"].get("content") or "") for e in streamed) == 3_000_001
    assert reply["usage"]["total_tokens"] == 78


def test_many_clients_at_once(model: ScriptedModel) -> None:
    barrier = threading.Barrier(32)

    def client(number: int) -> int:
        barrier.wait()
        return post(model, messages=[{"role": "user", "content": str(number)}]).status_code

    with ThreadPoolExecutor(32) as pool:
        assert set(pool.map(client, range(32))) == {200}
    assert len(model.requests) == 32
    assert all(played.end == "delivered" and played.ended_at is not None for played in model.calls)


def test_clients_that_hang_up_are_no_failure(model: ScriptedModel, caplog: pytest.LogCaptureFixture) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    for sent in (b"", b"GET", head, head + b"x" * 50_000):
        with socket.create_connection(("127.0.0.1", model.port)) as client:
            client.sendall(sent)
            time.sleep(0.05)
    assert post(model).status_code == 200
    assert [record.getMessage() for record in caplog.records if record.name.startswith("swe_sdk")] == []
    assert len(model.calls) == 1


@pytest.mark.anyio
async def test_async_use() -> None:
    async with ScriptedModel([say("hello")], title=None) as model, httpx.AsyncClient() as client:
        body = {"model": model.model, "messages": [USER]}
        assert (await client.post(model.url + "/chat/completions", json=body)).status_code == 200
        await model.wait_for_async(1)
    with pytest.raises(httpx.ConnectError):
        httpx.get(model.url + "/models")


ITEM = st.sampled_from(
    [
        {"role": "user", "content": "u"},
        {"type": "function_call_output", "call_id": "c", "output": "o"},
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": []},
        {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"},
    ]
)


@given(st.lists(ITEM, max_size=20))
def test_turns_of_the_responses_interface_are_runs_of_what_a_model_makes(items: list[dict[str, Any]]) -> None:
    others = ({"role": "user", "content": "u"}, {"type": "function_call_output", "call_id": "c", "output": "o"})
    letters = "".join("o" if item in others else "m" for item in items)
    assert count_turns(items) == len([run for run in letters.split("o") if run])


@given(st.lists(st.sampled_from(["user", "assistant", "tool"]), max_size=30))
def test_turns_of_the_chat_interface_are_messages_of_the_assistant(roles: list[str]) -> None:
    assert count_turns([{"role": role, "content": "x"} for role in roles]) == roles.count("assistant")
