"""What the servers say of themselves: documents that hold, replies of the expected shape, and never a 500."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.server.gym.conftest import StartGym
from tests.server.gym.gym_servers import GymProcess, Post, episode_body, seed_body
from tests.server.serving import NAME, TOKEN

_EXAMPLES = int(os.environ.get("SWE_SDK_EXAMPLES") or 4)

_EPISODE = {
    "type": "object",
    "required": ["rollout_id", "attempt"],
    "additionalProperties": False,
    "properties": {"rollout_id": {"type": "string"}, "attempt": {"type": "integer", "minimum": 0}},
}
_ACCESS = {
    "type": "object",
    "required": ["connection", "workdir"],
    "additionalProperties": False,
    "properties": {
        "workdir": {"type": "string"},
        "connection": {
            "type": "object",
            "required": ["kind", "provider_config_ref", "descriptor"],
            "additionalProperties": False,
            "properties": {
                "kind": {"const": "direct"},
                "provider_config_ref": {"type": "string"},
                "descriptor": {"type": "object"},
            },
        },
    },
}
_SEED_REPLY = {
    "type": "object",
    "required": ["resources_session_id"],
    "additionalProperties": False,
    "properties": {
        "resources_session_id": {"type": "string"},
        "resources_tools": {
            "type": "object",
            "required": ["server_name", "headers"],
            "properties": {"url_path": {"const": "/mcp"}, "transport": {"const": "http"}},
        },
        "sandbox_access": _ACCESS,
    },
}
_VERIFICATION = {
    "type": "object",
    "required": ["responses_create_params", "response", "reward", "mask_sample", "failure_kind", "failure_reason"],
    "properties": {
        "responses_create_params": {"type": "object", "required": ["input"]},
        "response": {
            "type": "object",
            "required": [
                "id",
                "object",
                "created_at",
                "model",
                "output",
                "parallel_tool_calls",
                "tool_choice",
                "tools",
            ],
            "properties": {"metadata": {"type": "object", "additionalProperties": {"type": "string"}}},
        },
        "reward": {"type": "number"},
        "mask_sample": {"type": "boolean"},
        "failure_kind": {"type": ["string", "null"]},
        "failure_reason": {"type": ["string", "null"]},
        "resolved": {"type": "boolean"},
        "patch_exists": {"type": "boolean"},
        "patch_applied": {"type": "boolean"},
        "eval_error": {"type": "boolean"},
        "error_kind": {"enum": [None, "sandbox", "timeout", "eval_timeout", "eval_error"]},
        "instance_id": {"type": "string"},
    },
}
_EPISODE_REPLY = {
    "type": "object",
    "required": ["episode_id", "task_id", "result", "failure"],
    "additionalProperties": False,
    "properties": {
        "episode_id": _EPISODE,
        "task_id": {"type": "object", "required": ["taskset", "task_id"]},
        "result": {
            "type": "object",
            "required": ["verification"],
            "additionalProperties": False,
            "properties": {"verification": _VERIFICATION, "agent_observations": {"type": ["object", "null"]}},
        },
        "failure": {"type": "null"},
    },
}
_FROZEN = """
resolved patch_exists model_patch agent_error_kind agent_timed_out eval_timed_out oom_killed eval_oom_killed
agent_peak_rss_mb eval_peak_rss_mb ray_queue_time openhands_run_time generation_start_timestamp
evaluation_start_timestamp per_turn_metrics generation_apptainer_spinup_time create_runtime_time
connect_to_runtime_time initialize_runtime_time total_command_exec_time total_model_call_time
final_eval_apptainer_spinup_time final_eval_time instance_config mask_sample
"""
_FLAT_ROW = {**_VERIFICATION, "required": sorted({*_VERIFICATION["required"], *_FROZEN.split()})}


@pytest.fixture(scope="module")
def environment(start_gym: StartGym, resources: GymProcess, noop_agent: GymProcess) -> GymProcess:
    return start_gym("environment", "--resources-url", resources.url, "--agent-url", noop_agent.url)


def test_replies_are_of_nemo_gyms_shapes(
    resources: GymProcess, environment: GymProcess, noop_agent: GymProcess
) -> None:
    """Schemas written from NeMo Gym's types, which need a newer Python than ours; none of them is ours."""
    with resources.client() as client:
        seed = client.post("/seed_session", json=seed_body("shapes", NAME)).json()
        jsonschema.validate(seed, _SEED_REPLY)
        closed = client.post(
            "/close_session",
            json={"resources_session_id": seed["resources_session_id"], "episode_id": {"rollout_id": "shapes"}},
        )
        assert closed.json() == {"resources_session_id": seed["resources_session_id"]}
    reply = Post(environment, "/run", episode_body("shapes-run", NAME, prompt="Mend it.")).result()
    jsonschema.validate(reply, _EPISODE_REPLY)
    asked = {"input": "Mend it.", "metadata": {"instance_id": NAME}}
    jsonschema.validate(Post(noop_agent, "/run", {"responses_create_params": asked}).result(), _FLAT_ROW)


def test_replies_are_what_the_document_says(resources: GymProcess, environment: GymProcess) -> None:
    for server, path, body in (
        (resources, "/ng-rollout/{capture_key}/seed_session", seed_body("said", NAME)),
        (environment, "/run", episode_body("said", NAME, attempt=1)),
    ):
        with server.client() as client:
            document = client.get("/openapi.json").json()
            answer = client.post(path.format(capture_key="said"), json=body)
        assert answer.status_code == 200, answer.text
        told = document["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(answer.json(), {**told, "components": document["components"]})


@pytest.mark.parametrize(("kind", "workers"), [("resources", 2), ("agent", 1), ("environment", 1)])
def test_schemathesis_finds_nothing(
    start_gym: StartGym, kind: str, workers: int, tmp_path: Path, resources: GymProcess
) -> None:
    """All its checks but those of what a schema cannot say: which tasks, sessions and tokens there are."""
    (tmp_path / "token").write_text(TOKEN)
    peers = {
        "resources": ("--only-loaded",),
        "agent": ("--agent", "noop", "--resources-url", resources.url),
        "environment": ("--resources-url", resources.url, "--agent-url", resources.url),
    }
    server = start_gym(kind, "--token-file", str(tmp_path / "token"), "--workers", str(workers), *peers[kind])
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", "--seed", "1"]
    command += ["--max-examples", str(_EXAMPLES), "--exclude-checks", "positive_data_acceptance,ignored_auth"]
    command += ["--header", f"Authorization: Bearer {TOKEN}", "--continue-on-failure", "--generation-database", "none"]
    command += ["--phases", "examples,coverage,fuzzing"]
    if not os.environ.get("SWE_SDK_EXAMPLES"):  # the same endpoints once more: half of the time
        command += ["--exclude-path-regex", "^/ng-rollout/"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "Traceback" not in server.log.read_text()
    assert server.stop() == 0


def test_who_has_no_token_may_post_nothing(start_gym: StartGym, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    server = start_gym("resources", "--token-file", str(tmp_path / "token"))
    with server.client() as client:
        for path in ("/seed_session", "/verify", "/close_session", "/ng-rollout/a/verify", "/grade"):
            answer = client.post(path, content=json.dumps({}))
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
        assert client.get("/health").json()["status"] == "ok"
    with server.client(Authorization=f"Bearer {TOKEN}") as client:
        assert client.post("/seed_session", json=seed_body("with-token", NAME)).status_code == 200
    assert server.stop() == 0
