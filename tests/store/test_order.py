"""An index that was filled bit by bit, in any order and by anybody, equals one that is made at once."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from swe_sdk.model.budget import Budget
from swe_sdk.store import events as ev
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import RunIndex, open_index
from swe_sdk.store.journal import Journal
from swe_sdk.store.layout import events_folder, make_run
from swe_sdk.store.lines import encode_line
from tests.store.made import MASK, contents, outcome

ROLLOUTS = ("a__b-1.0", "a__b-1.1", "c__d-2.0")
CHECKPOINTS = ("c1", "c2")
WRITERS = 3


def _kinds() -> list[some.SearchStrategy[ev.Event]]:
    rollout = {"rollout_id": some.sampled_from(ROLLOUTS)}
    attempt: dict[str, Any] = {**rollout, "attempt": some.integers(1, 3)}
    point = {"checkpoint_id": some.sampled_from(CHECKPOINTS)}
    snapshot = {"snapshot_id": some.sampled_from(("s1", "s2"))}
    seconds = some.sampled_from((0.0, 0.5, 3.0))
    text = some.sampled_from(("", "why"))
    stage = some.sampled_from(("seed", "verify"))
    statuses = some.sampled_from(("resolved", "unresolved", "masked"))
    tags = some.sampled_from(({}, {"shard": "1"}, {"shard": "2"}))
    outcomes = statuses.map(outcome)
    return [
        some.builds(ev.RunStarted, name=text, resumed=some.booleans(), tags=tags, config=tags),
        some.builds(ev.RunEnded, reason=some.sampled_from(("finished", "stopped"))),
        some.builds(ev.RolloutQueued, **rollout, instance_id=some.sampled_from(("a__b-1", "x")), agent=text, tags=tags),
        some.builds(ev.AttemptStarted, **attempt, provider=text, restored_from=some.sampled_from((None, "c1"))),
        some.builds(ev.AttemptEnded, **attempt, reason=text, will_retry=some.booleans()),
        some.builds(ev.RolloutEnded, **attempt, status=statuses, reward=seconds, reason=text),
        some.builds(ev.RolloutParked, **attempt),
        some.builds(ev.RolloutUnparked, **attempt),
        some.builds(ev.StageStarted, **attempt, stage=stage),
        some.builds(ev.StageEnded, **attempt, stage=stage, seconds=seconds, ok=some.booleans()),
        some.builds(
            ev.StepTaken, **attempt, n=some.integers(0, 3), step_kind=some.just("note"), tokens_in=some.just(7)
        ),
        some.builds(ev.ModelCalled, **attempt, call_id=text, seconds=seconds, tokens_out=some.just(5)),
        some.builds(ev.BudgetCharged, **attempt, budget=some.builds(Budget, total_s=seconds, spent_s=seconds)),
        some.builds(ev.AttemptMasked, **attempt, mask=some.just(MASK)),
        some.builds(ev.OutcomeReached, **attempt, outcome=outcomes),
        some.builds(ev.ArtifactWritten, **attempt, name=some.just("log"), path=text, size_bytes=some.integers(0, 9)),
        some.builds(ev.ArtifactWritten, name=some.just("log"), path=text, is_open=some.booleans()),
        some.builds(ev.CheckpointPhase, **point, operation=text, seconds=seconds),
        some.builds(ev.CheckpointSaved, **point, path=text),
        some.builds(ev.CheckpointKept, **point, reason=text),
        some.builds(ev.CheckpointReleased, **point, reason=text),
        some.builds(ev.CheckpointRollout, **point, **attempt, held=some.just("saved")),
        some.builds(ev.SnapshotTaken, **point, **snapshot, size_bytes=some.integers(0, 9)),
        some.builds(ev.SnapshotReferenced, **point, **snapshot),
        some.builds(ev.SnapshotReleased, **snapshot, reason=text),
    ]


TIMES = some.sampled_from((1000.0, 1001.0, 1001.0, 1002.5))


def _happenings(kinds: list[some.SearchStrategy[ev.Event]]) -> some.SearchStrategy[list[Any]]:
    """Somebody appends an event (writer, event, time) or half a line, or one of two indexes is brought up to date."""
    appended = some.tuples(some.integers(0, WRITERS - 1), some.one_of(kinds), TIMES)
    return some.lists(
        some.one_of(appended, appended, some.sampled_from(("refresh", "refresh other", "tear"))), max_size=25
    )


# few kinds at once, so that they meet
HAPPENINGS = some.lists(some.sampled_from(_kinds()), min_size=1, max_size=3).flatmap(_happenings)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(HAPPENINGS)
def test_any_interleaving_equals_a_full_rebuild(happenings):
    place = Path(tempfile.mkdtemp(prefix="order-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        _check(place, happenings)
    finally:
        shutil.rmtree(place)


def _check(place: Path, happenings: list[Any]) -> None:
    run = place / "runs" / "r"
    make_run(run)
    journals = [Journal(events_folder(run)) for _ in range(WRITERS)]
    with (
        closing(open_index(run.parent, index_dir=place / "ix")) as one,
        closing(RunIndex(run.parent, place / "ix")) as two,
    ):
        torn = b""
        for happening in happenings:
            if happening == "refresh":
                one.refresh()
            elif happening == "refresh other":
                two.refresh()
            elif happening == "tear":
                torn = torn or _tear(journals[0].path)
                one.refresh()
            else:
                writer, event, at = happening
                if writer == 0 and torn:
                    torn = _mend(journals[0].path, torn)
                journals[writer].append(event, at)
        if torn:
            _mend(journals[0].path, torn)
        one.refresh()
        with closing(open_index(run.parent, index_dir=place / "new")) as new:
            assert contents(one) == contents(new)
            assert one.status().model_copy(update={"path": new.status().path}) == new.status()
            assert new.status().bad_lines == new.status().unread_bytes == 0
        assert one.refresh() == two.refresh() == 0
        assert contents(two) == contents(one)
    for journal in journals:
        journal.close()


def _tear(path: Path) -> bytes:
    """Write the first half of a line; returns the other one."""
    line = encode_line(10**6, 1001.0, ev.RolloutParked(rollout_id=ROLLOUTS[0], attempt=1))
    with path.open("ab") as file:
        file.write(line[:40])
    return line[40:]


def _mend(path: Path, rest: bytes) -> bytes:
    with path.open("ab") as file:
        file.write(rest)
    return b""


def test_the_newest_word_on_a_rollout_takes_its_tags_along(tmp_path: Path) -> None:
    """Also where it has none: whoever is read first."""
    make_run(tmp_path / "r")
    older, newer = Journal(events_folder(tmp_path / "r")), Journal(events_folder(tmp_path / "r"))
    with closing(open_index(tmp_path / "r", index_dir=tmp_path / "ix")) as one:
        older.append(ev.RolloutQueued(rollout_id="t-1.0", instance_id="t-1", tags={"shard": "1"}), 100.0)
        one.refresh()
        newer.append(ev.RolloutQueued(rollout_id="t-1.0", instance_id="t-1"), 200.0)
        one.refresh()
        with closing(open_index(tmp_path / "r", index_dir=tmp_path / "new")) as new:
            for index in (one, new):
                assert index.rollout("t-1.0").tags == {}
                assert index.count(RolloutFilter(tags={"shard": "1"})) == 0
    older.close()
    newer.close()
