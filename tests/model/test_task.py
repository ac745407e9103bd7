"""A task keeps its private half from whoever is not the grader."""

from __future__ import annotations

import copy
import json
import pickle
import pprint
from typing import Any

import pytest
from pydantic import ValidationError
from rich.pretty import pretty_repr

from swe_sdk.model.environment import DirectorySource, Environment, ImageEnvironment, SdistSource, SourceEnvironment
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import GradingSpec, Task

SECRETS = ("s3cret", "c2VjcmV0", "czNjcmV0")  # plain, and as base64 would show it
PUBLIC_FIELDS = {
    "instance_id", "family", "repo", "problem_statement", "hints", "base_commit", "version", "created_at",
    "environment", "metadata",
}  # fmt: skip


def grading() -> GradingSpec:
    return GradingSpec(
        test_patch=Patch.of("s3cret test patch \udcff\n"),
        test_assets={"s3cret.png": "https://s3cret"},
        fail_to_pass=("s3cret::f2p",),
        pass_to_pass=("s3cret::p2p", "s3cret::p2p2"),
        prelude="s3cret prelude",
        test_command="s3cret command",
        parser="s3cret parser",
        gold_patch=Patch.of(b"s3cret gold\xff"),
        wrong_patch=Patch.of("s3cret wrong\n"),
    )


def task(**changes: Any) -> Task:
    environment = SourceEnvironment(source=DirectorySource(path="/src"), python=">=3.9", env={"A": "1"})
    fields = {"instance_id": "a__b-1", "family": "swe_bench", "repo": "a/b", "environment": environment}
    return Task(**{**fields, "metadata": {"difficulty": "easy"}, "grading": grading(), **changes})


VIEWS = {
    "repr": repr,
    "str": str,
    "format": lambda each: f"{each}",
    "pprint": pprint.pformat,
    "rich": pretty_repr,
    "html": lambda each: each._repr_html_(),
    "json": lambda each: each.model_dump_json(),
    "dump": lambda each: repr(each.model_dump()),
    "public": lambda each: repr(each.public()),
    "the repr of its fields": lambda each: repr(dict(each)),
    "an include that asks for it": lambda each: repr(each.model_dump(include={"grading", "repo"})),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_no_view_shows_the_private_half(view: Any) -> None:
    for subject in (task(), [task()], {"task": task()}):
        if isinstance(subject, Task) or view in (repr, str, pprint.pformat, pretty_repr):
            shown = view(subject)
            assert not [secret for secret in SECRETS if secret in shown]


@pytest.mark.parametrize("view", [repr, str, pretty_repr, pprint.pformat])
def test_a_grading_spec_shows_counts_alone(view: Any) -> None:
    shown = view(grading())
    assert not [secret for secret in SECRETS if secret in shown]
    assert "fail_to_pass=1" in shown
    assert "pass_to_pass=2" in shown


def test_what_an_agent_may_see_is_all_there() -> None:
    public = task(problem_statement="do it", hints="there").public()
    assert set(public) == PUBLIC_FIELDS
    assert public["problem_statement"] == "do it"
    assert public["metadata"] == {"difficulty": "easy"}
    assert json.loads(json.dumps(public)) == public


def test_the_private_form_comes_back_whole() -> None:
    original = task()
    private = original.private()
    assert set(private) == PUBLIC_FIELDS | {"grading"}
    for returned in (private, json.loads(json.dumps(private))):
        again = Task.model_validate(returned)
        assert again == original
        assert again.grading.gold_patch == Patch.of(b"s3cret gold\xff")
        assert again.grading.gold_patch.repairs == ("final_newline_added",)


def test_copies_are_equal_and_differences_in_the_private_half_count() -> None:
    original = task()
    assert original.grading.test_patch.sha256  # what was computed is no difference
    for same in (task(), pickle.loads(pickle.dumps(original)), copy.deepcopy(original), original.model_copy()):
        assert same == original
        assert same.grading == original.grading
    other = task(grading=grading().model_copy(update={"fail_to_pass": ("x",)}))
    assert other != original


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"instance_id": ""}, "instance_id"),
        ({"surprise": 1}, "surprise"),
        ({"grading": None}, "grading"),
        ({"grading": {"test_command": "x"}}, "parser"),
        ({"environment": {"kind": "vm"}}, "environment"),
        ({"environment": {"kind": "image"}}, "image"),
    ],
)
def test_malformed_tasks_are_refused_by_field(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        task(**changes)


@pytest.mark.parametrize("name", ["", "A=B", "A\0"])
def test_variables_that_no_system_can_set_are_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="variable"):
        SourceEnvironment(source=DirectorySource(path="/x"), env={name: "1"})
    with pytest.raises(ValidationError, match="variable"):
        SourceEnvironment(source=DirectorySource(path="/x"), env={"A": "a\0b"})
    with pytest.raises(ValidationError, match="variable"):
        ImageEnvironment(image="x", env={name: "1"})


@pytest.mark.parametrize("digest", ["", "abc", "A" * 64, "g" * 64, "0" * 65])
def test_an_sdist_is_pinned_by_a_whole_digest(digest: str) -> None:
    with pytest.raises(ValidationError, match="sha256"):
        SdistSource(name="x", version="1", sha256=digest)


def test_environments_are_told_apart_by_kind() -> None:
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Environment] = TypeAdapter(Environment)
    for environment in (ImageEnvironment(image="x:1"), SourceEnvironment(source=DirectorySource(path="/x"))):
        assert adapter.validate_json(adapter.dump_json(environment)) == environment
