"""No row, no log, no results file makes a recipe raise anything but the documented errors."""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_rows import CLASSIC
from test_families import ROWS

from swe_sdk.errors import EvaluatorFailed, InputError
from swe_sdk.model.task import Task
from swe_sdk.recipes.contract import ReadsResults
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.registry import get_recipe, recipe_names
from swe_sdk.recipes.row import Row

FAMILIES = ("swe-bench", "swe-bench-multilingual", "swe-bench-ext", "nv-internal-1", "swe-rebench", "r2e-gym")
COMPATS = {
    "swe-bench": ("@4.1.0", "@nested"),
    "swe-bench-multilingual": ("@4.1.0", "@nested"),
    "r2e-gym": ("@legacy", "@nested"),
}
"""Of the other families, ``@legacy``."""
FIELDS = sorted({name for row in ROWS.values() for name in row} | {
    "patch", "test_patch", "directory", "env", "responses_create_params", "split", "created_at", "install",
    "base_dockerfile", "wrong_patch", "test_patch_base64", "image", "container_formatter", "workdir", "family",
})  # fmt: skip
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=8)
    | st.sampled_from(["[", "['a']", "{}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
TESTED = {
    **{"instance_id": "o__r-1", "repo": "o/r", "base_commit": "abc", "image": "an:image", "test_command": "make check"},
    **{"log_parser": "pytest", "FAIL_TO_PASS": ["t.py::test_add"], "PASS_TO_PASS": ["t.py::test_old"]},
}
"""A row that says by itself how it is tested."""
CONFIG = st.fixed_dictionaries({}, optional=dict.fromkeys(("install", "test_cmd", "log_parser"), JSON))


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_no_row_makes_a_recipe_raise_anything_else(family, data):
    base = data.draw(st.sampled_from([{}, *ROWS.values()]))
    changes = data.draw(st.dictionaries(st.sampled_from(FIELDS), JSON | CONFIG, max_size=4))
    for name in (family, *(f"{family}{rules}" for rules in COMPATS.get(family, ("@legacy",)))):
        try:
            task = get_recipe(name).to_task({**base, **changes}, where="row 1", root=Path("/nonexistent"))
        except InputError as error:
            task, said = None, str(error)
        assert task is not None or "row 1" in said
        assert task is None or (task.family == name and json.dumps(task.private()))


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4), JSON, JSON)
def test_no_row_makes_the_loader_raise_anything_else(fields, metadata, inner):
    wrapped = {"metadata": {"instance_id": "a", "instance_dict": inner, "container_formatter": metadata}}
    for parameters in (metadata, {"metadata": metadata}, wrapped):
        with suppress(InputError):
            assert len(load_tasks([{**fields, "responses_create_params": parameters}])) == 1


def tasks() -> list[Task]:
    rows = ROWS | {"swe-bench": CLASSIC, "swe-bench-multilingual": TESTED}
    names = [f"{family}{rules}" for family in rows for rules in ("", *COMPATS.get(family, ("@legacy",)))]
    return [load_tasks([rows[name.partition("@")[0]]], family=name)[0] for name in names]


def test_every_family_is_here() -> None:
    assert set(FAMILIES) == set(recipe_names()) == {task.family.partition("@")[0] for task in tasks()}


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_no_bytes_make_a_recipe_raise_anything_else(output):
    text = output.decode("utf-8", "replace")
    for task in tasks():
        recipe = get_recipe(task.family)
        found = recipe.parse(task, text)
        if isinstance(recipe, ReadsResults):
            files = dict.fromkeys(("output.json", "output.xml", "report.json"), output)
            with suppress(EvaluatorFailed) if task.family.endswith("@nested") else nullcontext():
                found |= recipe.parse_results(task, text, files)
        for exit_code in (None, 0, 1):
            assert not recipe.judge(task, found, exit_code).resolved


@settings(max_examples=60, deadline=None)
@given(JSON)
def test_lists_in_texts_are_read_or_refused(value):
    row = Row({"instance_id": "a", "ids": value}, "row 1")
    found: tuple[str, ...] = ()
    with suppress(InputError):
        found = row.listed("ids")
    assert all(isinstance(name, str) for name in found)
