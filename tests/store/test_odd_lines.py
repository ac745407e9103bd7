"""Whatever stands in a journal: it is read, or counted as bad; no line makes an index fail or a query raise."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from swe_sdk.model.budget import Budget
from swe_sdk.store import events as ev
from swe_sdk.store import lines
from swe_sdk.store.index import open_index
from swe_sdk.store.layout import events_folder, make_run
from tests.store.made import MASK, contents, whole_rollout

OF: dict[str, Any] = {"rollout_id": "a__b-1.0", "attempt": 1}
EVENTS = [
    *whole_rollout("a__b-1.0", "masked"),
    ev.RunStarted(name="n", config={"a": 1}, tags={"k": "v"}),
    ev.ModelCalled(**OF, call_id="1", status=200),
    ev.BudgetCharged(**OF, budget=Budget(total_s=5, spent_s=1)),
    ev.AttemptMasked(**OF, mask=MASK),
    ev.ArtifactWritten(**OF, name="log", path="rollouts/a/1/log"),
    ev.CheckpointSaved(checkpoint_id="c"),
    ev.SnapshotTaken(checkpoint_id="c", snapshot_id="s", rollout_id="a__b-1.0", attempt=1),
]
ODD = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(),
    some.sampled_from((2**31, 2**53, 2**63, 10**40, -1, 0)),
    some.floats(),
    some.text(max_size=8),
    some.sampled_from(("", "\x00", "'; --", "\u202e", "%_\\", "a" * 3000)),
    some.just([]),
    some.just({}),
)


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """Ways to all values within a value."""
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += places(item, (*path, key))
    return found


def replaced(value: Any, path: tuple, new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@some.composite
def odd_line(draw: Any) -> bytes:
    """A line of a journal in which one value is another one."""
    event = draw(some.sampled_from(EVENTS))
    line = json.loads(lines.encode_line(draw(some.integers(1, 99)), 1000.5, event))
    return json.dumps(replaced(line, draw(some.sampled_from(places(line))), draw(ODD))).encode()


@settings(max_examples=300, deadline=None)
@given(some.binary(max_size=60) | odd_line())
def test_a_line_is_read_or_bad(data):
    try:
        line = lines.decode_line(data)
    except lines.BadLine:
        return
    assert lines.decode_line(lines.encode_line(line.n, line.t, line.event)[:-1]).event.kind == line.event.kind


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some.lists(odd_line(), min_size=1, max_size=25))
def test_an_index_takes_any_line(written):
    place = Path(tempfile.mkdtemp(prefix="odd-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        make_run(place / "r")
        (events_folder(place / "r") / "j.jsonl").write_bytes(b"".join(line + b"\n" for line in written))
        with open_index(place / "r", index_dir=place / "ix") as index:
            status = index.status()
            assert (status.lines, status.unread_bytes) == (len(written), 0)
            assert contents(index)["runs"]
            index.changes()
            for row in index.rollouts(limit=100).rows:
                assert index.rollout(row.rollout_id) == row
    finally:
        shutil.rmtree(place)
