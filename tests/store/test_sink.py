"""Grades that go straight into a run."""

from __future__ import annotations

from pathlib import Path

from swe_sdk.grading.sink import OutcomeSink
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.store.index import open_index
from swe_sdk.store.sink import AttemptSink
from swe_sdk.store.windows import WindowedFile
from swe_sdk.store.writer import RunWriter
from tests.store.made import outcome

PATCH = Patch.of(b"caf\xe9\r\n\x00")


def test_files_and_outcome_of_an_attempt(tmp_path):
    with RunWriter(tmp_path / "r") as writer:
        sink: OutcomeSink = AttemptSink(writer, "a__b-1.0", 2)
        first, second = sink.folder("a__b-1", "k"), sink.folder("a__b-1", "k")
        (first / "test.log").write_bytes(b"short\n")
        (second / "test.log").write_bytes(b"a long line of a log\n" * 100_000)
        saved = [sink.save(folder, PATCH, outcome()) for folder in (first, second)]
        sink.append(saved[1])
    assert [Path(s.artifacts["log"]).name for s in saved] == ["test.log", "test.log.gz"]
    for each in saved:
        assert Path(each.artifacts["patch"]).read_bytes() == PATCH.data
        assert Outcome.model_validate_json(Path(each.artifacts["outcome"]).read_bytes()) == each
    with WindowedFile(saved[1].artifacts["log"]) as log:
        assert log.size == 2_100_000
    with open_index(tmp_path / "r", index_dir=tmp_path / "ix") as index:
        assert index.outcome("a__b-1.0") == saved[1]
        names = [row.name for row in index.artifacts("a__b-1.0", attempt=2)]
        tries = ("verify-1", "verify-2")
        assert names == [f"{t}/{name}" for t in tries for name in ("outcome.json", "patch.diff", "test.log")]
        assert index.patch("a__b-1.0").data == PATCH.data
