"""Whose task it is: one that was loaded, or one that a request brings along, and what that one may name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swe_sdk.errors import InputError, RowError, UnknownTask
from swe_sdk.model.environment import GitSource, ImageEnvironment, SourceEnvironment
from swe_sdk.model.task import Task
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.server.models import GradeRequest, VerifyRequest
from swe_sdk.server.orders import order_of_verify
from swe_sdk.server.settings import ServerSettings
from swe_sdk.server.tasks import Tasks
from tests.server.serving import NAME, post_body, tiny_row
from tests.shared import shared_dir, shared_rows


@pytest.fixture
def row(tmp_path: Path) -> dict[str, Any]:
    return tiny_row(tmp_path / "repo")


@pytest.fixture
def loaded(row: dict[str, Any]) -> TaskSet:
    return load_tasks([row])


def asked(**metadata: Any) -> VerifyRequest:
    return VerifyRequest.model_validate(post_body(metadata))


def from_git(task: Task, url: str) -> Task:
    environment = SourceEnvironment(source=GitSource(url=url, commit="1" * 40))
    return task.model_copy(update={"environment": environment})


def test_a_loaded_task_needs_its_name_alone(loaded: TaskSet) -> None:
    assert Tasks(loaded).of_verify(asked(instance_id=NAME)) == (loaded[NAME], "loaded")


def test_nobody_brings_easier_tests_for_a_loaded_task(loaded: TaskSet, row: dict[str, Any]) -> None:
    easier = json.dumps({**row, "FAIL_TO_PASS": ["check::runs"], "PASS_TO_PASS": []})
    found = Tasks(loaded, local_sources=True).of_verify(asked(instance_id=NAME, instance_dict=easier))
    assert found == (loaded[NAME], "loaded")


@pytest.mark.parametrize("name", ["another", "", f"{NAME} "])
def test_nor_under_another_name(loaded: TaskSet, row: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match="the instance_id beside it"):
        Tasks(loaded, local_sources=True).of_verify(asked(instance_id=name, instance_dict=json.dumps(row)))


def test_a_task_comes_along_as_json_or_as_fields(row: dict[str, Any], loaded: TaskSet) -> None:
    tasks = Tasks(TaskSet(()), local_sources=True)
    as_text = tasks.of_verify(asked(instance_id=NAME, instance_dict=json.dumps(row), dataset_name="SWE-bench_Verified"))
    as_fields = tasks.of_verify(asked(**row, split="test", of_no_meaning=1))
    assert as_text == (loaded[NAME], "request")
    assert as_fields.task.grading == loaded[NAME].grading


def test_a_whole_task_comes_along(loaded: TaskSet) -> None:
    request = GradeRequest.of(loaded[NAME], b"\xff\n")
    again = GradeRequest.model_validate_json(request.model_dump_json())
    assert again.patch == b"\xff\n"
    assert Tasks(TaskSet(()), local_sources=True).of_grade(again) == (loaded[NAME], "request")
    assert Tasks(loaded).of_grade(GradeRequest.of(NAME, None)) == (loaded[NAME], "loaded")
    assert Tasks(loaded).of_grade(again) == (loaded[NAME], "loaded")


def test_no_easier_tests_come_along_with_a_whole_task(loaded: TaskSet) -> None:
    easier = loaded[NAME].grading.model_copy(update={"test_command": "true"})
    with pytest.raises(InputError, match="other tests"):
        Tasks(loaded).of_grade(GradeRequest.of(loaded[NAME].model_copy(update={"grading": easier}), None))


def test_only_loaded_tasks_where_it_is_so_set(loaded: TaskSet, row: dict[str, Any]) -> None:
    tasks = Tasks(TaskSet(()), inline=False, local_sources=True)
    with pytest.raises(UnknownTask):
        tasks.of_verify(asked(**row))
    with pytest.raises(UnknownTask):
        tasks.of_grade(GradeRequest.of(loaded[NAME], None))
    with pytest.raises(UnknownTask, match="tiny__answer-1"):
        Tasks(loaded).of_grade(GradeRequest.of("tiny__answer-2", None))


def test_folders_of_the_servers_machine_are_not_for_everybody(row: dict[str, Any], loaded: TaskSet) -> None:
    for request in (asked(**row), asked(instance_id=NAME, instance_dict=json.dumps(row))):
        with pytest.raises(InputError, match="server's machine"):
            Tasks(TaskSet(())).of_verify(request)
    with pytest.raises(InputError, match="server's machine"):
        Tasks(TaskSet(())).of_grade(GradeRequest.of(loaded[NAME], None))


@pytest.mark.parametrize(
    ("url", "is_far"),
    [
        ("https://example.org/x.git", True),
        ("http://example.org/x.git", True),
        ("ssh://git@example.org/x", True),
        ("git@example.org:x/y.git", True),
        ("git://example.org/x", True),
        ("/srv/x", False),
        ("./x:y", False),
        ("file:///srv/x", False),
        ("ext::sh -c id", False),
        ("ext::sh -c id@x:", False),
        ("fd::3", False),
        ("--upload-pack=touch x@y:z", False),
        (" https://example.org/x", False),
    ],
)
def test_repositories_of_tasks_that_come_along_are_far_away(loaded: TaskSet, url: str, is_far: bool) -> None:
    request = GradeRequest.of(from_git(loaded[NAME], url), None)
    if is_far:
        assert Tasks(TaskSet(())).of_grade(request).source == "request"
    else:
        with pytest.raises(InputError, match="server's machine"):
            Tasks(TaskSet(())).of_grade(request)


@pytest.mark.parametrize(
    ("image", "is_allowed"),
    [
        ("example/x:latest", True),
        ("docker://example/x", True),
        ("library://example/x", True),
        ("/sifs/x.sif", True),
        ("x.sif", True),
        ("/", False),
        ("/srv/x", False),
        ("~", False),
        ("../x", False),
        ("./x", False),
        ("oci:/srv/x", False),
        ("docker-archive:/srv/x.tar", False),
    ],
)
def test_images_of_tasks_that_come_along_are_no_folders(loaded: TaskSet, image: str, is_allowed: bool) -> None:
    task = loaded[NAME].model_copy(update={"environment": ImageEnvironment(image=image)})
    request = GradeRequest.of(task, None)
    if is_allowed:
        assert Tasks(TaskSet(())).of_grade(request).source == "request"
    else:
        with pytest.raises(InputError, match="server's machine"):
            Tasks(TaskSet(())).of_grade(request)


@pytest.mark.parametrize(
    ("metadata", "error", "match"),
    [
        ({}, InputError, "no instance_id"),
        ({"instance_id": 7}, InputError, "no instance_id"),
        ({"instance_id": "x"}, RowError, "no recipe recognizes"),
        ({"instance_id": "x", "instance_dict": "{"}, RowError, "not JSON"),
        ({"instance_id": "x", "instance_dict": "[]"}, RowError, "holds no object"),
        ({"instance_id": "x", "instance_dict": '{"family": "no-such"}'}, RowError, "no-such"),
    ],
)
def test_what_is_wrong_with_a_task_is_said(metadata: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        Tasks(TaskSet(())).of_verify(asked(**metadata))


def test_the_time_for_tests_is_bounded(loaded: TaskSet) -> None:
    tasks, settings = Tasks(loaded), ServerSettings(tests_timeout_s=100, longest_tests_timeout_s=200)

    def seconds(request: VerifyRequest) -> float:
        return order_of_verify(request, tasks, settings).order.tests_timeout_s

    def top(value: float) -> VerifyRequest:
        return VerifyRequest.model_validate(
            post_body({"instance_id": NAME, "eval_timeout_s": "3"}, eval_timeout_s=value)
        )

    assert seconds(asked(instance_id=NAME)) == 100
    assert seconds(asked(instance_id=NAME, eval_timeout_s="150")) == 150
    assert seconds(asked(instance_id=NAME, eval_timeout_s=150.5)) == 150.5
    assert seconds(top(12)) == 12
    for wrong in ("201", 201, "nan", "inf", "-1", 0, "soon", [1], "", 10**400):
        with pytest.raises(InputError, match="eval_timeout_s"):
            seconds(asked(instance_id=NAME, eval_timeout_s=wrong))
    with pytest.raises(InputError, match="at most 200"):
        seconds(top(201))


def test_orders_differ_in_everything_that_may_change_a_verdict(loaded: TaskSet, row: dict[str, Any]) -> None:
    other = load_tasks([{**row, "PASS_TO_PASS": []}])
    settings = ServerSettings()

    def key(tasks: TaskSet, **options: Any) -> str:
        body = post_body({"instance_id": NAME}, **{"patch": "x\n", **options})
        return order_of_verify(VerifyRequest.model_validate(body), Tasks(tasks), settings).order.key

    keys = [
        key(loaded),
        key(other),
        key(loaded, patch="y\n"),
        key(loaded, eval_timeout_s=7),
        key(loaded, control="always"),
    ]
    assert len(set(keys)) == len(keys)
    assert key(loaded, control="off", more="of no meaning") == keys[0]


@pytest.mark.parametrize(
    "settings", [{"workers": 0}, {"tests_timeout_s": 9000}, {"body_mib": 9, "bodies_mib": 8}, {"colour": "red"}]
)
def test_settings_that_make_no_sense(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(settings)) if len(settings) == 1 else "bodies_mib"):
        ServerSettings.of(**settings)


def test_a_row_is_the_request_itself_where_the_metadata_is_silent(row: dict[str, Any], loaded: TaskSet) -> None:
    for metadata in ({"x": 1}, None):
        body = {**row, **post_body({}), "agent_ref": {"name": "a"}, "_ng_task_index": 3, "reward": 1.0}
        body["responses_create_params"]["metadata"] = metadata
        found = Tasks(TaskSet(()), local_sources=True).of_verify(VerifyRequest.model_validate(body))
        assert (found.task.grading, found.source) == (loaded[NAME].grading, "request")


REAL = [
    "anyswe_agent/example.jsonl",
    "swe_agents_legacy/example.jsonl",
    "swe_env_pr/example_rollouts.jsonl",
    "swe_rebench/example.jsonl",
    "swebench/example.jsonl",
    "r2e_gym/example.jsonl",
]


@pytest.mark.shared
@pytest.mark.parametrize("name", REAL)
def test_real_requests_of_nemo_gym_are_understood(name: str) -> None:
    shared_dir()
    for row in shared_rows(f"rows/nemo_gym/{name}"):
        body = {"response": {"id": "r", "output": []}, "responses_create_params": {}, **row}
        found = order_of_verify(VerifyRequest.model_validate(body), Tasks(TaskSet(())), ServerSettings())
        metadata = row.get("responses_create_params", {}).get("metadata") or row
        assert found.order.task.instance_id == metadata["instance_id"]
        assert found.order.task.grading.fail_to_pass or found.order.task.grading.expected
        given = (row.get("response") or {}).get("metadata") or {}
        assert found.order.patch.exists is bool(given.get("model_patch"))
