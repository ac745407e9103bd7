"""Whole episodes over three processes, in both variants."""

from __future__ import annotations

import json
from typing import Any

import pytest

from swe_sdk.testing import ScriptedModel, say
from tests.server.gym.conftest import StartGym
from tests.server.gym.gym_servers import GymProcess, Post, boxes_of, episode_body, seed_body
from tests.server.serving import NAME


@pytest.fixture(scope="module")
def gold_environment(start_gym: StartGym, resources: GymProcess, gold_agent: GymProcess) -> GymProcess:
    return start_gym("environment", "--resources-url", resources.url, "--agent-url", gold_agent.url)


@pytest.fixture(scope="module")
def noop_environment(start_gym: StartGym, resources: GymProcess, noop_agent: GymProcess) -> GymProcess:
    return start_gym("environment", "--resources-url", resources.url, "--agent-url", noop_agent.url)


def test_a_turn_from_seed_to_verdict(gold_environment: GymProcess) -> None:
    """Three processes; the gold patch comes out of the lent sandbox, and is graded in another one."""
    reply = Post(gold_environment, "/run", episode_body("turn-gold", NAME, prompt="Mend it.")).result()
    verification = reply["result"]["verification"]
    assert (verification["reward"], verification["mask_sample"], verification["resolved"]) == (1.0, False, True)
    assert verification["patch_source"] == "sandbox"
    assert "answer = 42" in verification["response"]["metadata"]["model_patch"]
    assert verification["responses_create_params"]["input"][0]["content"] == "Mend it."
    assert reply["episode_id"] == {"rollout_id": "turn-gold", "attempt": 0}
    assert reply["failure"] is None
    assert boxes_of(gold_environment.home) == []


def test_a_turn_of_an_agent_that_does_nothing(noop_environment: GymProcess) -> None:
    verification = Post(noop_environment, "/run", episode_body("turn-noop", NAME)).result()["result"]["verification"]
    assert (verification["reward"], verification["mask_sample"], verification["patch_exists"]) == (0.0, False, False)
    assert boxes_of(noop_environment.home) == []


def legacy_row(**extra: Any) -> dict[str, Any]:
    asked = {"input": [{"role": "user", "content": "Mend it."}], "metadata": {"instance_id": NAME}}
    return {"responses_create_params": asked, **extra}


def test_a_legacy_row_becomes_a_flat_row(gold_agent: GymProcess, noop_agent: GymProcess) -> None:
    row = Post(gold_agent, "/run", legacy_row(_ng_task_index=7)).result()
    assert (row["reward"], row["resolved"], row["mask_sample"], row["_ng_task_index"]) == (1.0, True, False, 7)
    assert row["model_patch"] == row["response"]["metadata"]["model_patch"]
    assert row["agent_timed_out"] is False
    assert row["openhands_run_time"] > 0
    assert row["per_turn_metrics"]
    assert Post(noop_agent, "/run", legacy_row()).result()["reward"] == 0.0
    assert boxes_of(gold_agent.home) == []


def test_many_at_once(gold_environment: GymProcess) -> None:
    posts = [Post(gold_environment, "/run", episode_body(f"many-{number}", NAME)) for number in range(6)]
    assert [post.result()["result"]["verification"]["reward"] for post in posts] == [1.0] * 6
    assert boxes_of(gold_environment.home) == []


def test_an_attempt_runs_once(gold_environment: GymProcess) -> None:
    posts = [Post(gold_environment, "/run", episode_body("twice", NAME)) for _ in range(2)]
    for post in posts:
        post.join(60)
    answers = sorted((post.answer for post in posts if post.answer), key=lambda answer: answer.status_code)
    assert [answer.status_code for answer in answers] in ([200, 409], [200, 200]), "at once, or one after the other"
    assert answers[0].json()["result"]["verification"]["reward"] == 1.0
    assert boxes_of(gold_environment.home) == []


def test_a_task_that_there_is_not(gold_environment: GymProcess) -> None:
    verification = Post(gold_environment, "/run", episode_body("unknown", "nobody__knows-1")).result()["result"]
    mask = verification["verification"]["mask"]
    assert (mask["kind"], mask["stage"], "nobody__knows-1" in mask["reason"]) == ("invalid_task", "seed", True)


@pytest.mark.parametrize("rollout", ["a/b", "", "x-a1", "..", "\u00e9"])
def test_rollouts_whose_name_no_path_can_hold(gold_environment: GymProcess, rollout: str) -> None:
    with gold_environment.client() as client:
        answer = client.post("/run", json=episode_body(rollout, NAME))
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")


def test_paths_that_name_no_rollout(gold_agent: GymProcess) -> None:
    with gold_agent.client() as client:
        for name, status in (("%C3%A9", 422), ("a%2Fb", 404), ("%20", 422)):
            answer = client.post(f"/ng-rollout/{name}/run", json=legacy_row())
            assert (answer.status_code, "error" in answer.json()) == (status, True), name


def test_the_agents_side_never_sees_the_private_half(resources: GymProcess) -> None:
    with resources.client() as client:
        told = client.post("/seed_session", json=seed_body("private", NAME))
    assert told.status_code == 200
    for secret in ("check::answer", "tests/check.sh", "answer = 42", "fail_to_pass", "test_patch"):
        assert secret not in told.text
    body = {
        "resources_session_id": told.json()["resources_session_id"],
        "episode_id": {"rollout_id": "private", "attempt": 0},
    }
    with resources.client() as client:
        assert client.post("/close_session", json=body).status_code == 200


def test_a_program_in_the_box_reaches_the_agent_servers_model(start_gym: StartGym, resources: GymProcess) -> None:
    """Through the owner of the sandbox, which has no network; the agent server asks the box whether it does."""
    with ScriptedModel([say("never asked")]) as model:
        check = "python3 -c 'import urllib.request as u, os; u.urlopen(\"http://127.0.0.1:46280/health\").read()'"
        settings = {"egress": "model", "actions": [{"do": "exec", "command": check, "check": True}]}
        at = ("--model", "scripted", "--base-url", model.url)
        agent = start_gym("agent", "--agent", "scripted", "--agent-settings", json.dumps(settings), *at)
        environment = start_gym("environment", "--resources-url", resources.url, "--agent-url", agent.url)
        verification = Post(environment, "/run", episode_body("egress", NAME)).result()["result"]["verification"]
    assert verification["mask"] is None, verification["mask"]
    assert verification["outcome"]["evidence"]["agent"]["reason"] == "done"
