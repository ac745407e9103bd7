"""Results on disk: durable, shared between processes, readable after a crash."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from swe_sdk.errors import InputError, NoSpace
from swe_sdk.model.outcome import Mask, Outcome, PatchReport
from swe_sdk.model.patch import Patch
from swe_sdk.store.atomic import append_line
from swe_sdk.store.results import BadOutcomeLine, Results, outcome_json, read_outcomes
from tests.shared import full_device

PATCH = Patch.of(b"caf\xe9\r\n\x00")


def outcome(name: str = "a__b-1", **changes) -> Outcome:
    base = {
        "instance_id": name,
        "family": "swe-bench",
        "status": "resolved",
        "reward": 1.0,
        "patch": PatchReport(exists=True, applied=True, rung="git-apply", sha256=PATCH.sha256),
        "key": "k" * 64,
    }
    return Outcome(**{**base, **changes})


def test_artifacts_and_lines(tmp_path):
    results = Results(tmp_path / "new" / "dir")
    folder = results.folder("a__b-1", "k" * 64)
    (folder / "test.log").write_text("log")
    saved = results.save(folder, PATCH, outcome())
    results.append(saved)
    assert folder.relative_to(results.path) == Path("artifacts/a__b-1/kkkkkkkkkkkk-1")
    assert Path(saved.artifacts["patch"]).read_bytes() == PATCH.data
    assert Outcome.model_validate_json(Path(saved.artifacts["outcome"]).read_bytes()) == saved
    assert Path(saved.artifacts["log"]).read_text() == "log"
    assert results.read() == read_outcomes(results.path) == read_outcomes(results.outcomes_path) == [saved]
    assert sorted(p.name for p in folder.iterdir()) == ["outcome.json", "patch.diff", "test.log"]


def test_equal_grades_get_folders_of_their_own(tmp_path):
    results = Results(tmp_path)
    folders = {results.folder("x", "k" * 64) for _ in range(3)}
    assert {f.name for f in folders} == {f"{'k' * 12}-{n}" for n in (1, 2, 3)}


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "..", "\x00", "é" * 300, "con trol\n"])
def test_any_instance_id_stays_within_the_directory(tmp_path, name):
    folder = Results(tmp_path).folder(name, "k" * 64)
    assert folder.parent.parent == tmp_path / "artifacts"
    assert folder.is_dir()


def test_json_shape():
    mask = Mask(kind="timeout", stage="create", reason="slow", retryable=True, evidence={"a": 1})
    data = json.loads(outcome_json(outcome(status="masked", reward=0.0, mask=mask)))
    assert data["mask"] == {
        "kind": "timeout",
        "stage": "create",
        "reason": "slow",
        "retryable": True,
        "evidence": {"a": 1},
    }
    assert set(data) >= {"instance_id", "status", "reward", "mask", "tests", "patch", "timings_s", "key"}
    assert set(data["tests"]) == {"fail_to_pass", "pass_to_pass"}
    assert set(data["patch"]) >= {"exists", "applied", "rung", "sha256"}
    assert outcome_json(outcome(reason="é\n\u2028")).isascii()


def test_half_written_line_is_skipped_and_spoils_nothing(tmp_path):
    results = Results(tmp_path)
    results.append(outcome("one"))
    with results.outcomes_path.open("ab") as file:
        file.write(outcome_json(outcome("half")).encode()[:50])
    with pytest.warns(BadOutcomeLine, match="outcomes.jsonl:2"):
        assert [o.instance_id for o in results.read()] == ["one"]
    results.append(outcome("three"))
    with pytest.warns(BadOutcomeLine):
        assert [o.instance_id for o in results.read()] == ["one", "three"]


WRITER = """
import sys
from pathlib import Path
from swe_sdk.store.atomic import append_line
for number in range(200):
    append_line(Path(sys.argv[1]), (sys.argv[2] * 3000 + str(number)).encode())
"""


def test_processes_may_share_a_file(tmp_path):
    path = tmp_path / "shared.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), letter]) for letter in "abc"]
    assert [w.wait(60) for w in writers] == [0, 0, 0]
    lines = [line for line in path.read_text().split("\n") if line]
    assert len(lines) == 600
    for letter in "abc":
        mine = [line.removeprefix(letter * 3000) for line in lines if line[0] == letter]
        assert mine == [str(number) for number in range(200)]


def test_full_disk_is_typed(tmp_path):
    (tmp_path / "outcomes.jsonl").symlink_to(full_device())
    with pytest.raises(NoSpace, match="cannot write"):
        Results(tmp_path).append(outcome())


def test_places_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="results directory") as caught:
        Results(tmp_path / "file" / "below")
    assert "SWE_SDK_RESULTS" in caught.value.remedy
    with pytest.raises(InputError, match="cannot read"):
        read_outcomes(tmp_path / "nothing.jsonl")
    assert Results(tmp_path / "empty").read() == []


def test_default_directory_is_new_each_time(tmp_path, monkeypatch):
    monkeypatch.setenv("SWE_SDK_RESULTS", str(tmp_path))
    first, second = Results(), Results()
    assert first.path != second.path
    assert first.path.parent == tmp_path


def test_append_line_makes_its_folder(tmp_path):
    append_line(tmp_path / "a" / "b" / "c.jsonl", b"x\n")
    assert (tmp_path / "a" / "b" / "c.jsonl").read_bytes() == b"x\n"
