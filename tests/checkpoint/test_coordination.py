"""The coordinator, the controller, retention, and what is on disk (CK-11)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from swe_sdk.checkpoint import (
    CheckpointController,
    CheckpointSettings,
    ControllerSettings,
    Retention,
    SandboxCheckpointer,
    catalog,
    store,
)
from swe_sdk.checkpoint.catalog import BadCheckpoint, GymCheckpoint
from swe_sdk.checkpoint.messages import (
    CommitRequest,
    ForgetRequest,
    PrepareRequest,
    ReleaseRequest,
    RestoreRequest,
    ResumeRequest,
    RetireRequest,
)
from swe_sdk.checkpoint.records import CheckpointRecord, EpisodeRecord, ModelRecord
from swe_sdk.checkpoint.retention import Candidate, kept
from swe_sdk.errors import CheckpointError, CoordinationError
from swe_sdk.store.checkpoints import Details
from swe_sdk.testing import FakeProvider
from tests.checkpoint.house import House, KeepsNothing, ep, house, refused, seed, settled, within
from tests.checkpoint.virtual import clock, simulated


def controller(one: House, **fields: Any) -> CheckpointController:
    return CheckpointController(one.coordinator, one.directory, clock=clock, **fields)


@simulated
async def test_prepare_asks_stage_by_stage_and_stops_at_the_first_that_is_not_ready(tmp_path: Path) -> None:
    async with house(tmp_path) as one:
        async with one.gate.call(ep("r")) as call:
            await call.deliver({"n": 1})
            prepared = await one.coordinator.prepare(PrepareRequest(checkpoint_id="c1", **within(3)))
        assert list(prepared.reports) == ["episodes", "model"]
        assert prepared.blockers == {"model": ("a reply to r#1 is being delivered",)}
        assert [participant.is_closed for participant in (one.agent, one.resources)] == [False, False]
        await one.coordinator.resume(ResumeRequest(checkpoint_id="c1", **within(3)))
        assert (await one.coordinator.prepare(PrepareRequest(checkpoint_id="c2", **within(3)))).ready


@simulated
async def test_resume_goes_on_after_failures_and_names_them(tmp_path: Path) -> None:
    class Down:
        def __getattr__(self, _name: str) -> Any:
            async def unreachable(*_args: Any) -> Any:
                raise ConnectionError("no route")

            return unreachable

    async with house(tmp_path) as one:
        await one.coordinator.prepare(PrepareRequest(checkpoint_id="c1", **within(30)))
        one.coordinator.participants["agent"] = Down()  # type: ignore[assignment]
        one.coordinator.participants["other"] = Down()  # type: ignore[assignment]
        with pytest.raises(CoordinationError) as caught:
            await one.coordinator.resume(ResumeRequest(checkpoint_id="c1", **within(30)))
        assert caught.value.operation == "resume"
        assert caught.value.failures.keys() == {"agent", "other"}
        assert not any(each.is_closed for each in (one.episodes, one.model, one.resources))
        one.coordinator.participants["agent"] = one.agent
        released = await one.coordinator.release(ReleaseRequest(checkpoint_id="c1", kept=(), **within(3)))
        assert released.failures.keys() == {"agent", "other"}, "the agent was not resumed"
        assert released.released == 1


@simulated
async def test_a_failed_restore_leaves_nothing_anywhere(tmp_path: Path) -> None:
    async with house(tmp_path) as one:
        await one.agent.seed(seed())
        async with one.episodes.episode(ep("r"), task="t", total_s=None) as episode, episode.step("replay"):
            async with one.resources.request("res", ep("r")):
                pass
            saved = await controller(one).save()

    class Fails(KeepsNothing):
        async def restore_session_states(self, states: Any) -> None:
            await anyio.sleep(3)
            raise RuntimeError("no room")

    async with house(tmp_path, resources=Fails()) as one:
        with pytest.raises(CoordinationError) as caught:
            await controller(one).restore()
        assert caught.value.failures == {"resources": "RuntimeError('no room')"}
        for participant in (one.episodes, one.model, one.agent, one.resources):
            status = await participant.status()
            assert status.phase == "idle"
            assert status.retired_rollouts == {"r": 2}, "the next attempt is over everywhere"
        assert (await one.episodes.status()).extras == {"restored_pending": 0}
        assert one.agent._sessions == {}
        with refused("stale_attempt"):
            async with one.episodes.episode(ep("r", 2), task="t", total_s=None):
                pass
        await one.coordinator.forget(ForgetRequest(checkpoint_id="f", rollout_ids=("r",), **within(5)))
        async with one.episodes.episode(ep("r", 3), task="t", total_s=None):
            pass
    assert saved.status == "complete"


@simulated
async def test_retire_reaches_everybody_in_order(tmp_path: Path) -> None:
    async with house(tmp_path) as one, anyio.create_task_group() as tasks:

        async def call() -> None:
            with refused("stale_attempt"):
                async with one.gate.call(ep("r")):
                    await anyio.sleep_forever()

        tasks.start_soon(call)
        await settled()
        await one.coordinator.retire(RetireRequest(checkpoint_id="x", episode_ids=(ep("r"),), **within(5)))
        assert one.gate.calls() == []


@simulated
async def test_a_required_kind_must_be_there(tmp_path: Path) -> None:
    async with house(tmp_path) as one:
        one.coordinator._requires = frozenset({"model"})
        assert (await one.coordinator.discover()).keys() == {"episodes", "model", "agent", "resources"}
        del one.coordinator.participants["model"]
        one.coordinator._kinds.clear()
        with refused("checkpoint_error"):
            await one.coordinator.discover()


# -- the controller ----------------------------------------------------------------------------------------------------


@simulated
async def test_a_save_says_what_it_has_and_a_restore_gives_it_back(tmp_path: Path) -> None:
    async with house(tmp_path) as one:
        await one.agent.seed(seed("a", ep("a")))
        one.gate.rows.add(ep("a"), {"n": 1})
        async with one.episodes.episode(ep("a"), task="t", total_s=None) as episode:
            await episode.boundary({"at": 1})
            async with episode.step("replay"):
                saved = await controller(one).save(score=0.5)
        assert saved.details.records == {"episodes": 1, "model": 1, "agent": 1, "resources": 0}
        assert saved.details.phases_s.keys() == {"prepare", "commit", "resume"}
        assert saved.details.score == 0.5
        written = json.loads((Path(saved.path) / "gym_checkpoint.json").read_text())
        assert written == {
            "schema_version": 2,
            "checkpoint_id": saved.checkpoint_id,
            "instances": {"run": [{"rollout_id": "a", "attempt": 1}]},
            "staging_keys": [],
        }
        assert sorted(path.name for path in Path(saved.path).glob("gym/*/*")) == [
            "agent",
            "episodes",
            "model",
            "resources",
        ]
    async with house(tmp_path) as one:
        assert await controller(one).restore() == (ep("a"),)
        assert one.gate.rows.captured() == {ep("a"): [{"n": 1}]}
        async with one.episodes.episode(ep("a", 2), task="t", total_s=None) as episode:
            assert episode.take_continuation() == {"at": 1}


@simulated
async def test_a_save_that_is_not_ready_in_time_is_given_up_and_everything_goes_on(tmp_path: Path) -> None:
    async with house(tmp_path) as one:
        settings = ControllerSettings(prepare_timeout_s=5)
        async with one.episodes.episode(ep("r"), task="t", total_s=None) as episode, episode.step("wait"):
            with refused("deadline_exceeded"):
                await controller(one, settings=settings).save()
            assert not one.episodes.is_closed
        assert list(tmp_path.iterdir()) == [], "nothing is left of it"
        assert (await controller(one).save()).details.number == 1


@simulated
async def test_leases_are_renewed_while_a_slow_commit_runs(tmp_path: Path) -> None:
    class Slow(KeepsNothing):
        async def export_session_states(self, ids: Iterable[str], *, checkpoint_id: str) -> dict[str, Any]:
            await anyio.sleep(300)
            return dict.fromkeys(ids)

    async with house(tmp_path, resources=Slow(), grace_s=20) as one:
        async with one.resources.request("s", ep("r")):
            pass
        async with one.episodes.episode(ep("r"), task="t", total_s=None) as episode, episode.step("replay"):
            saved = await controller(one, settings=ControllerSettings(prepare_timeout_s=10)).save()
    assert saved.details.records["resources"] == 1


@simulated
async def test_retention_drops_records_and_releases_what_they_needed(tmp_path: Path) -> None:
    hooks = KeepsNothing()
    async with house(tmp_path, resources=hooks) as one:
        control = controller(one, retention=Retention(keep_last=1, keep_best=1))
        names = [(await control.save(score=score)).checkpoint_id for score in (0.1, 0.9, 0.2, 0.3)]
        listed = {one.checkpoint_id: one.status for one in await control.checkpoints()}
        assert listed == dict(zip(names, ("released", "complete", "released", "complete"), strict=True))
        assert hooks.released[-1] == {names[1], names[3]}
        assert not (tmp_path / names[0] / "gym").exists()
        assert (tmp_path / names[0] / "details.json").exists(), "it can still be looked at"
        released = await control.release(keep=())
        assert (released.released, released.failures, hooks.released[-1]) == (1, {}, frozenset())
        assert catalog.candidates(tmp_path) == []


@simulated
async def test_what_a_run_was_restored_from_is_kept_until_it_is_saved_again(tmp_path: Path) -> None:
    async with house(tmp_path) as one:
        control = controller(one, retention=Retention(keep_last=3))
        names = [(await control.save()).checkpoint_id for _ in range(3)]
    async with house(tmp_path) as one:
        control = controller(one, retention=Retention(keep_last=1))
        await control.restore(names[0])
        assert await control._to_keep() == {names[0], names[2]}
        await control.save()
        assert [one.checkpoint_id for one in catalog.candidates(tmp_path)][:-1] == []


@simulated
async def test_a_resume_that_comes_from_an_earlier_process_does_not_stop_releases(tmp_path: Path) -> None:
    hooks = KeepsNothing()
    async with house(tmp_path, resources=hooks) as one:
        control = controller(one, retention=Retention(keep_last=1))
        await control.save()
        await one.resources.resume(ResumeRequest(checkpoint_id="of-an-earlier-life", **within(5)))
        assert (await control.release(keep=["kept"])).failures == {}
        assert hooks.released[-1] == {"kept"}


@simulated
async def test_a_process_that_has_saved_nothing_can_release_what_others_have_left(tmp_path: Path) -> None:
    hooks = KeepsNothing()
    async with house(tmp_path) as one:
        await controller(one).save()
    async with house(tmp_path, resources=hooks) as one:
        assert (await controller(one).release(keep=())).failures == {}
        assert hooks.released == [frozenset()]
        assert catalog.candidates(tmp_path) == []


@simulated
async def test_a_failed_save_does_not_keep_a_later_release_from_being_accepted(tmp_path: Path) -> None:
    hooks = KeepsNothing()
    async with house(tmp_path, resources=hooks) as one:
        control = controller(one, settings=ControllerSettings(prepare_timeout_s=5))
        await control.save()
        async with one.episodes.episode(ep("r"), task="t", total_s=None) as episode, episode.step("wait"):
            with refused("deadline_exceeded"):
                await control.save()
        assert (await control.release(keep=())).failures == {}
        assert hooks.released[-1] == frozenset()


@simulated
async def test_damaged_checkpoints_are_skipped_with_a_warning(tmp_path: Path) -> None:
    async with house(tmp_path) as one:
        one.gate.rows.add(ep("r"), {"n": 1})
        control = controller(one, retention=Retention(keep_last=5))
        async with one.episodes.episode(ep("r"), task="t", total_s=None) as episode, episode.step("replay"):
            names = [(await control.save()).checkpoint_id for _ in range(3)]
    (tmp_path / names[2] / "gym_checkpoint.json").write_text("{")
    records = next((tmp_path / names[1]).glob("gym/model/model/records-*"))
    records.write_bytes(records.read_bytes().replace(b"1", b"2"))
    (tmp_path / "a-crash-left-this").mkdir()
    with pytest.warns(BadCheckpoint) as caught:
        assert catalog.newest(tmp_path) == tmp_path / names[0]
    assert len(caught) == 2
    async with house(tmp_path) as one:
        with refused("invalid_checkpoint_state"):
            await controller(one).restore(names[1])


@simulated
async def test_nothing_to_restore_is_nothing_restored(tmp_path: Path) -> None:
    async with house(tmp_path / "none") as one:
        assert await controller(one).restore() == ()
        assert (await controller(one).release(keep=())).failures == {}


@simulated
async def test_periodic_saves_outlive_one_that_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with house(tmp_path) as one, anyio.create_task_group() as tasks:
        control = controller(one, settings=ControllerSettings(prepare_timeout_s=2))
        tasks.start_soon(control.save_every, 10.0)
        async with one.episodes.episode(ep("r"), task="t", total_s=None) as episode, episode.step("wait"):
            await anyio.sleep(15)
        await anyio.sleep(30)
        tasks.cancel_scope.cancel()
    assert len(catalog.listing(tmp_path)) >= 2
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


# -- retention ---------------------------------------------------------------------------------------------------------

candidates = st.lists(
    st.tuples(st.integers(1, 50), st.none() | st.floats(0, 1)), unique_by=lambda one: one[0], max_size=20
).map(lambda rows: [Candidate(checkpoint_id=f"c{number}", number=number, score=score) for number, score in rows])
policies = st.builds(
    Retention, keep_last=st.integers(1, 5), keep_every=st.none() | st.integers(1, 7), keep_best=st.integers(0, 3)
)


@given(candidates, policies, st.sets(st.integers(1, 50)))
def test_retention_keeps_what_it_says_and_what_is_needed(
    found: list[Candidate], policy: Retention, needed: set[int]
) -> None:
    names = {f"c{number}" for number in needed}
    result = kept(found, policy, needed=names)
    by_number = sorted(found, key=lambda one: one.number)
    assert result <= {one.checkpoint_id for one in found}
    assert {one.checkpoint_id for one in by_number[-policy.keep_last :]} <= result
    assert names & {one.checkpoint_id for one in found} <= result
    if policy.keep_every:
        assert {one.checkpoint_id for one in found if one.number % policy.keep_every == 0} <= result
    scores = sorted((one.score for one in found if one.score is not None), reverse=True)[: policy.keep_best]
    best = sorted((one.score for one in found if one.checkpoint_id in result and one.score is not None), reverse=True)
    assert best[: policy.keep_best] == scores
    bound = policy.keep_last + policy.keep_best + len(names) + (len(found) if policy.keep_every else 0)
    assert len(result) <= bound
    assert kept([one for one in found if one.checkpoint_id in result], policy, needed=names) == result


# -- the store ---------------------------------------------------------------------------------------------------------


def manifest(place: Path, records: list[CheckpointRecord], **changes: Any) -> store.Manifest:
    digest = store.write_records(place, store.encode(records))
    fields = {
        "kind": "environment",
        "instance": "i",
        "checkpoint_id": "c1",
        "records_file": f"records-{digest}.jsonl",
        "records_sha256": digest,
        "record_count": len(records),
    }
    return store.Manifest(**{**fields, **changes})


def test_the_manifest_is_last_and_never_replaced(tmp_path: Path) -> None:
    records: list[CheckpointRecord] = [
        EpisodeRecord(episode_id=ep("é / \u2028"), task_digest="d", boundary={"b": 1, "a": 2})
    ]
    place = store.folder(tmp_path, "environment", "i")
    first = manifest(place, records, session_owners={"w0": ["s"]})
    with refused("invalid_checkpoint_state"):
        store.read_manifest(place)
    path = store.write_manifest(place, first)
    assert path == tmp_path / "gym" / "environment" / "i" / "manifest.json"
    assert store.write_manifest(place, first) == path, "the same again"
    with refused("invalid_checkpoint_state"):
        store.write_manifest(place, manifest(place, records, checkpoint_id="c2"))
    written = json.loads(path.read_text())
    assert list(written)[:4] == ["schema_version", "kind", "instance", "checkpoint_id"]
    assert (written["schema_version"], written["session_owners"]) == (1, {"w0": ["s"]})
    assert sorted(one.name for one in place.iterdir()) == ["manifest.json", first.records_file], "no temporary files"
    (record,) = store.read_records(place, EpisodeRecord, checkpoint_id="c1", scope=None)
    assert record == records[0]
    assert list(record.boundary) == ["b", "a"], "the order of keys is kept"


def test_only_records_in_scope_are_looked_into(tmp_path: Path) -> None:
    good = EpisodeRecord(episode_id=ep("a"), task_digest="d")
    odd = ModelRecord(episode_id=ep("b"), rows=[{"x": 1}])
    store.write_manifest(tmp_path, manifest(tmp_path, [good, odd]))
    read = store.read_records(tmp_path, EpisodeRecord, checkpoint_id="c1", scope=[ep("a")])
    assert read == [good]
    with refused("invalid_checkpoint_state"):
        store.read_records(tmp_path, EpisodeRecord, checkpoint_id="c1", scope=[ep("b")])
    with refused("invalid_checkpoint_state"):
        store.read_records(tmp_path, EpisodeRecord, checkpoint_id="c2", scope=[ep("a")])


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes() + b"\n{}\n"),
        lambda path: path.write_bytes(path.read_bytes()[:-5]),
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
    ],
)
def test_damaged_records_are_refused(damage: Any, tmp_path: Path) -> None:
    written = manifest(tmp_path, [EpisodeRecord(episode_id=ep("a"), task_digest="d")])
    store.write_manifest(tmp_path, written)
    damage(tmp_path / written.records_file)
    with refused("invalid_checkpoint_state"):
        store.check(tmp_path)
    with refused("invalid_checkpoint_state"):
        store.read_records(tmp_path, EpisodeRecord, checkpoint_id="c1", scope=[])


def test_a_count_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    store.write_manifest(
        tmp_path, manifest(tmp_path, [EpisodeRecord(episode_id=ep("a"), task_digest="d")], record_count=2)
    )
    with refused("invalid_checkpoint_state"):
        store.check(tmp_path)


def test_the_whole_checkpoint_refuses_what_it_does_not_know_and_reads_version_1() -> None:
    old = {"schema_version": 1, "checkpoint_id": "c", "instances": {"a": [{"rollout_id": "r", "attempt": 2}]}}
    assert GymCheckpoint.model_validate(old).episodes == (ep("r", 2),)
    twice = {"a": [{"rollout_id": "r", "attempt": 2}], "b": [{"rollout_id": "r", "attempt": 2}]}
    for bad in ({**old, "other": 1}, {**old, "instances": twice}, {**old, "schema_version": 3}):
        with pytest.raises(ValidationError):
            GymCheckpoint.model_validate(bad)


def test_ck11_state_dir_is_absolute_and_checked_at_the_start(tmp_path: Path) -> None:
    assert CheckpointSettings(state_dir=tmp_path).state_dir == tmp_path
    with pytest.raises(ValidationError, match="absolute"):
        CheckpointSettings(state_dir=Path("relative"))
    with pytest.raises(ValueError, match="absolute"):
        SandboxCheckpointer(FakeProvider(), state_dir=Path("relative"))
    with pytest.raises(ValidationError, match="control_auth_token"):
        CheckpointSettings(enabled=True)
    with pytest.raises(ValidationError):
        CheckpointSettings(no_such_setting=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "x" * 129])
def test_checkpoint_ids_are_plain_names(name: str) -> None:
    with pytest.raises(ValidationError):
        ResumeRequest(checkpoint_id=name, deadline_ts=1.0)


def test_requests_refuse_unknown_fields_and_endless_deadlines() -> None:
    with pytest.raises(ValidationError):
        ResumeRequest(checkpoint_id="c", deadline_ts=float("inf"))
    with pytest.raises(ValidationError):
        CommitRequest.model_validate({"checkpoint_id": "c", "deadline_ts": 1.0, "checkpoint_dir": "/d", "stop": True})
    assert RestoreRequest(checkpoint_id="c", deadline_ts=1, checkpoint_dir="/d", episode_ids=()).episode_ids == ()


def test_errors_survive_a_process_boundary() -> None:
    import pickle

    for error in (CheckpointError("invalid_phase", "not now"), CoordinationError("resume", {"a": "gone"})):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy)) == (type(error), str(error))


def test_a_checkpoint_that_has_lost_its_details_keeps_its_place(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        name = f"checkpoint-{number:06d}-{3 - number}aaaaa"
        whole = GymCheckpoint(checkpoint_id=name, instances={"run": ()})
        catalog.complete(tmp_path / name, whole, Details(number=number, created_at=0))
    (tmp_path / "checkpoint-000003-0aaaaa" / "details.json").write_bytes(b"{")
    newest = catalog.newest(tmp_path)
    assert newest is not None
    assert newest.name == "checkpoint-000003-0aaaaa"
    assert [one.details.number for one in catalog.listing(tmp_path)] == [1, 2, 3]
