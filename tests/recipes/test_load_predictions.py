"""Predictions of every form load byte for byte; whatever is wrong is said with its line."""

from __future__ import annotations

import base64
import json
import tracemalloc
from pathlib import Path

import pytest
import sample_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swe_sdk.errors import PredictionsError
from swe_sdk.model.patch import EMPTY_PATCH, Patch
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.predictions import load_predictions

TASKS = load_tasks([sample_rows.CLASSIC, sample_rows.MODERN, sample_rows.SDIST])
FIRST, SECOND, THIRD = TASKS.ids


def prediction(name: str = FIRST, **fields) -> dict:
    return {"instance_id": name, "model_name_or_path": "me", **(fields or {"model_patch": sample_rows.GOLD})}


def write(path: Path, *values, joint: str = "\n") -> Path:
    path.write_text(joint.join(json.dumps(value) for value in values))
    return path


def data(source) -> dict[str, bytes]:
    return {name: patch.data for name, patch in load_predictions(source, TASKS).items()}


def test_own_patches_of_the_tasks():
    assert {patch.text for patch in load_predictions("gold", TASKS).values()} == {sample_rows.GOLD}
    assert load_predictions("empty", TASKS) == dict.fromkeys(TASKS.ids, EMPTY_PATCH)
    assert load_predictions("wrong", TASKS[2:])[THIRD].text == sample_rows.WRONG
    with pytest.raises(PredictionsError, match="'pallets__flask-1' has no wrong patch"):
        load_predictions("wrong", TASKS)


def test_files_of_the_official_form(tmp_path):
    values = [prediction(), prediction(SECOND, model_patch=None)]
    expected = {FIRST: sample_rows.GOLD.encode(), SECOND: b""}
    assert data(write(tmp_path / "a.jsonl", *values)) == expected
    assert data(str(write(tmp_path / "b.jsonl", *values, joint="\r\n\r\n"))) == expected
    assert data(write(tmp_path / "a.json", values)) == expected
    assert data(write(tmp_path / "b.json", {value["instance_id"]: value for value in values})) == expected
    nameless = {FIRST: {"model_patch": sample_rows.GOLD}, SECOND: {"model_patch": ""}}
    assert data(write(tmp_path / "c.json", nameless)) == expected


def test_things_in_memory():
    patch = Patch.of(b"\xff\n")
    mapping = {FIRST: patch, SECOND: "text\n", THIRD: None}
    assert load_predictions(mapping, TASKS)[FIRST] is patch
    assert data(mapping) == {FIRST: b"\xff\n", SECOND: b"text\n", THIRD: b""}
    assert data({FIRST: b"\x00\n", SECOND: {"model_patch": "x\n"}}) == {FIRST: b"\x00\n", SECOND: b"x\n"}
    assert data(iter([prediction(model_patch=None)])) == {FIRST: b""}
    assert data([]) == {}


def test_bytes_survive(tmp_path):
    raw = b"diff \xe9\x00\r\n"
    encoded = base64.b64encode(raw).decode()
    assert data([prediction(model_patch_base64=encoded)]) == {FIRST: raw}
    escaped = raw.decode("utf-8", "surrogateescape")
    assert data(write(tmp_path / "a.jsonl", prediction(model_patch=escaped))) == {FIRST: raw}
    repaired = load_predictions({FIRST: "no newline"}, TASKS)[FIRST]
    assert (repaired.data, repaired.repairs) == (b"no newline\n", ("final_newline_added",))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([prediction(), prediction()], r"a\.jsonl:1 and .*a\.jsonl:2 both predict 'pallets__flask-1'"),
        ([prediction(), prediction("pallets__flask-7")], r"a\.jsonl:2: unknown task 'pallets__flask-7' \(did you mean"),
        ([{"model_patch": "x"}], r"a\.jsonl:1: it has no instance_id"),
        ([{"instance_id": 3, "model_patch": "x"}], r"a\.jsonl:1: it has no instance_id"),
        ([{"instance_id": FIRST}], r"a\.jsonl:1 \(pallets__flask-1\): it has no model_patch"),
        ([prediction(model_patch="x", model_patch_base64="eA==")], "has both model_patch and model_patch_base64"),
        ([prediction(model_patch=3)], r"a\.jsonl:1 \(pallets__flask-1\): model_patch is a int"),
        ([prediction(model_patch=["x"])], "model_patch is a list"),
        ([prediction(model_patch="\ud800")], "lone surrogates"),
        ([prediction(model_patch_base64="%%")], "model_patch_base64 is not base64"),
        ([prediction(model_patch_base64=3)], "model_patch_base64 is not base64"),
        ([prediction(model_patch_base64="é")], "model_patch_base64 is not base64"),
        (["text"], r"a\.jsonl:1: a prediction must be an object"),
        ([], "holds no rows"),
    ],
)
def test_a_malformed_file_is_named_with_its_line(values, expected, tmp_path):
    with pytest.raises(PredictionsError, match=expected) as caught:
        load_predictions(write(tmp_path / "a.jsonl", *values), TASKS)
    assert caught.value.remedy


def test_unreadable_files_are_named(tmp_path):
    for name, content, expected in (
        ("a.jsonl", b'{"instance_id": "\xe9"}', "line 1, byte 17"),
        ("b.jsonl", b"\n{", "b.jsonl:2: invalid JSON"),
        ("c.txt", b"", "unknown kind"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(PredictionsError, match=expected):
            load_predictions(tmp_path / name, TASKS)
    with pytest.raises(PredictionsError, match="there is no file"):
        load_predictions("golden.jsonl", TASKS)
    with pytest.raises(PredictionsError, match="did you mean gold"):
        load_predictions("golden", TASKS)
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(PredictionsError, match="cannot be read"):
        load_predictions(tmp_path / "folder.jsonl", TASKS)
    with pytest.raises(PredictionsError, match="holds no predictions"):
        load_predictions(5, TASKS)  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=200))
def test_any_bytes_come_back(raw, tmp_path):
    expected = raw if raw.endswith(b"\n") or not raw else raw + b"\n"
    text = raw.decode("utf-8", "surrogateescape")
    for index, fields in enumerate(
        ({"model_patch": text}, {"model_patch_base64": base64.b64encode(raw).decode()}),
    ):
        path = write(tmp_path / f"{index}.jsonl", prediction(**fields))
        assert data(path) == {FIRST: expected}


def test_huge_patches_are_not_copied_more_than_they_must_be(tmp_path):
    size = 32 << 20
    path = write(tmp_path / "a.jsonl", prediction(model_patch="+" * size + "\n"))
    tracemalloc.start()
    try:
        patch = load_predictions(path, TASKS)[FIRST]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(patch) == size + 1
    assert peak < 4.2 * size  # the line, its text, the value in it, the bytes of that
