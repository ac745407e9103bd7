"""The pure parts of several workers: whose reports count, who begins what, where sessions go, what is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from swe_sdk.checkpoint.messages import EpisodeId, PrepareReport
from swe_sdk.checkpoint.participants.marks import Marks
from swe_sdk.checkpoint.records import EpisodeRecord, ModelRecord, ResourcesSessionRecord
from swe_sdk.errors import CheckpointError
from swe_sdk.server.control.workers import gathering as g
from swe_sdk.server.control.workers import placement
from swe_sdk.server.control.workers.claims import ClaimBook
from swe_sdk.server.control.workers.joining import joint
from swe_sdk.server.control.workers.places import KEPT_S, Places
from swe_sdk.server.control.workers.sessions import SessionBook
from swe_sdk.server.control.workers.statuses import joint_extras
from tests.checkpoint.house import ep, refused

NAMES = st.sampled_from(["a", "b", "c", "d"])
OWN = PrepareReport.of([])


def report(worker: str, *, ready: bool = True, restarts: tuple[EpisodeId, ...] = ()) -> PrepareReport:
    return PrepareReport.of([] if ready else [f"{worker} works"], restarts=restarts, counts={"sessions": 2})


def test_all_must_have_reported_and_be_ready() -> None:
    state = g.closed(g.joined(g.joined(g.Gathering(), "a"), "b"))
    assert g.merged(state, OWN).blockers == ("worker a has not reported", "worker b has not reported")
    state = g.reported(state, "a", g.Numbered(1, 1, report("a", restarts=(ep("r"),))))
    state = g.reported(state, "b", g.Numbered(1, 1, report("b", ready=False, restarts=(ep("q"), ep("r")))))
    joint_report = g.merged(state, OWN)
    assert (joint_report.ready, joint_report.blockers, joint_report.blocker_count) == (False, ("b: b works",), 1)
    assert joint_report.restarts == (ep("r"), ep("q")), "restarts of all workers are merged, and named once"
    assert joint_report.counts == {"sessions": 4}
    state = g.reported(state, "b", g.Numbered(1, 2, report("b")))
    assert g.merged(state, OWN).ready


def test_a_report_of_an_earlier_close_changes_nothing() -> None:
    state = g.closed(g.opened(g.closed(g.joined(g.Gathering(), "a"))))
    assert g.reported(state, "a", g.Numbered(1, 9, report("a"))) is state
    first = g.reported(state, "a", g.Numbered(2, 2, report("a", ready=False)))
    assert g.reported(first, "a", g.Numbered(2, 1, report("a"))) is first, "nor does one that was overtaken"
    assert g.reported(first, "stranger", g.Numbered(2, 1, report("a"))) is first


def test_blockers_are_listed_up_to_their_limit_and_counted_all() -> None:
    state = g.closed(g.joined(g.joined(g.Gathering(), "a"), "b"))
    for worker in ("a", "b"):
        many = PrepareReport.of([f"blocker {number}" for number in range(150)])
        state = g.reported(state, worker, g.Numbered(1, 1, many))
    joint_report = g.merged(state, OWN)
    assert (len(joint_report.blockers), joint_report.blocker_count) == (100, 300)


def test_who_joins_while_closed_must_report_and_who_is_lost_blocks_until_resumed() -> None:
    state = g.closed(g.joined(g.Gathering(), "a"))
    state = g.joined(g.reported(state, "a", g.Numbered(1, 1, report("a"))), "b")
    assert g.merged(state, OWN).blockers == ("worker b has not reported",)
    state = g.left(g.reported(state, "b", g.Numbered(1, 1, report("b"))), "a")
    assert g.merged(state, OWN).blockers == ("worker a was lost while the checkpoint was open",)
    state = g.closed(g.opened(state))
    assert g.merged(g.reported(state, "b", g.Numbered(2, 1, report("b"))), OWN).ready


class Gatherings(RuleBasedStateMachine):
    """Against a model that keeps every report and looks for the last one that counts."""

    def __init__(self) -> None:
        super().__init__()
        self.state = g.Gathering()
        self.here: set[str] = set()
        self.lost: set[str] = set()
        self.last: dict[str, PrepareReport] = {}
        self.numbers: dict[str, int] = {}
        self.sent: list[tuple[str, g.Numbered]] = []

    @rule(worker=NAMES)
    def join(self, worker: str) -> None:
        self.state = g.joined(self.state, worker)
        self.here.add(worker)

    @rule(worker=NAMES)
    def leave(self, worker: str) -> None:
        if worker in self.here and self.state.is_closed:
            self.lost.add(worker)
        self.here.discard(worker)
        self.last.pop(worker, None)
        self.numbers.pop(worker, None)
        self.state = g.left(self.state, worker)

    @rule()
    def close(self) -> None:
        self.state = g.closed(self.state)
        self._forget()

    @rule()
    def open(self) -> None:
        self.state = g.opened(self.state)
        self._forget()

    def _forget(self) -> None:
        self.last, self.lost, self.numbers = {}, set(), {}

    @precondition(lambda self: self.here and self.state.is_closed)
    @rule(data=st.data(), ready=st.booleans())
    def tell(self, data: st.DataObject, ready: bool) -> None:
        worker = data.draw(st.sampled_from(sorted(self.here)))
        self.numbers[worker] = self.numbers.get(worker, 0) + 1
        told = g.Numbered(self.state.generation, self.numbers[worker], report(worker, ready=ready))
        self.last[worker] = told.report
        self.sent.append((worker, told))
        self.state = g.reported(self.state, worker, told)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def late(self, data: st.DataObject) -> None:
        """Anything that was ever sent may come once more: it counts only as the newest of a worker that told nothing
        since, and is then what it said last."""
        worker, told = data.draw(st.sampled_from(self.sent))
        before = self.state
        self.state = g.reported(self.state, worker, told)
        if self.state is not before:
            self.last[worker] = told.report
            self.numbers[worker] = max(self.numbers.get(worker, 0), told.number)
            assert told.generation == self.state.generation
            assert worker in self.here

    @invariant()
    def ready_only_if_everybody_said_so(self) -> None:
        joint_report = g.merged(self.state, OWN)
        said = self.here <= set(self.last) and all(self.last[worker].ready for worker in self.here)
        if self.state.is_closed:
            assert joint_report.ready == (said and not self.lost)
            assert joint_report.ready == (joint_report.blocker_count == 0)


TestGatherings = Gatherings.TestCase
owners = st.dictionaries(st.sampled_from([f"old{n}" for n in range(8)] + ["a", "b"]), st.integers(0, 50))
loads = st.dictionaries(NAMES, st.integers(0, 50), min_size=1)


@given(owners, loads)
def test_everything_is_placed_with_its_owner_and_evenly(had: dict[str, int], has: dict[str, int]) -> None:
    placed = placement.place(had, has)
    assert set(placed) == set(had)
    assert set(placed.values()) <= set(has)
    assert all(placed[owner] == owner for owner in set(had) & set(has)), "who lives keeps its own"
    after = {worker: has[worker] + sum(had[one] for one in had if placed[one] == worker) for worker in has}
    for owner in set(had) - set(has):  # none could be moved to somebody who has less by more than it
        assert all(after[placed[owner]] - had[owner] <= after[other] for other in has)
    assert placement.place(had, has) == placed


@given(owners, loads, loads)
def test_an_alias_leads_to_a_live_worker_in_one_step(had: dict[str, int], one: Any, two: Any) -> None:
    table = placement.with_placed({}, placement.place(had, one))
    table = placement.with_placed(table, placement.place(had, two))
    for owner in had:
        assert table.get(owner, owner) in two
    for lost in two:
        assert lost not in placement.without(table, lost).values()


def test_without_workers_nothing_can_be_placed() -> None:
    assert placement.place({}, {}) == {}
    with refused("checkpoint_error"):
        placement.place({"old": 1}, {})


def saved(rollout: str, attempt: int = 1) -> EpisodeRecord:
    return EpisodeRecord(episode_id=ep(rollout, attempt), task_digest="t", boundary={"step": 3})


def test_what_was_restored_is_given_once_to_whoever_comes_first() -> None:
    book = ClaimBook()
    book.install([saved("r"), saved("q")], Marks())
    with refused("stale_attempt"):
        book.begin("a", ep("r", 1), "t")
    with refused("invalid_checkpoint_state"):
        book.begin("a", ep("r", 2), "another task")
    assert book.begin("a", ep("r", 2), "t") == saved("r")
    for worker in ("a", "b"):
        with refused("checkpoint_conflict"):
            book.begin(worker, ep("r", 3), "t")
    book.end("b", ep("r", 2))
    with refused("checkpoint_conflict"):
        book.begin("b", ep("r", 3), "t")
    book.end("a", ep("r", 2))
    assert book.begin("b", ep("r", 3), "t") is None
    book.lost("b")
    assert book.begin("a", ep("r", 4), "t") is None
    assert list(book.pending) == ["q"]


@given(st.lists(st.tuples(st.sampled_from(["begin", "end", "lost"]), NAMES, st.integers(2, 4)), max_size=40))
def test_nothing_is_claimed_twice(steps: list[tuple[str, str, int]]) -> None:
    book, given_out = ClaimBook(), 0
    book.install([saved("r")], Marks())
    live: set[tuple[str, int]] = set()
    for what, worker, attempt in steps:
        if what == "begin":
            try:
                given_out += book.begin(worker, ep("r", attempt), "t") is not None
            except CheckpointError:
                is_refused = True
            else:
                is_refused = False
            assert is_refused == bool(live), "two workers have it, or none could"
            if is_refused:
                continue
            live = {(worker, attempt)}
        elif what == "end":
            book.end(worker, ep("r", attempt))
            live -= {(worker, attempt)}
        else:
            book.lost(worker)
            live = {one for one in live if one[0] != worker}
    assert given_out <= 1


def test_records_are_joined_with_who_had_them() -> None:
    plain: Callable[..., Any] = lambda record: record.model_dump(mode="json", by_alias=True)  # noqa: E731
    sessions = {
        name: [plain(ResourcesSessionRecord(episode_id=ep(name), session_id=name, state={"b": 1, "a": 2}))]
        for name in ("b", "a")
    }
    assert [(one.session_id, one.owner) for one in joint("resources", sessions, {})] == [("a", "a"), ("b", "b")]  # type: ignore[attr-defined]
    ledgers = {
        "a": [plain(ModelRecord(episode_id=ep("r"), rows=[{"n": 1}]))],
        "b": [plain(ModelRecord(episode_id=ep("r"), rows=[{"n": 2}])), plain(ModelRecord(episode_id=ep("q")))],
    }
    assert [(one.episode_id, one.rows) for one in joint("model", ledgers, {})] == [  # type: ignore[attr-defined]
        (ep("r"), [{"n": 1}, {"n": 2}]),
        (ep("q"), []),
    ]


@pytest.mark.parametrize(
    ("extras", "told"),
    [
        ([], {}),
        ([{"accepting": True}, {"accepting": False}], {"accepting": False}),
        ([{"mode": "exported"}, {"mode": "restart_only"}], {"mode": "restart_only"}),
        (
            [{"retired_sessions": 1, "verify": "wait"}, {"retired_sessions": 2}],
            {"retired_sessions": 3, "verify": "wait"},
        ),
    ],
)
def test_statuses_are_joined(extras: list[dict[str, Any]], told: dict[str, Any]) -> None:
    assert joint_extras(extras) == told


def test_episodes_whose_session_is_lost_are_restarts_until_they_are_over() -> None:
    book, marks = SessionBook(), Marks()
    book.told("a", {"s": ep("r", 2), "closed": ep("q")}, [])
    book.told("a", {}, ["closed"])
    book.told("b", {"t": ep("p")}, [])
    assert book.restarts(marks) == ()
    book.left("a", is_made_up_for=False)
    assert book.restarts(marks) == (ep("r", 2), ep("r", 3)), "who had it, and who was about to claim it"
    book.left("b", is_made_up_for=True)
    assert book.restarts(marks) == (ep("r", 2), ep("r", 3))
    book.told("c", {"s": ep("r", 3)}, [])
    assert book.restarts(marks) == (ep("r", 2), ep("r", 3)), "another of its sessions may have been claimed"
    marks.retire([ep("r", 2)])
    assert book.restarts(marks) == (), "the one that follows is a fresh one"
    book.told("c", {"u": ep("o", 1)}, [])
    book.left("c", is_made_up_for=False)
    book.told("d", {"u": ep("o", 3)}, [])
    book.forget(["r"])
    assert book.restarts(Marks()) == (), "a later attempt began anew, or was forgotten"


_TOLD = st.tuples(NAMES, st.sampled_from(["s", "t"]), st.integers(0, 2) | st.none())


@given(st.lists(_TOLD, max_size=12), st.sets(NAMES))
def test_sessions_that_several_workers_have_are_known_whatever_was_told(told: list[Any], lost: set[str]) -> None:
    """``None`` = it has ended there. The model is a table of who has what."""
    book, table = SessionBook(), dict[tuple[str, str], int]()
    for worker, session, attempt in told:
        if attempt is None:
            table.pop((worker, session), None)
            book.told(worker, {}, [session])
        else:
            table[worker, session] = attempt
            book.told(worker, {session: ep(session, attempt)}, [])
    for worker in lost:
        book.left(worker, is_made_up_for=True)
    newest, holders, expected = dict[str, int](), Counter[tuple[str, int]](), dict[str, set[str]]()
    table = {key: attempt for key, attempt in table.items() if key[0] not in lost}
    for (_, session), attempt in table.items():
        newest[session] = max(attempt, newest.get(session, 0))
        holders[session, attempt] += 1
    for (worker, session), attempt in table.items():
        if attempt < newest[session]:
            expected.setdefault(worker, set()).add(session)
    assert book.superseded() == expected
    assert set(book.restarts(Marks())) == {ep(*one) for one in newest.items() if holders[one] > 1}


def test_requests_of_a_rollout_go_where_it_was_placed_first() -> None:
    places, workers = Places(), {"a", "b", "c"}
    assert places.owner(ep("r"), "b", workers, 0) == "b", "whoever is asked, where none has less"
    assert places.owner(ep("r"), "a", workers, 1) == "b"
    assert places.owner(ep("q"), "b", workers, 1) == "a"
    assert [places.owner(ep(f"p{number}"), "b", workers, 1) for number in range(2)] == ["c", "b"]
    places.told("b", [ep("r")], ())
    places.told("b", (), [ep("r"), ep("p1")])
    assert places.owner(ep("o"), "a", workers, 2) == "b", "what is over weighs nothing"
    assert places.owner(ep("r"), "a", workers, 2) == "b", "and is still found"
    assert places.owner(ep("r"), "a", workers, 3 + KEPT_S) == "a", "for a while"


def test_what_a_lost_worker_had_is_lost_to_the_attempts_that_count_on_it() -> None:
    places = Places()
    assert places.owner(ep("r", 1), "a", {"a"}, 0) == "a"
    assert places.owner(ep("over", 1), "a", {"a"}, 0) == "a"
    places.told("a", (), [ep("over", 1)])
    places.restored("a", [ep("saved", 1), ep("claimed", 1)], 0)
    assert places.owner(ep("claimed", 2), "a", {"a"}, 0) == "a"
    places.left("a", 0)
    for lost in (ep("r", 0), ep("r", 1), ep("saved", 1), ep("saved", 2), ep("claimed", 2)):
        assert places.owner(lost, "b", {"b"}, 1) is None, lost
    for anew in (ep("r", 2), ep("saved", 3), ep("claimed", 3), ep("over", 1)):
        assert places.owner(anew, "b", {"b"}, 1) == "b", anew
    assert places.owner(ep("r", 1), "b", {"b"}, 1) is None, "still"
    places.told("b", [ep("r", 2)], ())
    assert places.owner(ep("r", 1), "b", {"b"}, 1) == "b", "whose word it is that this attempt is over"


def test_what_is_lost_is_remembered_from_then_on() -> None:
    """A session may have lived for hours without a request."""
    places = Places()
    assert places.owner(ep("r", 1), "a", {"a"}, 0) == "a"
    places.told("a", [ep("r", 1)], ())
    places.left("a", 2 * KEPT_S)
    assert places.owner(ep("r", 1), "b", {"b"}, 2 * KEPT_S + 1) is None


_ASKED = st.tuples(st.just("ask"), NAMES, st.integers(0, 3))
_PLACED = st.one_of(_ASKED, st.tuples(st.sampled_from(["over", "leave"]), NAMES, st.integers(0, 3)))


@given(st.lists(_PLACED, max_size=40))
def test_an_attempt_never_moves_from_one_worker_to_another(steps: list[tuple[str, str, int]]) -> None:
    """The model: where each attempt was found first, while that worker lives."""
    places, workers, found = Places(), ["w0", "w1", "w2", "w3"], dict[EpisodeId, str | None]()
    for now, (what, name, number) in enumerate(steps):
        if what == "ask":
            owner = places.owner(ep(name, number), workers[now % 4], workers, now)
            assert owner in (None, *workers)
            before = found.setdefault(ep(name, number), owner)
            assert owner == before or before not in workers, "only what was lost, or was over, is placed anew"
            found[ep(name, number)] = owner
        elif what == "over":
            places.told(workers[number], (), [ep(name)])
        else:
            places.left(workers[number], now)
            workers[number] = f"w{now}-anew"
