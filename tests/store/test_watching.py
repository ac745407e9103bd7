"""What those who keep looking ask: has anything changed, and what is before and after this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from swe_sdk.errors import UnknownRollout
from swe_sdk.store import events as ev
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import open_index
from swe_sdk.store.writer import RunWriter
from tests.store.made import whole_rollout, write


def test_a_version_stays_until_something_changes(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", sync=False) as writer:
        writer.append(ev.RunStarted(name="run"))
        with open_index(tmp_path) as index:
            first = index.version()
            assert index.version() == first
            writer.append(ev.RolloutQueued(rollout_id="a.0", instance_id="a"))
            second = index.version()
            assert second != first
            assert index.version() == second
    with open_index(tmp_path) as index:
        assert index.version() != second, "its journal was closed"


def test_a_version_changes_when_a_writer_dies(tmp_path: Path) -> None:
    program = (
        "import sys; from swe_sdk.store.writer import RunWriter; from swe_sdk.store import events as ev;"
        f"w = RunWriter({str(tmp_path / 'run')!r}); w.append(ev.RunStarted());"
        "print('on', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        with open_index(tmp_path) as index:
            alive = index.version()
            assert index.run().alive
            process.kill()
            process.wait()
            assert index.version() != alive
            assert index.run().alive is False


def test_neighbours_are_those_of_the_pages(tmp_path: Path) -> None:
    for name in ("one", "two"):
        events = []
        for number in range(12):
            status = ("resolved", "unresolved", "masked")[number % 3]
            events += whole_rollout(f"task-{number:02}.0", status, steps=number % 4)
        write(tmp_path / name, *events)
    with open_index(tmp_path) as index:
        for chosen in (RolloutFilter(), RolloutFilter(run=("one",)), RolloutFilter(status=("masked", "resolved"))):
            for sort in ("rollout_id", "steps", "mask_kind", "remaining_s"):
                for descending in (False, True):
                    rows = index.rollouts(chosen, sort=sort, descending=descending, limit=100).rows  # type: ignore[arg-type]
                    found = [
                        index.neighbours(row.rollout_id, chosen, run=row.run, sort=sort, descending=descending)  # type: ignore[arg-type]
                        for row in rows
                    ]
                    assert [before for before, _behind in found] == [None, *rows[:-1]]
                    assert [behind for _before, behind in found] == [*rows[1:], None]
        masked = RolloutFilter(run=("one",), status=("masked",))
        before, behind = index.neighbours("task-03.0", masked, run="one", sort="rollout_id")
        assert (before and before.rollout_id, behind and behind.rollout_id) == ("task-02.0", "task-05.0")
        with pytest.raises(UnknownRollout):
            index.neighbours("nothing", run="one")
