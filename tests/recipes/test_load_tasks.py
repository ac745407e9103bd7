"""Task files of every kind load, and whatever is wrong with one is said with its place and the remedy."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sample_rows
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from swe_sdk.errors import (
    DatasetError,
    DuplicateTask,
    InputError,
    PrerequisiteError,
    RowError,
    UnknownFamily,
    UnknownTask,
)
from swe_sdk.model.environment import DirectorySource, SourceEnvironment
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.taskset import TaskSet
from tests.shared import shared_dir

ROWS = [sample_rows.CLASSIC, sample_rows.MODERN, sample_rows.SDIST]
IDS = tuple(row["instance_id"] for row in ROWS)


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def lines(rows: list[dict[str, Any]] = ROWS, end: str = "\n") -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + end for row in rows)


def test_the_bundled_tasks_load():
    tasks = load_tasks("mini")
    assert len(tasks) >= 8
    assert tasks.name == "mini"
    assert tasks.warnings == ()
    for task in tasks:
        assert isinstance(task.environment, SourceEnvironment)
        assert isinstance(task.environment.source, DirectorySource)
        assert Path(task.environment.source.path).is_dir()
        assert task.grading.gold_patch
        assert task.grading.wrong_patch


@pytest.mark.parametrize(
    "content",
    [
        lines(),
        lines(end="\r\n"),
        "\ufeff" + lines(),
        "\n\n" + lines(end="\n\n \n"),
        lines().rstrip("\n"),
    ],
    ids=["plain", "crlf", "byte order mark", "blank lines", "no final newline"],
)
def test_json_lines_load_whatever_their_line_ends(content, tmp_path):
    plain = load_tasks(write(tmp_path / "plain.jsonl", lines()))
    tasks = load_tasks(str(write(tmp_path / "rows.jsonl", content)))
    assert tasks.ids == IDS
    assert tasks.name == "rows"
    assert list(tasks) == list(plain)


def test_json_files_hold_a_list_an_object_by_id_or_one_row(tmp_path):
    by_id = {row["instance_id"]: {k: v for k, v in row.items() if k != "instance_id"} for row in ROWS}
    for content in (ROWS, by_id):
        assert load_tasks(write(tmp_path / "rows.json", json.dumps(content, indent=1))).ids == IDS
    assert load_tasks(write(tmp_path / "row.json", json.dumps(ROWS[0]))).ids == IDS[:1]
    assert load_tasks(write(tmp_path / "rows.json", "\ufeff" + json.dumps(ROWS))).ids == IDS


def test_parquet_files_load(tmp_path):
    pd.DataFrame(ROWS).to_parquet(tmp_path / "rows.parquet")
    assert list(load_tasks(tmp_path / "rows.parquet")) == list(load_tasks(ROWS))


def test_a_folder_and_rows_in_memory_load(tmp_path):
    write(tmp_path / "tasks.jsonl", lines())
    expected = list(load_tasks(tmp_path))
    assert load_tasks(tmp_path).name == tmp_path.name
    assert list(load_tasks(ROWS)) == list(load_tasks(iter(ROWS))) == expected
    assert list(load_tasks({row["instance_id"]: row for row in ROWS})) == expected
    records = pd.DataFrame(ROWS).to_dict("records")
    assert list(load_tasks(records)) == expected


def test_relative_paths_start_at_the_folder_of_the_file(tmp_path, monkeypatch):
    (tmp_path / "data" / "repos" / "flask").mkdir(parents=True)
    write(tmp_path / "data" / "tasks.jsonl", lines([sample_rows.DIRECTORY]))
    monkeypatch.chdir(tmp_path)
    environment = load_tasks("data/tasks.jsonl")[0].environment
    assert isinstance(environment, SourceEnvironment)
    assert environment.source == DirectorySource(path=str((tmp_path / "data/repos/flask").resolve()))
    with pytest.raises(RowError, match="there is no directory"):
        load_tasks([sample_rows.DIRECTORY])


def test_instance_ids_select_in_the_order_of_the_source():
    assert load_tasks(ROWS, instance_ids=[IDS[2], IDS[0]]).ids == (IDS[0], IDS[2])
    assert len(load_tasks(ROWS, instance_ids=[])) == 0
    with pytest.raises(UnknownTask, match=r"pallets__flask-9.*did you mean pallets__flask"):
        load_tasks(ROWS, instance_ids=[IDS[0], "pallets__flask-9"])
    with pytest.raises(InputError, match="give a list"):
        load_tasks(ROWS, instance_ids=IDS[0])


def test_a_broken_row_that_is_not_selected_does_no_harm():
    broken = {**ROWS[1], "image": None}
    assert load_tasks([ROWS[0], broken], instance_ids=[IDS[0]]).ids == IDS[:1]


def test_unknown_fields_are_refused_or_let_pass():
    odd = {**ROWS[0], "colour": "red"}
    with pytest.raises(RowError, match=r"row 0 \(pallets__flask-1\): unknown field 'colour'"):
        load_tasks([odd])
    assert list(load_tasks([odd], unknown_fields="ignore")) == list(load_tasks(ROWS[:1]))
    with pytest.raises(InputError, match="ignore"):
        load_tasks([odd], unknown_fields="skip")  # type: ignore[arg-type]


def test_families():
    assert load_tasks([{**ROWS[0], "family": "swe-bench"}])[0].family == "swe-bench"
    assert load_tasks(ROWS, family="swe-bench").ids == IDS
    with pytest.raises(UnknownFamily, match="did you mean swe-bench"):
        load_tasks(ROWS, family="swe-bensh")
    with pytest.raises(RowError, match=r"row 0 \(pallets__flask-1\): unknown family 'swe-bensh' \(did you mean"):
        load_tasks([{**ROWS[0], "family": "swe-bensh"}])
    with pytest.raises(RowError, match="no recipe recognizes the row"):
        load_tasks([{"instance_id": "a", "hello": "world"}])


def test_duplicates_name_both_rows(tmp_path):
    path = write(tmp_path / "rows.jsonl", lines([*ROWS, ROWS[1]]))
    with pytest.raises(DuplicateTask) as caught:
        load_tasks(path)
    assert f"{path}:2 and {path}:4" in str(caught.value)
    with pytest.raises(DuplicateTask, match="row 0 and row 1"):
        load_tasks([ROWS[0], ROWS[0]])


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", b"", "holds no rows"),
        ("a.jsonl", b"\r\n \n", "holds no rows"),
        ("a.json", b"", "holds no rows"),
        ("a.json", b"[]", "holds no rows"),
        ("a.json", b"3", "neither a list nor an object"),
        ("a.json", b'[{"a": 1},\n {"b" 2}]', "invalid JSON: Expecting ':' delimiter (line 2, column 7)"),
        ("a.jsonl", b'{"a": 1}{', "a.jsonl:1: invalid JSON: Extra data"),
        ("a.jsonl", b'\n{"instance_id": ', "a.jsonl:2: invalid JSON"),
        ("a.jsonl", b'{"instance_id": NaN}', "a.jsonl:1: invalid JSON: NaN is not JSON"),
        ("a.jsonl", b"[" * 100_000, "a.jsonl:1: invalid JSON"),
        ("a.jsonl", b'{"a": ' + b"9" * 5000 + b"}", "a.jsonl:1: invalid JSON"),
        ("a.jsonl", b'\n{"a": "\xe9"}', "is not UTF-8: line 2, byte 8 of the file (0xe9)"),
        ("a.jsonl", b'\xef\xbb\xbf{"a": "\xff"}', "is not UTF-8: line 1, byte 10 of the file (0xff)"),
        ("a.json", b'[\n\n"\xfc"]', "is not UTF-8: line 3, byte 4 of the file (0xfc)"),
        ("a.jsonl", '{"a": 1}'.encode("utf-16"), "is not UTF-8: line 1, byte 0"),
        ("a.jsonl", b"\x00\x01\x02", "a.jsonl:1: invalid JSON"),
        ("a.parquet", b"PAR1 no", "is not a Parquet file"),
        ("a.csv", b"a,b", "is of an unknown kind"),
        ("a", b"{}", "is of an unknown kind"),
    ],
)
def test_a_malformed_file_is_named_with_the_place(name, content, expected, tmp_path):
    with pytest.raises(DatasetError) as caught:
        load_tasks(write(tmp_path / name, content))
    assert expected in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("line", ["[]", "3", '"text"', "null"])
def test_a_line_that_holds_no_object_is_named(line, tmp_path):
    path = write(tmp_path / "rows.jsonl", lines(ROWS[:1]) + line)
    with pytest.raises(RowError, match=r"rows\.jsonl:2: a row must be an object"):
        load_tasks(path)


def test_a_row_without_an_id_is_named(tmp_path):
    row = {key: value for key, value in ROWS[0].items() if key != "instance_id"}
    with pytest.raises(RowError, match=r"rows\.jsonl:2: the field 'instance_id' is missing"):
        load_tasks(write(tmp_path / "rows.jsonl", lines([ROWS[1], row])))


@pytest.mark.parametrize("missing", ["nothing.jsonl", "no/such.parquet", "a/b/c", "/nowhere", "a\0b", "x" * 5000])
def test_a_missing_file_is_said(missing):
    with pytest.raises(DatasetError) as caught:
        load_tasks(missing)
    assert caught.value.remedy


def test_a_misspelled_bundled_name_gets_a_proposal():
    with pytest.raises(DatasetError, match="did you mean mini"):
        load_tasks("minni")


def test_a_folder_without_tasks_is_said(tmp_path):
    with pytest.raises(DatasetError, match=r"there is no file .*tasks\.jsonl"):
        load_tasks(tmp_path)


@pytest.mark.parametrize("source", [5, None, b"rows.jsonl", pd.DataFrame(ROWS)])
def test_other_things_are_refused_with_a_remedy(source):
    with pytest.raises(DatasetError) as caught:
        load_tasks(source)
    assert caught.value.remedy


def test_missing_packages_are_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'swe_sdk\[parquet\]'"):
        load_tasks(write(tmp_path / "rows.parquet", b""))
    with pytest.raises(PrerequisiteError, match=r"pip install 'swe_sdk\[hub\]'"):
        load_tasks("some-org/some-set")


@pytest.mark.parametrize(
    "place",
    [
        "swebench_sdist/tasks.jsonl",
        "swebench_sdist/tasks_py311.jsonl",
        "rows/swe-bench/verified_classic.jsonl",
        "rows/swe-bench/verified_v5.jsonl",
        "rows/swe-bench/multimodal_v5.jsonl",
        "rows/swe-bench/marked_v5_js.jsonl",
        "rows/nemo_gym/swebench/example.jsonl",
    ],
)
@pytest.mark.shared
def test_real_files_load_with_their_family_detected(place):
    path = shared_dir() / "datasets" / place
    tasks = load_tasks(path)
    assert len(tasks) == len(path.read_text("utf-8").splitlines())
    assert {task.family for task in tasks} == {"swe-bench"}
    assert not any("log parser" in warning for warning in tasks.warnings)


@pytest.mark.parametrize("place", ["swe-bench-pro/rows.jsonl", "swe-rebench/v2_sample.jsonl"])
@pytest.mark.shared
def test_rows_of_other_families_are_not_taken_for_swe_bench(place):
    with pytest.raises(RowError, match=r"nothing is known about|unknown field"):
        load_tasks(shared_dir() / "datasets" / "rows" / place, family="swe-bench")


CONTENT = lines(ROWS[:2]).encode()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=60)
    | st.tuples(st.integers(0, len(CONTENT)), st.integers(0, 40), st.binary(max_size=6)).map(
        lambda cut: CONTENT[: cut[0]] + cut[2] + CONTENT[cut[0] + cut[1] :]
    )
)
@example(b'{"instance_id": "\\ud800"}')
def test_no_bytes_give_anything_but_tasks_or_an_input_error(tmp_path, content):
    for name in ("rows.jsonl", "rows.json", "rows.parquet"):
        try:
            tasks = load_tasks(write(tmp_path / name, content))
        except InputError:
            continue
        assert isinstance(tasks, TaskSet)


@pytest.mark.parametrize(("row", "field"), [(sample_rows.CLASSIC, "FAIL_TO_PASS"), (sample_rows.SDIST, "test_command")])
def test_an_incomplete_row_is_recognized_and_its_gap_named(row, field):
    with pytest.raises(RowError, match=f"the field '{field}' is missing"):
        load_tasks([{key: value for key, value in row.items() if key != field}])
