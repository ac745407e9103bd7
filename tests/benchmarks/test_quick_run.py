"""Every benchmark runs on a small seed and prints a well-formed table. No figure is judged: machines differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import NAMES
from tests.leaks import memory_folder
from tests.shared import need_program, shared_dir

Run = tuple[str, str, dict[str, Any], Path]
_ROOT = Path(__file__).resolve().parents[2]
_EXPECTED = {
    "create": {"local box, wall", "local box, CPU", "C limit program, wall"},
    "execute": {"local box, wall", "local box, CPU", "posix_spawn (C, no sandbox), CPU"},
    "concurrent": {"8 boxes, created and used", "8 boxes, closed"},
    "snapshots": {"local snapshot, 1 MB", "local snapshot, 10 MB", "local fork and exec, 100 files"},
    "grading": {"mini, overhead of a grade (1 task)"},
    "parsers": {"django, ours", "pytest, ours", "sympy, ours"},
    "store": {"append a step", "page of 50, slowest of all", "index what 2 writers write, p99 behind"},
    "checkpoints": {"release of 20 snapshots", "prepare, 20 slow seeds in flight", "a rollout stands parked"},
}


_BRIDGE = Path("/sys/class/net/docker0")
_HAD_BRIDGE = _BRIDGE.exists()


@pytest.fixture(scope="module", params=NAMES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """One benchmark as a person runs it: its name, what it printed, its JSON, its state directory."""
    folder = tmp_path_factory.mktemp(request.param)
    state = Path(memory_folder() or folder) / f"swe_sdk-benchmark-test-{os.getpid()}"
    state.mkdir()
    command = [sys.executable, "-m", "benchmarks", request.param, "--quick", "--state", str(state)]
    outputs = ["--json", str(folder / "out.json"), "--markdown", str(folder / "out.md")]
    done = subprocess.run([*command, *outputs], cwd=_ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert (folder / "out.md").read_text().strip() == done.stdout.strip()
    yield request.param, done.stdout, json.loads((folder / "out.json").read_text()), state
    state.rmdir()


def test_has_its_rows_and_each_says_something(run: Run) -> None:
    name, _printed, content, _state = run
    (section,) = content["sections"]
    assert section["name"] == name
    if name == "parsers" and "shared data" in section["rows"][0]["note"]:
        shared_dir()
    if name in ("create", "execute"):
        need_program("cc")
    assert _EXPECTED[name] <= {row["name"] for row in section["rows"]}
    for row in section["rows"]:
        assert (row["value"] is None) == (row["unit"] == ""), row
        assert row["value"] is not None or row["note"], row
        assert row["value"] is None or row["value"] > 0, row
        assert (row["ratio"] is None) == (row["to"] == ""), row
        assert row["least"] is None or 0 < row["least"] <= row["value"], row
        assert (row["met"] is None) == (row["target"] is None or row["value"] is None), row


def test_prints_the_same_rows_as_a_table(run: Run) -> None:
    _name, printed, content, _state = run
    table = [line for line in printed.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert cells[0] == ["what", "median", "least", "unit", "ratio", "to", "target", "met"]
    assert {len(line) for line in cells} == {8}
    assert len({len(line) for line in table}) == 1, "columns are aligned"
    assert [line[0] for line in cells[2:]] == [row["name"] for row in content["sections"][0]["rows"]]
    for line, row in zip(cells[2:], content["sections"][0]["rows"], strict=True):
        if row["value"] is not None:
            assert float(line[1].replace(",", "")) == pytest.approx(row["value"], rel=0.01)


def test_leaves_nothing_behind(run: Run) -> None:
    _name, _printed, _content, state = run
    assert list(state.iterdir()) == []
    assert _BRIDGE.exists() is _HAD_BRIDGE, "a private daemon has removed the bridge of the machine's own"
    groups = [path for path in Path("/sys/fs/cgroup").glob("*/swe_sdk-benchmarks-*") if not _is_alive(path)]
    assert groups == []


def _is_alive(group: Path) -> bool:
    return Path("/proc", group.name.rpartition("-")[2]).exists()
