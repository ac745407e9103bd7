"""What a server answers: verdicts, echoes, errors that say what to do, and how it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from swe_sdk.model.outcome import Outcome
from swe_sdk.server.models import GradeRequest, VerifyResponse
from tests.grading.tiny import GOLD, UNAPPLIABLE, WRONG
from tests.server.conftest import StartServer
from tests.server.serving import NAME, TOKEN, ServerProcess, post_body, row_without_source


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def told(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture(scope="module")
def schema(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def check(answer: httpx.Response, model: str, schema: dict[str, Any]) -> None:
    jsonschema.validate(answer.json(), {"$ref": f"#/components/schemas/{model}", "components": schema["components"]})


# -- verdicts ----------------------------------------------------------------------------------------------------------

VERDICTS = [
    (GOLD, {"reward": 1.0, "resolved": True, "status": "resolved", "patch_exists": True, "patch_applied": True}),
    (WRONG, {"reward": 0.0, "resolved": False, "status": "unresolved", "patch_exists": True, "patch_applied": True}),
    (UNAPPLIABLE, {"reward": 0.0, "status": "unresolved", "patch_exists": True, "patch_applied": False}),
    (b"", {"reward": 0.0, "status": "unresolved", "patch_exists": False, "patch_applied": False}),
]


@pytest.mark.parametrize(("patch", "expected"), VERDICTS)
def test_verdicts(client: httpx.Client, schema: dict[str, Any], patch: bytes, expected: dict[str, Any]) -> None:
    answer = client.post("/verify", json=post_body({"instance_id": NAME}, patch.decode()))
    verdict = told(answer)
    assert expected.items() <= verdict.items()
    unmasked = {"mask_sample": False, "eval_error": False, "error_kind": None, "failure_kind": None, "mask": None}
    assert {**unmasked, "failure_reason": None, "instance_id": NAME}.items() <= verdict.items()
    assert (verdict["patch_source"], verdict["task_source"]) == ("metadata", "loaded")
    assert (verdict["reason"] == "") is verdict["resolved"]
    check(answer, "VerifyResponse", schema)
    VerifyResponse.model_validate(verdict)


def test_the_request_is_echoed_to_the_last_field(client: httpx.Client) -> None:
    odd = {"ü\u2028\x00": [1, 1.5, 1e300, 2**70, -0.0, None, True, {"": ""}], "reward": "mine", "_ng_rollout_id": "x"}
    body = post_body({"instance_id": NAME, "more": {"x": [1]}}, GOLD.decode(), **odd)
    answer = told(client.post("/verify", json=body))
    assert answer["reward"] == 1.0
    assert {name: answer[name] for name in body if name != "reward"} == {k: v for k, v in body.items() if k != "reward"}
    assert json.dumps(answer["response"]) == json.dumps(body["response"])


def test_a_fenced_block_is_a_patch_and_a_bare_one_is_none(client: httpx.Client) -> None:
    for fence, source, reward in (("```diff", "fence", 1.0), ("```", "none", 0.0)):
        text = f"Mended:\n{fence}\n{GOLD.decode()}```\n"
        answer = told(client.post("/verify", json=post_body({"instance_id": NAME}, text=text)))
        assert (answer["patch_source"], answer["reward"]) == (source, reward)
        assert answer["patch_exists"] is (source == "fence")


def test_grade_answers_an_outcome(client: httpx.Client, schema: dict[str, Any]) -> None:
    body = GradeRequest.of(NAME, GOLD).model_dump_json()
    answer = client.post("/grade", content=body)
    outcome = Outcome.model_validate(told(answer)["outcome"])
    assert outcome.resolved
    assert outcome.tests.fail_to_pass == {"check::answer": "PASSED"}
    assert outcome.artifacts.keys() == {"log", "patch", "outcome"}
    check(answer, "GradeResponse", schema)


def test_both_ways_give_the_same_verdict_of_the_same_key(client: httpx.Client) -> None:
    verdict = told(client.post("/verify", json=post_body({"instance_id": NAME}, WRONG.decode())))
    outcome = told(client.post("/grade", content=GradeRequest.of(NAME, WRONG).model_dump_json()))["outcome"]
    assert (verdict["key"], verdict["reason"], verdict["timings_s"]) == (
        outcome["key"],
        outcome["reason"],
        outcome["timings_s"],
    )


def test_a_task_that_cannot_be_graded_is_masked_and_never_null(client: httpx.Client, schema: dict[str, Any]) -> None:
    row = {
        "instance_id": "there__is-none",
        "family": "swe-bench",
        "git": {"url": "https://example.invalid/x.git", "commit": "1" * 40},
        "test_command": "true",
        "log_parser": "parse_log_pytest",
        "FAIL_TO_PASS": ["a"],
        "PASS_TO_PASS": [],
    }
    for extra, kind in (({}, "swe_sdk:environment_failed"), ({"FAIL_TO_PASS": []}, "swe_sdk:invalid_task")):
        answer = client.post("/verify", json=post_body({**row, **extra}, "x\n"))
        verdict = told(answer)
        shown = {name: verdict[name] for name in ("reward", "mask_sample", "eval_error", "failure_kind", "status")}
        expected = {"reward": 0.0, "mask_sample": True, "eval_error": True, "failure_kind": kind, "status": "masked"}
        assert shown == expected, verdict
        assert verdict["error_kind"] == ("sandbox" if kind.endswith("failed") else "eval_error")
        assert verdict["failure_reason"] == verdict["mask"]["reason"] == verdict["reason"] != ""
        assert verdict["task_source"] == "request"
        check(answer, "VerifyResponse", schema)


def test_a_request_has_its_own_time_for_its_tests(client: httpx.Client) -> None:
    body = post_body({"instance_id": "tiny__slow-1"}, GOLD.decode(), eval_timeout_s=0.2)
    verdict = told(client.post("/verify", json=body))
    assert (verdict["status"], verdict["flags"]) == ("unresolved", ["tests_timed_out"])
    assert told(client.post("/verify", json={**body, "eval_timeout_s": 60}))["reward"] == 1.0


def test_a_zero_is_held_against_the_gold_patch(client: httpx.Client) -> None:
    for control, patch, expected in (
        ("off", WRONG, None),
        ("unresolved", GOLD, None),
        ("unresolved", WRONG, "resolved"),
    ):
        body = post_body({"instance_id": NAME}, patch.decode(), control=control)
        verdict = told(client.post("/verify", json=body))
        assert (verdict["control"] and verdict["control"]["status"]) == expected
    slow = post_body({"instance_id": "tiny__slow-1"}, WRONG.decode(), control="always", eval_timeout_s=0.2)
    verdict = told(client.post("/verify", json=slow))
    assert (verdict["status"], verdict["control"]["status"]) == ("masked", "unresolved")
    assert verdict["mask"]["kind"] == "invalid_task"


# -- errors ------------------------------------------------------------------------------------------------------------

NOT_JSON = [
    b"",
    b"{",
    b"nul",
    b'{"a": NaN}',
    b'{"a": 1e999}',
    b'{"a": -1' + b"0" * 400 + b".0}",
    b'{"a": Infinity}',
    b"\xff\xfe",
    b'"\\ud800"',
    b"[" * 100_000,
    b"1" * 5000 + b"x",
]


@pytest.mark.parametrize("body", NOT_JSON, ids=lambda body: repr(body[:12]))
@pytest.mark.parametrize("path", ["/verify", "/grade", "/seed_session"])
def test_what_is_no_json(client: httpx.Client, path: str, body: bytes) -> None:
    answer = client.post(path, content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_json")


WRONG_BODIES: list[tuple[str, Any, str]] = [
    ("/verify", "text", "the request"),
    ("/verify", [], "the request"),
    ("/verify", 12345678901234567890123, "the request"),
    ("/verify", {}, "responses_create_params"),
    ("/verify", {**post_body({}), "response": None}, "response"),
    ("/verify", {**post_body({}), "response": {"output": {}}}, "response.output"),
    ("/verify", {**post_body({}), "response": {"metadata": []}}, "response.metadata"),
    ("/verify", post_body({}), "no instance_id"),
    ("/verify", post_body({"instance_id": "no-such"}), "no recipe"),
    ("/verify", post_body({"instance_id": NAME}, eval_timeout_s=0), "eval_timeout_s"),
    ("/verify", post_body({"instance_id": NAME}, eval_timeout_s=1e9), "eval_timeout_s"),
    ("/verify", post_body({"instance_id": NAME, "eval_timeout_s": "soon"}), "eval_timeout_s"),
    ("/verify", post_body({"instance_id": NAME}, control="maybe"), "control"),
    ("/verify", {**post_body({"instance_id": NAME}), "response": {"metadata": {"model_patch": 1}}}, "model_patch"),
    ("/grade", {}, "instance_id or task"),
    ("/grade", {"instance_id": NAME, "task": {}}, "instance_id or task"),
    ("/grade", {"instance_id": NAME, "patch": "no base64"}, "patch"),
    ("/grade", {"instance_id": NAME, "colour": "red"}, "colour"),
    ("/grade", {"task": {}}, "task.instance_id"),
    ("/seed_session", [], "the request"),
    ("/seed_session", {"resources_session_id": ""}, "resources_session_id"),
]


@pytest.mark.parametrize(("path", "body", "names"), WRONG_BODIES)
def test_what_is_wrong_is_named(client: httpx.Client, schema: dict[str, Any], path: str, body: Any, names: str) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "invalid_request"
    assert names in error["detail"]
    check(answer, "ErrorResponse", schema)


@pytest.mark.parametrize("field", ["tags", "git", "FAIL_TO_PASS", "problem_statement", "env"])
@pytest.mark.parametrize(
    "value", ["[" * 400 + "]" * 400, "[" * 5000 + "]" * 5000, '"\\ud800"', '{"\\ud800": "\\ud800"}']
)
def test_rows_within_texts_that_no_text_can_hold(client: httpx.Client, field: str, value: str) -> None:
    """The row of a task is a JSON text of its own, with odd content of its own."""
    good = {**row_without_source("odd__row-1"), "git": {"url": "https://example.invalid/x", "commit": "1" * 40}}
    row = json.dumps({**good, field: "HERE"}).replace('"HERE"', value)
    answer = client.post("/verify", json=post_body({"instance_id": "odd__row-1", "instance_dict": row}))
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")


def test_nesting_and_numbers_beyond_reason(client: httpx.Client) -> None:
    deep: Any = 1
    for _ in range(150):
        deep = {"a": [deep]}
    body = json.dumps(post_body({"instance_id": NAME}, deep=1))
    for extra in (json.dumps(deep), "9" * 4000, "9" * 5000, "[" * 199 + "]" * 199):
        answer = client.post("/verify", content=body.replace('"deep": 1', f'"deep": {extra}'))
        assert answer.status_code in (200, 400), answer.text[:300]


def test_paths_and_methods_that_there_are_not(client: httpx.Client, schema: dict[str, Any]) -> None:
    lost, wrong = client.get("/nowhere"), client.get("/verify")
    assert (lost.status_code, lost.json()["error"]["code"]) == (404, "not_found")
    assert (wrong.status_code, wrong.json()["error"]["code"], wrong.headers["allow"]) == (
        405,
        "method_not_allowed",
        "POST",
    )
    for answer in (lost, wrong, client.post("/verify/"), client.post("/verify%2f")):
        check(answer, "ErrorResponse", schema)


def test_compressed_bodies_are_not_taken(client: httpx.Client) -> None:
    answer = client.post("/verify", content=b"x", headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_encoding")


# -- around ------------------------------------------------------------------------------------------------------------


def test_sessions_of_nemo_gym_keep_nothing(client: httpx.Client) -> None:
    seed = {"resources_session_id": "s-1", "episode_id": {"rollout_id": "r"}, "task_id": "t", "task_data": {}}
    assert told(client.post("/seed_session", json=seed)) == {"resources_session_id": "s-1"}
    assert told(client.post("/seed_session", json={})) == {}
    assert told(client.post("/close_session", json=seed)) == {"resources_session_id": "s-1"}
    assert told(client.get("/reverify_mode")) == "stateless"


def test_health(client: httpx.Client, server: ServerProcess, schema: dict[str, Any]) -> None:
    answer = client.get("/health")
    assert {"status": "ok", "provider": "local", "tasks": 2, "posts": 0}.items() <= told(answer).items()
    check(answer, "HealthResponse", schema)


def test_metrics_count_what_was_answered(client: httpx.Client, server: ServerProcess) -> None:
    names = ['swe_sdk_outcomes_total{status="resolved"}', 'swe_sdk_responses_total{path="/verify",status="200"}']
    names += ["swe_sdk_post_seconds_count", "swe_sdk_evaluation_seconds_count"]
    before = [server.metric(name) for name in names]
    told(client.post("/verify", json=post_body({"instance_id": NAME}, GOLD.decode())))
    assert [server.metric(name) for name in names] == [value + 1 for value in before]
    assert server.metric("swe_sdk_posts") == 0
    text = client.get("/metrics").text
    assert 'swe_sdk_masks_total{kind="invalid_task",stage=' in text
    assert NAME not in text


def test_a_server_with_a_token_wants_to_see_it(start: StartServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    server = start("--token-file", str(tmp_path / "token"))
    wrong = ["", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer \xff"]
    with server.client() as client:
        assert client.get("/health").status_code == 200
        for shown in wrong:
            for call in (("POST", "/verify"), ("POST", "/grade"), ("POST", "/seed_session"), ("GET", "/metrics")):
                answer = client.request(*call, headers={"Authorization": shown.encode("latin-1")})
                assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized"), (shown, call)
                assert answer.headers["www-authenticate"] == "Bearer"
        assert client.post("/verify", json=post_body({"instance_id": NAME})).status_code == 401
        document = client.get("/openapi.json").json()
        assert document["paths"]["/verify"]["post"]["security"] == [{"token": []}]
    with server.client(TOKEN) as client:
        assert told(client.post("/verify", json=post_body({"instance_id": NAME}, GOLD.decode())))["reward"] == 1.0
        assert client.get("/metrics").status_code == 200
        lower = client.post("/seed_session", json={}, headers={"Authorization": f"bearer {TOKEN}"})
        assert lower.status_code == 200
    assert TOKEN not in server.log.read_text()


@pytest.mark.parametrize("path", ["/verify", "/grade", "/seed_session"])
def test_pages_of_browsers_may_not_post(client: httpx.Client, path: str) -> None:
    """A server without a token, on somebody's own machine: any page that he looks at could have code run there."""
    own = str(client.base_url).rstrip("/")
    for origin in ("http://evil.example", "null", own):
        answer = client.post(path, content=b"{}", headers={"Origin": origin, "Content-Type": "text/plain"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized"), origin
