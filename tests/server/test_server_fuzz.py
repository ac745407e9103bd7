"""No request, however odd, is answered with a 500: schemathesis over the document, and tasks and answers gone wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from swe_sdk.errors import InputError
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.server.bodies import parsed
from swe_sdk.server.models import GradeRequest, VerifyRequest
from swe_sdk.server.orders import order_of_grade, order_of_verify
from swe_sdk.server.problems import Problem
from swe_sdk.server.settings import ServerSettings
from swe_sdk.server.tasks import Tasks
from swe_sdk.server.validation import validated
from tests.grading.tiny import GOLD
from tests.server.conftest import StartServer
from tests.server.serving import NAME, TOKEN, post_body, row_without_source

_EXAMPLES = int(os.environ.get("SWE_SDK_EXAMPLES") or 40)
SETTINGS = ServerSettings()
TASKS = Tasks(TaskSet(()), local_sources=True)
GOOD = {**row_without_source(), "git": {"url": "https://example.org/x.git", "commit": "1" * 40}}
LOADED = Tasks(load_tasks([GOOD]))

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=20) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def test_schemathesis_finds_nothing(start: StartServer, tmp_path: Path) -> None:
    """All its checks but one: that every request which fits the schema is accepted. What a task is, no schema says."""
    (tmp_path / "token").write_text(TOKEN)
    server = start("--token-file", str(tmp_path / "token"))
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", "--seed", "1"]
    command += ["--max-examples", str(_EXAMPLES), "--exclude-checks", "positive_data_acceptance"]
    command += ["--header", f"Authorization: Bearer {TOKEN}", "--continue-on-failure", "--generation-database", "none"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert "Operations:       7 selected / 7 total" in done.stdout, done.stdout
    assert server.metric('swe_sdk_responses_total{path="/verify",status="500"}') == 0


@st.composite
def odd_rows(draw: st.DrawFn) -> dict[str, Any]:
    """A good row, some of whose fields are not."""
    row = dict(GOOD)
    for name in draw(
        st.lists(st.sampled_from([*row, "instance_id", "git", "sdist", "image", "pip", "env"]), max_size=3)
    ):
        row[name] = draw(json_values)
    return row


@settings(max_examples=_EXAMPLES * 3)
@given(odd_rows(), st.booleans(), st.dictionaries(st.text(max_size=8), json_values, max_size=3))
def test_odd_tasks_are_the_clients_doing(row: dict[str, Any], as_text: bool, more: dict[str, Any]) -> None:
    metadata = {**more, "instance_id": row.get("instance_id"), "instance_dict": json.dumps(row)} if as_text else row
    for body in (post_body(metadata), {**more, **row, **post_body({})}):
        _only_the_clients_doing(body)


@settings(max_examples=_EXAMPLES * 3)
@given(st.lists(json_values, max_size=3), st.none() | st.dictionaries(st.text(max_size=8), json_values, max_size=3))
def test_odd_answers_of_models_are_the_clients_doing(output: list[Any], metadata: Any) -> None:
    messages = [{"type": "message", "role": "assistant", "content": each} for each in output]
    for said in (output, messages, [{"content": [{"text": each} for each in output]}]):
        _only_the_clients_doing(_answered(output=said, metadata=metadata), LOADED)
    for value in output:
        for name in ("model_patch", "model_patch_base64"):
            _only_the_clients_doing(_answered(metadata={name: value}), LOADED)


def _answered(**response: Any) -> Any:
    return {**post_body({"instance_id": NAME}), "response": response}


def _only_the_clients_doing(body: Any, tasks: Tasks = TASKS) -> None:
    """Either it can be understood, or what is wrong with it is said."""
    with suppress(InputError, Problem):
        order = order_of_verify(validated(VerifyRequest, _over_the_wire(body)), tasks, SETTINGS).order
        assert len(order.key) == 64


def _over_the_wire(body: Any) -> Any:
    return parsed(bytearray(json.dumps(body).encode()))


@settings(max_examples=_EXAMPLES * 3)
@given(st.dictionaries(st.sampled_from(["family", "environment", "grading", "metadata", "repo"]), json_values))
def test_odd_private_tasks_are_the_clients_doing(changes: dict[str, Any]) -> None:
    good = TASKS.of_verify(VerifyRequest.model_validate(post_body(GOOD))).task
    body = json.loads(GradeRequest.of(good, GOLD).model_dump_json())
    body["task"] |= changes
    with suppress(InputError, Problem):
        assert len(order_of_grade(validated(GradeRequest, _over_the_wire(body)), TASKS, SETTINGS).key) == 64
