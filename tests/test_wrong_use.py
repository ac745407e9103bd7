"""What a newcomer gets wrong is a typed error that says what to do: names, paths and numbers where tasks belong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import swe_sdk as swe
from swe_sdk.errors import DatasetError, InputError, PredictionsError, UnknownLog
from swe_sdk.sandbox.providers.local.provider import LocalProvider

TASKS = swe.load_tasks("mini")
TASK = TASKS["mini__fairsplit-1"]

WRONG: dict[str, Callable[[], object]] = {
    "the name of a task is graded": lambda: swe.grade("mini__fairsplit-1", ""),  # type: ignore[arg-type]
    "a path is graded": lambda: swe.grade(Path("task.jsonl"), ""),  # type: ignore[arg-type]
    "a path is the patch": lambda: swe.grade(TASK, Path("fix.patch")),  # type: ignore[arg-type]
    "a number is the patch": lambda: swe.grade(TASK, 12),  # type: ignore[arg-type]
    "names of tasks are graded": lambda: swe.grade_many([TASK.instance_id]),  # type: ignore[list-item]
    "one name of a task is checked": lambda: swe.validate("mini__fairsplit-1"),
    "a sandbox of a name": lambda: swe.Sandbox("mini__fairsplit-1"),  # type: ignore[arg-type]
    "a sandbox of a folder": lambda: swe.Sandbox(Path("/tmp")),  # type: ignore[arg-type]
    "a sandbox of many tasks": lambda: swe.Sandbox(TASKS),  # type: ignore[arg-type]
    "an environment of a name": lambda: swe.prepare("mini__fairsplit-1"),  # type: ignore[arg-type]
    "a provider that is a class": lambda: swe.Sandbox(provider=LocalProvider),  # type: ignore[arg-type]
    "a number of snapshots": lambda: swe.Sandbox(snapshot=3),  # type: ignore[arg-type]
    "variables as a list": lambda: swe.Sandbox(env=["A=3"]),  # type: ignore[arg-type]
    "a network of another name": lambda: swe.Sandbox(network="all"),  # type: ignore[arg-type]
    "limits as a dictionary": lambda: swe.Sandbox(limits={"memory_mib": 3}),  # type: ignore[arg-type]
    "progress that is no function": lambda: swe.prepare(TASK, on_progress=3),  # type: ignore[arg-type]
    "tasks are compared": lambda: swe.compare(TASKS, TASKS),  # type: ignore[arg-type]
    "nothing is compared": lambda: swe.compare("/nowhere", "/nowhere"),
}


WRONG_IN_A_BOX: dict[str, Callable[[Any], object]] = {
    "a number among words": lambda box: box.exec(["ls", 3]),
    "a number for a command": lambda box: box.exec(3),
    "nothing for a command": lambda box: box.exec(None),
    "bytes for a command": lambda box: box.exec(b"ls"),
    "words of bytes": lambda box: box.exec([b"ls"]),
    "cwd": lambda box: box.exec("pwd", cwd=3),
    "env": lambda box: box.exec("true", env={"KEY": "secret", "A": 3}),
    "env, a list": lambda box: box.exec("true", env=["A=3"]),
    "user": lambda box: box.exec("true", user=0),
    "stdin, a file": lambda box: box.exec("cat", stdin=BytesIO(b"x")),
    "stdin, no UTF-8": lambda box: box.exec("cat", stdin="\udc80"),
    "timeout_s": lambda box: box.exec("true", timeout_s="3"),
    "output_bytes": lambda box: box.exec("true", output_bytes="3"),
    "output_bytes, half a byte": lambda box: box.exec("true", output_bytes=3.5),
    "on_output": lambda box: box.exec("echo x", on_output=3),
    "output_file": lambda box: box.exec("echo x", output_file=3),
    "path": lambda box: box.read_bytes(3),
    "encoding": lambda box: box.read_text("f", encoding="nope"),
    "bytes for text": lambda box: box.write_text("f", b"x"),
    "nothing for text": lambda box: box.write_text("f", None),
    "text for bytes": lambda box: box.write_bytes("f", "secret"),
    "text that is none in ASCII": lambda box: box.write_text("f", "\xe9", encoding="ascii"),
    "mode": lambda box: box.write_text("f", "x", mode="644"),
    "upload": lambda box: box.upload(3, "f"),
    "upload, to a number": lambda box: box.upload("/etc/passwd", 3),
    "download": lambda box: box.download(3, "f"),
    "download, to a number": lambda box: box.download("/etc/passwd", 3),
    "port": lambda box: box.listen("http"),
}


@pytest.fixture(scope="module")
def box() -> Iterator[swe.Sandbox]:
    with swe.Sandbox() as box:
        yield box


@pytest.mark.parametrize("what", WRONG_IN_A_BOX)
def test_what_no_call_of_a_sandbox_can_have_is_named(box: swe.Sandbox, what: str) -> None:
    with pytest.raises(InputError) as caught:
        WRONG_IN_A_BOX[what](box)
    assert caught.value.remedy.startswith("give ")
    assert "secret" not in str(caught.value)


def test_what_a_call_of_a_sandbox_can_have_beside_plain_types(box: swe.Sandbox, tmp_path: Path) -> None:
    """Paths, tuples, and whatever holds bytes."""
    box.write_bytes(Path("/tmp/f"), bytearray(b"x"))  # type: ignore[arg-type]
    box.download(Path("/tmp/f"), tmp_path / "f")  # type: ignore[arg-type]
    result = box.exec(("cat", "-", "f"), cwd=Path("/tmp"), stdin=memoryview(b"y"))  # type: ignore[arg-type]
    assert (result.stdout, (tmp_path / "f").read_bytes()) == ("yx", b"x")


@pytest.mark.parametrize("what", WRONG)
def test_it_is_named_and_says_what_to_give(what: str) -> None:
    with pytest.raises(InputError) as caught:
        WRONG[what]()
    assert caught.value.remedy
    assert len(str(caught.value)) < 700


def test_a_word_that_is_no_data_set_is_corrected() -> None:
    with pytest.raises(DatasetError, match="did you mean mini"):
        swe.grade_many("mnii", "gold")


def test_a_word_that_names_no_patches_is_corrected() -> None:
    with pytest.raises(PredictionsError, match="did you mean gold"):
        swe.grade_many(TASKS[:1], "golden")


def test_tasks_are_named_wherever_tasks_are_taken(tmp_path: Path) -> None:
    """Of one row, so that it takes no longer than it must."""
    (tmp_path / "rows").mkdir()
    row = {"instance_id": "a", "problem_statement": "", "directory": ".", "FAIL_TO_PASS": ["a"], "PASS_TO_PASS": []}
    row |= {"test_command": "true", "log_parser": "unittest"}
    (tmp_path / "rows" / "tasks.jsonl").write_text(json.dumps(row))
    outcomes = swe.grade_many(tmp_path / "rows", "empty", results=tmp_path / "results", progress=False)
    assert [outcome.instance_id for outcome in outcomes] == ["a"]


def test_a_file_that_a_rollout_does_not_have_is_a_key_that_is_not_there() -> None:
    error = UnknownLog("tests.log", ["verify-1/test.log"])
    assert isinstance(error, KeyError)
    assert "did you mean verify-1/test.log?" in str(error)
