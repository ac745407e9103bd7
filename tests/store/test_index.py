"""Queries: pages in every order, filters, groups, details, what changed, several runs, damage."""

from __future__ import annotations

import random
import shutil
import threading
import warnings

import pytest

from benchmarks.made_up_runs import write_run
from swe_sdk.errors import InputError, UnknownRollout, UnknownRun
from swe_sdk.model.budget import Budget
from swe_sdk.store import events as ev
from swe_sdk.store import pages
from swe_sdk.store.filters import GROUP_COLUMNS, SORT_COLUMNS, RolloutFilter
from swe_sdk.store.index import RunIndex, open_index
from swe_sdk.store.writer import RunWriter
from tests.store.made import MASK, all_rollouts, outcome, whole_rollout, write


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> RunIndex:
    folder = tmp_path_factory.mktemp("runs")
    for number in range(3):
        write_run(folder / f"run-{number}", 70, seed=number, unfinished=number == 2)
    (folder / "not a run").mkdir()
    (folder / "file").write_text("")
    with open_index(folder, index_dir=tmp_path_factory.mktemp("ix")) as index:
        yield index


FILTERS = (
    RolloutFilter(),
    RolloutFilter(status=("masked", "queued")),
    RolloutFilter(run=("run-1",), final=True),
    RolloutFilter(text="SYMPY"),
    RolloutFilter(tags={"shard": "3"}),
    RolloutFilter(provider=("local",), family=("swe-bench", "r2e-gym")),
    RolloutFilter(final=False),
    RolloutFilter(text="%"),
)


def expected(rows, chosen: RolloutFilter):
    """What a filter holds for, in Python."""
    for row in rows:
        single = all(not getattr(chosen, name) or getattr(row, name) in getattr(chosen, name) for name in (
            "run", "status", "provider", "family"
        ))  # fmt: skip
        tagged = chosen.tags.items() <= row.tags.items()
        if (
            single
            and tagged
            and chosen.text.lower() in row.instance_id.lower()
            and chosen.final in (None, row.is_final)
        ):
            yield row


@pytest.mark.parametrize("few", [0, 5000])
@pytest.mark.parametrize("chosen", FILTERS, ids=str)
def test_pages_in_every_order(runs, chosen, few, monkeypatch):
    """However rows are found (``few``), pages hold each of them once, in order, by cursor and by offset."""
    monkeypatch.setattr(pages, "_FEW", few)
    rows = list(expected(all_rollouts(runs), chosen))
    for sort in SORT_COLUMNS:
        for descending in (False, True):
            page, found = None, []
            while page is None or page.cursor is not None:
                cursor = None if page is None else page.cursor
                page = runs.rollouts(chosen, sort=sort, descending=descending, limit=17, cursor=cursor)
                assert page.total == len(rows)
                found += page.rows
            keys = [(getattr(row, sort) is not None, getattr(row, sort) or 0) for row in found]
            if isinstance(keys[0][1] if keys else 0, str):
                keys = [(key[0], key[1] or "") for key in keys]
            assert keys == sorted(keys, reverse=descending)
            assert sorted((row.run, row.rollout_id) for row in found) == sorted((r.run, r.rollout_id) for r in rows)
            by_offset = runs.rollouts(chosen, sort=sort, descending=descending, offset=17, limit=17, total=False)
            assert list(by_offset.rows) == found[17:34]
            assert by_offset.total is None


def test_groups_and_sums_equal_those_of_the_rows(runs):
    rows = all_rollouts(runs)
    for by in GROUP_COLUMNS:
        for chosen in FILTERS[:4]:
            mine = list(expected(rows, chosen))
            groups = {group.value: group for group in runs.groups(by, chosen)}
            for value in {getattr(row, by) for row in mine}:
                members = [row for row in mine if getattr(row, by) == value]
                group = groups.pop(None if value is None else str(value))
                graded = [row.reward for row in members if row.status in ("resolved", "unresolved")]
                assert group.rollouts == len(members)
                assert group.masked == sum(row.status == "masked" for row in members)
                assert group.reward_mean == (pytest.approx(sum(graded) / len(graded)) if graded else None)
            assert groups == {}
    totals = runs.budget_totals()
    assert totals.spent_s == pytest.approx(sum(row.spent_s for row in rows))
    assert totals.exhausted == sum(row.remaining_s == 0 for row in rows)
    for run in runs.runs():
        of_run = [row for row in rows if row.run == run.run]
        graded = [row.reward for row in of_run if row.status in ("resolved", "unresolved")]
        assert (run.rollouts, sum(run.counts.values())) == (len(of_run), len(of_run))
        assert run.reward_mean == pytest.approx(sum(graded) / len(graded))
        assert run.graded == len(graded)
    seconds = {row.stage: row for row in runs.stage_seconds()}
    assert list(seconds) == ["seed", "invoke_agent"]
    stages = [stage for row in rows for stage in runs.stages(row.rollout_id, run=row.run) if stage.stage == "seed"]
    assert seconds["seed"].count == len(stages)
    assert seconds["seed"].total_s == pytest.approx(sum(stage.seconds for stage in stages))


def test_masks(runs):
    masks = runs.masks(limit=1000)
    rows = all_rollouts(runs)
    assert masks.total == len(masks.rows) > 0
    assert sum(mask.is_final for mask in masks.rows) == sum(row.status == "masked" for row in rows)
    assert [mask.at for mask in masks.rows] == sorted((mask.at for mask in masks.rows), reverse=True)
    kind = masks.rows[0].mask.kind
    assert {mask.mask.kind for mask in runs.masks(kind=kind).rows} == {kind}
    assert masks.rows[0].mask.evidence == {"exit": 137}


def test_names_that_are_not_there(runs):
    with pytest.raises(UnknownRun, match="run-0"):
        runs.run("run-9")
    with pytest.raises(UnknownRun):
        runs.config()
    row = all_rollouts(runs)[0]
    with pytest.raises(UnknownRollout, match="did you mean"):
        runs.rollout(row.rollout_id[:-1] + "77", run=row.run)
    with pytest.raises(InputError, match="column"):
        runs.rollouts(sort="rid; DROP TABLE rollouts")
    with pytest.raises(InputError, match="column"):
        runs.groups("1")
    for cursor in ("!", "e30=", "AAAA", "W10="):
        with pytest.raises(InputError, match="cursor"):
            runs.rollouts(cursor=cursor)
    with pytest.raises(InputError, match="sorted otherwise"):
        runs.rollouts(sort="steps", cursor=runs.rollouts(sort="seq", limit=1).cursor)
    with pytest.raises(InputError, match="cursor"):
        runs.changes("1:x")


def test_a_filter_of_very_many_values(runs):
    ids = tuple({row.instance_id for row in all_rollouts(runs)})
    many = RolloutFilter(instance_id=(*ids[:3], *(f"none-{n}" for n in range(300_000))))
    assert runs.rollouts(many).total == runs.count(RolloutFilter(instance_id=ids[:3])) > 0
    assert runs.count(RolloutFilter(run=tuple(f"run-{n}" for n in range(1, 2000)))) == 140


def test_hostile_values_are_only_values(tmp_path):
    name = "x'; DROP TABLE rollouts; --"
    write(tmp_path / "r", ev.RolloutQueued(rollout_id=f"{name}.0", instance_id=name, agent=name, tags={name: name}))
    with open_index(tmp_path / "r", index_dir=tmp_path / "ix") as index:
        chosen = RolloutFilter(agent=(name,), tags={name: name}, text=name, run=("r",))
        assert index.rollouts(chosen).rows[0].instance_id == name
        assert index.count(RolloutFilter(text="_; DROP")) == 0


def test_the_story_of_a_rollout(tmp_path):
    run = tmp_path / "r"
    of = {"rollout_id": "a__b-1.0", "attempt": 1}
    with RunWriter(run, sync=False) as writer, open_index(run, index_dir=tmp_path / "ix") as index:

        def after(*events: ev.Event):
            for event in events:
                writer.append(event)
            index.refresh()
            return index.rollout("a__b-1.0")

        writer.append(ev.RunStarted(name="n", config={"budget_s": 5}, tags={"k": "v"}))
        assert (
            after(ev.RolloutQueued(rollout_id="a__b-1.0", instance_id="a__b-1", provider="docker")).status == "queued"
        )
        row = after(ev.AttemptStarted(**of, provider="local"), ev.StageStarted(**of, stage="seed"))
        assert (row.status, row.stage, row.attempt, row.provider, row.seconds) == ("running", "seed", 1, "local", None)
        assert after(ev.StageEnded(**of, stage="seed", seconds=1)).stage is None
        assert after(ev.RolloutParked(**of)).status == "parked"
        assert after(ev.RolloutUnparked(**of)).status == "running"
        after(ev.ModelCalled(**of, call_id="1", tokens_in=5), ev.StepTaken(**of, n=0, step_kind="model", tokens_in=99))
        after(ev.AttemptMasked(**of, mask=MASK), ev.BudgetCharged(**of, budget=Budget(total_s=10, spent_s=4)))
        row = after(ev.AttemptEnded(**of, reason="sandbox_lost", will_retry=True))
        assert (row.status, row.reward, row.mask_kind, row.remaining_s, row.tokens_in) == ("retrying", None, None, 6, 5)
        second = {**of, "attempt": 2}
        assert after(ev.AttemptStarted(**second, restored_from="c1")).restored_from == "c1"
        assert row.spent_s == 4
        row = after(*whole_rollout("a__b-1.0", "unresolved", attempt=2)[1:])
        assert (row.status, row.reward, row.attempt, row.is_final) == ("unresolved", 0.0, 2, True)
        assert (row.fail_to_pass_passed, row.pass_to_pass_passed, row.pass_to_pass_total) == (1, 1, 2)
        assert [(a.attempt, a.mask_kind, a.outcome) for a in index.attempts("a__b-1.0")] == [
            (1, "timeout", None),
            (2, None, "unresolved"),
        ]
        assert index.verdicts("a__b-1.0")[0].status == "PASSED"
        assert [v.test for v in index.verdicts("a__b-1.0", attempt=2)] == ["t::new", "t::old"]
        assert index.outcome("a__b-1.0") == outcome("unresolved")
        assert index.model_calls("a__b-1.0").rows[0].call.call_id == "1"
        assert after(ev.AttemptStarted(**{**of, "attempt": 3})).status == "running", (
            "a third attempt makes it live again"
        )
        assert index.config() == {"budget_s": 5}
        row = index.run()
        assert (row.alive, row.ended_at, row.times_resumed) == (True, None, 0)
        writer.append(ev.RunEnded(reason="stopped", message="by hand"))
        index.refresh()
        assert (index.run().end_reason, index.run().message) == ("stopped", "by hand")
        writer.append(ev.RunStarted(name="n", resumed=True))
        index.refresh()
        assert (index.run().end_reason, index.run().times_resumed, index.config()) == (None, 1, {})
    with open_index(run, index_dir=tmp_path / "ix") as index:
        assert index.run().alive is False


def test_checkpoints_and_snapshots(tmp_path):
    write(
        tmp_path / "r",
        ev.CheckpointPhase(checkpoint_id="c3", operation="prepare", seconds=1, ok=False, message="blocked"),
        ev.SnapshotTaken(checkpoint_id="c1", snapshot_id="s1", size_bytes=10),
        ev.SnapshotTaken(checkpoint_id="c1", snapshot_id="s2"),
        ev.SnapshotTaken(checkpoint_id="c2", snapshot_id="s3"),
        ev.CheckpointRollout(checkpoint_id="c1", rollout_id="a.0", attempt=1, held="restart", reason="first seed"),
        ev.CheckpointSaved(checkpoint_id="c1", records=1, restarts=1),
        ev.CheckpointSaved(checkpoint_id="c2"),
        ev.SnapshotReferenced(checkpoint_id="c2", snapshot_id="s1"),
        ev.CheckpointReleased(checkpoint_id="c1", reason="keep_last=1"),
        ev.SnapshotReleased(snapshot_id="s3"),
    )
    with open_index(tmp_path / "r", index_dir=tmp_path / "ix") as index:
        states = [(c.checkpoint_id, c.state, c.state_reason) for c in index.checkpoints()]
        assert states == [("c1", "released", "keep_last=1"), ("c2", "kept", ""), ("c3", "saving", "")]
        found = {s.snapshot_id: (s.referenced_by, s.kept_by, s.trouble) for s in index.snapshots("r")}
        assert found == {
            "s1": (("c1", "c2"), ("c2",), None),
            "s2": (("c1",), (), "leak"),
            "s3": (("c2",), ("c2",), "violation"),
        }
        assert index.checkpoint_phases()[0].message == "blocked"
        assert index.checkpoint_rollouts("c1")[0].reason == "first seed"


def test_changes_are_told_once_and_in_pages(tmp_path):
    run = tmp_path / "runs" / "r"
    with RunWriter(run, sync=False) as writer, open_index(run.parent, index_dir=tmp_path / "ix") as index:
        for number in range(25):
            writer.append(ev.RolloutQueued(rollout_id=f"t-{number}.0", instance_id=f"t-{number}"))
        seen, cursor, more = [], None, True
        while more:
            changes = index.changes(cursor, limit=10)
            assert changes.is_reset == (cursor is None)
            seen += [row.rollout_id for row in changes.rollouts]
            cursor, more = changes.cursor, changes.more
        assert len(seen) == len(set(seen)) == 25
        assert index.changes(cursor).rollouts == ()
        writer.append(ev.CheckpointSaved(checkpoint_id="c"))
        changes = index.changes(cursor)
        assert (changes.rollouts, changes.runs, changes.is_reset) == ((), ("r",), False)
        writer.append(ev.AttemptStarted(rollout_id="t-3.0", attempt=1))
        changes = index.changes(changes.cursor)
        assert [row.status for row in changes.rollouts] == ["running"]
        shutil.rmtree(run)
        assert index.changes(changes.cursor).is_reset
        assert index.runs() == []


def test_a_missing_journal_is_no_error_of_a_page(tmp_path):
    write(tmp_path / "r", *whole_rollout("t-1.0"))
    with open_index(tmp_path / "r", index_dir=tmp_path / "ix") as index:
        for journal in (tmp_path / "r/events").iterdir():
            journal.unlink()
        assert [row.step for row in index.steps("t-1.0").rows] == [None, None]
        assert index.outcome("t-1.0") is None


def test_threads_share_an_index_that_follows(tmp_path):
    run = tmp_path / "r"
    errors: list[BaseException] = []
    with RunWriter(run, sync=False) as writer, open_index(run, index_dir=tmp_path / "ix") as index:
        done = threading.Event()

        def look() -> None:
            try:
                while not done.is_set():
                    index.refresh()
                    page = index.rollouts(limit=5, sort=random.choice(SORT_COLUMNS))
                    assert page.total >= len(page.rows)
                    index.runs()
            except BaseException as error:  # noqa: BLE001 - told to the test's own thread
                errors.append(error)

        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(60):
            for event in whole_rollout(f"t-{number}.0"):
                writer.append(event)
        done.set()
        for thread in threads:
            thread.join()
        index.refresh()
        assert errors == []
        assert index.run().counts == {"resolved": 60}


def test_patch_and_artifacts(tmp_path):
    with RunWriter(tmp_path / "r") as writer, open_index(tmp_path / "r", index_dir=tmp_path / "ix") as index:
        writer.save("patch.diff", b"old\xff", rollout_id="t.0", attempt=1, role="patch")
        writer.save("patch.diff", b"new\xff", rollout_id="t.0", attempt=2, role="patch")
        writer.save("config.json", b"{}")
        log = writer.artifact("log", rollout_id="t.0", attempt=2)
        log.write(b"hello\n")
        index.refresh()
        assert index.patch("t.0").data == b"new\xff"
        assert index.patch("t.0", attempt=1).data == b"old\xff"
        assert [row.name for row in index.artifacts()] == ["config.json"]
        row = next(row for row in index.artifacts("t.0") if row.name == "log")
        assert row.is_open
        with index.open_artifact(row) as file:
            log.write(b"world\n")
            assert [line.text for line in file.tail(1)] == ["world"]
        log.close()
        index.refresh()
        assert {row.is_open for row in index.artifacts("t.0")} == {False}
        assert index.patch("t.0", attempt=3) is None


def test_nothing_is_left_open(tmp_path):
    write(tmp_path / "r", *whole_rollout("t-1.0"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index = open_index(tmp_path / "r", index_dir=tmp_path / "ix")
        index.close()
        index.close()
