"""The pure parts: token counts out of what passes by, errors put right, paths, bodies, endpoints."""

from __future__ import annotations

import json
import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.agents.gateway.endpoint import ModelEndpoint, is_loopback
from swe_sdk.agents.gateway.refusals import corrected, error_name, is_retryable
from swe_sdk.agents.gateway.routes import Asked, read_body, read_path, request_headers, response_headers
from swe_sdk.agents.gateway.settings import ModelAllowance, ModelUsage
from swe_sdk.agents.gateway.usage import UsageReader
from swe_sdk.errors import InputError

_KEY = "sk-of-nobody-else"
COUNTS = st.integers(min_value=0, max_value=10**9)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("usage"), inner, max_size=3),
    max_leaves=12,
)


def read(body: bytes, cuts: list[int]) -> tuple[int | None, int | None]:
    reader = UsageReader()
    ends = sorted({min(cut, len(body)) for cut in cuts})
    for start, end in zip([0, *ends], [*ends, len(body)], strict=True):
        reader.feed(body[start:end])
    return reader.prompt_tokens, reader.completion_tokens


@given(text=st.text(), noise=JSON, prompt=COUNTS, completion=COUNTS, cuts=st.lists(st.integers(0, 2000), max_size=40))
def test_usage_is_found_however_the_body_is_cut(
    text: str, noise: Any, prompt: int, completion: int, cuts: list[int]
) -> None:
    lie = '"usage": {"prompt_tokens": 1, "completion_tokens": 2}'
    body = {
        "tools": [{"parameters": {"properties": {"usage": {"type": "string", "description": text}}}}],
        "choices": [{"message": {"content": text + lie + json.dumps(lie)}}],
        "usage": {"details": noise, "prompt_tokens": prompt, "completion_tokens": completion, "more": {"a": [1]}},
        "prompt_token_ids": list(range(50)),
    }
    for ascii_only in (True, False):
        raw = json.dumps(body, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        assert read(raw, cuts) == (prompt, completion)


@given(prompt=COUNTS, completion=COUNTS, cuts=st.lists(st.integers(0, 400), max_size=20))
def test_usage_of_the_messages_interface_comes_in_two_parts(prompt: int, completion: int, cuts: list[int]) -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": prompt, "output_tokens": 1}}}
    end = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": completion}}
    body = "".join(f"event: {part['type']}\ndata: {json.dumps(part)}\n\n" for part in (start, end)).encode()
    assert read(body, cuts) == (prompt, completion)


def test_no_usage_is_no_count() -> None:
    for body in (b"", b'{"usage": null}', b'{"usage": {}}', b'{"usage": {"prompt_tokens": "7"}}', b'"usage": {' * 9000):
        assert read(body, [3, 10]) == (None, None)
    assert read(b'{"usage": {"prompt_tokens": true, "completion_tokens": -1}}', []) == (None, None)


def test_little_is_kept_of_what_passes_by() -> None:
    reader = UsageReader()
    for _ in range(200):
        reader.feed(b'{"usage": {"prompt_tokens": 5, "x": "' + b"y" * 100_000)
        assert len(reader._rest) <= 32 << 10


@given(status=st.integers(400, 599), body=st.binary() | JSON.map(lambda value: json.dumps({"error": value}).encode()))
def test_every_error_gets_a_form_and_no_error_tells_the_key(status: int, body: bytes) -> None:
    secret = "sk-secret"
    for raw in (body, body + secret.encode(), json.dumps({"error": {"message": f"bad {secret}"}}).encode()):
        for route in ("/chat/completions", "/messages"):
            fixed = corrected(status, raw, route, (secret,))
            error = json.loads(fixed)["error"]
            assert isinstance(error["message"], str)
            assert secret.encode() not in fixed
            if not is_retryable(status):
                assert error["type"] not in (None, "server_error", "api_error")
            assert isinstance(error_name(fixed), str)


def test_a_sound_error_is_not_touched() -> None:
    body = b'{ "error":{"message": "m", "type":"invalid_request_error" , "code":"x"}, "more": 1}'
    assert corrected(400, body, "/responses") is body
    assert error_name(body) == "x"
    server = b'{"error": {"message": "m", "type": "server_error"}}'
    assert corrected(500, server, "/responses") is server
    assert json.loads(corrected(401, server, "/responses"))["error"]["type"] == "invalid_request_error"
    assert json.loads(corrected(401, server, "/messages"))["error"]["type"] == "authentication_error"


@pytest.mark.parametrize("status", [401, 500])
def test_a_key_that_is_written_with_escapes_is_struck_out(status: int) -> None:
    body = rb'{"error": {"message": "bad key a\/\u0062+c", "type": "server_error"}}'
    told = json.loads(corrected(status, body, "/responses", ("a/b+c",)))
    assert told["error"]["message"] == "bad key [secret]"


@pytest.mark.parametrize(
    ("path", "route", "key"),
    [
        ("/v1/models", "/models", None),
        ("/r/abc/v1/chat/completions", "/chat/completions", "abc"),
        ("/r//v1/models", "/models", ""),
    ],
)
def test_paths(path: str, route: str, key: str | None) -> None:
    target = read_path(path)
    assert target is not None
    assert (target.route, target.key) == (route, key)


@given(st.text())
def test_other_paths_lead_nowhere(path: str) -> None:
    assert read_path(path) is None or path.startswith(("/v1/", "/r/"))
    assert read_path("/v1") is None
    assert read_path("/r/key") is None


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_bodies_never_raise(body: bytes) -> None:
    assert read_body(body) is None or isinstance(read_body(body), Asked)


def test_bodies() -> None:
    assert read_body(b'{"model": "m", "stream": true}') == Asked("m", True)
    assert read_body(b'{"model": "m", "stream": "yes"}') == Asked("m", False)
    assert read_body(b'{"model": "m", "messages": [{"model": "x", "Model": "y"}]}') == Asked("m", False)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "dear", "model": "m"}',
        b'{"model": "m", "Model": "dear"}',
        b'{"MODEL": "m"}',
        b'[["model", "m"]]',
        '{"model": "m"}'.encode("utf-16"),
    ],
)
def test_bodies_that_an_endpoint_might_read_otherwise(body: bytes) -> None:
    assert read_body(body) is None


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=20).map(bytes.lower), st.binary(max_size=20))))
def test_headers_that_were_not_asked_for_do_not_pass(headers: list[tuple[bytes, bytes]]) -> None:
    sent = dict(request_headers(headers, "real", "/messages"))
    assert sent[b"authorization"] == b"Bearer real"
    assert sent[b"x-api-key"] == b"real"
    known = {b"authorization", b"x-api-key", b"accept-encoding", b"content-type", b"accept", b"user-agent"}
    assert {n for n in sent if not n.startswith(b"anthropic-")} <= known | {b"idempotency-key", b"openai-beta"}
    assert dict(request_headers(headers, None, "/models")).get(b"authorization") is None


@pytest.mark.parametrize("value", [b"caf\xe9", b"a\x01b", b"\x7f", b"tab\t"])
def test_headers_that_some_servers_stumble_over_do_not_pass(value: bytes) -> None:
    assert b"user-agent" not in dict(request_headers([(b"user-agent", value)], None, "/messages"))


def test_response_headers() -> None:
    given_ = [
        (b"Content-Type", b"a"),
        (b"Content-Length", b"3"),
        (b"Set-Cookie", b"c"),
        (b"X-Echo", b"my secret"),
        (b"X", b"1"),
    ]
    assert response_headers(given_, ("secret",)) == [(b"content-type", b"a"), (b"x", b"1")]  # fmt: skip


@pytest.mark.parametrize(
    "url",
    ["", "api.example.com/v1", "ftp://x/v1", "https://", "https://user:pw@x/v1", "http://x?k=1", "http://x:99999", 3],
)
def test_endpoints_that_are_none(url: str) -> None:
    with pytest.raises(InputError, match="base_url") as error:
        ModelEndpoint(base_url=url, model="m")
    assert "pw@" not in str(error.value)
    assert "swe.ModelEndpoint(" in error.value.remedy


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"model": ""}, "model"), ({"model": 3}, "model"), ({}, "model"), ({"model": "m", "key": _KEY}, "key")],
)
def test_what_is_wrong_with_an_endpoint_is_named_and_its_key_is_not(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=rf"\b{named}: ") as error:
        ModelEndpoint(**{"base_url": "https://x/v1", "api_key": _KEY, **fields})
    assert _KEY not in "".join(traceback.format_exception(error.value))


def test_endpoints() -> None:
    endpoint = ModelEndpoint(base_url="https://api.example.com/v1/", model="m", api_key="secret", other_models=("n",))
    assert endpoint.base_url == "https://api.example.com/v1"
    assert endpoint.models == ("m", "n")
    assert "secret" not in repr(endpoint) + endpoint.model_dump_json()


@pytest.mark.parametrize(
    ("url", "is_it"),
    [
        ("http://127.0.0.1:1/v1", True),
        ("http://127.8.8.8/v1", True),
        ("http://localhost/v1", True),
        ("http://a.localhost/v1", True),
        ("http://[::1]:80/v1", True),
        ("http://0.0.0.0/v1", True),
        ("http://10.0.0.1/v1", False),
        ("https://api.example.com/v1", False),
        ("http://localhost.example.com/", False),
    ],
)
def test_loopback(url: str, is_it: bool) -> None:
    assert is_loopback(url) is is_it


@given(calls=COUNTS, used=COUNTS, tokens=COUNTS, spent=COUNTS, under_way=st.integers(0, 10))
def test_an_allowance(calls: int, used: int, tokens: int, spent: int, under_way: int) -> None:
    usage = ModelUsage(calls=used, prompt_tokens=spent)
    assert usage.is_within(ModelAllowance())
    assert usage.is_within(ModelAllowance(calls=calls), under_way) == (used + under_way < calls)
    assert usage.is_within(ModelAllowance(tokens=tokens), under_way) == (spent < tokens)
    assert usage.plus(None, None).calls == used + 1
    assert usage.plus(3, 4).tokens == spent + 7
