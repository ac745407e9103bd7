"""Where rollouts are, by what workers ask and tell: never begun at a second worker while the first one has them."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from swe_sdk.server.control.workers.places import KEPT_S, Places
from swe_sdk.server.control.workers.sessions import SessionBook
from tests.checkpoint.house import ep

ROLLOUTS = st.sampled_from(["r", "q", "p"])
ATTEMPTS = st.integers(0, 2)


def test_a_rollout_has_its_worker_until_the_last_of_its_sessions_there_ends() -> None:
    """An earlier attempt's session is closed late where whoever used it is gone."""
    told = Coordinator()
    assert told.ask("r", 0, "a") == "a"
    told.begin("a", "s-0", "r", 0)
    assert told.ask("r", 1, "b") == "a"
    told.begin("a", "s-1", "r", 1)
    told.end("a", "s-0")
    told.now += 2 * KEPT_S
    assert told.ask("r", 1, "b") == "a"
    told.leave("a")
    assert told.ask("r", 1, "b") is None, "it was at work when its worker died"
    assert told.ask("r", 2, "b") == "b"


def test_what_was_lost_stays_lost_when_the_worker_of_a_later_attempt_goes_as_well() -> None:
    told = Coordinator()
    for attempt, worker in enumerate("ab"):
        assert told.ask("r", attempt, worker) == worker
        told.begin(worker, f"s-{attempt}", "r", attempt)
        if worker == "b":
            told.end("b", "s-1")
        told.workers.append("c")
        told.leave(worker)
    assert told.ask("r", 0, "c") is None, "it was lost with a"
    assert told.ask("r", 1, "c") == "c", "its session had ended"
    assert told.ask("r", 0, "c") is None


class Coordinator:
    """What the coordinator keeps, and does with what it is told; two workers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.workers = ["a", "b"]
        self._places, self._sessions = Places(), SessionBook()

    def ask(self, rollout: str, attempt: int, asker: str) -> str | None:
        return self._places.owner(ep(rollout, attempt), asker, self.workers, self.now)

    def begin(self, worker: str, session: str, rollout: str, attempt: int) -> None:
        self._places.told(worker, [ep(rollout, attempt)], ())
        self._sessions.told(worker, {session: ep(rollout, attempt)}, ())

    def end(self, worker: str, session: str) -> None:
        self._places.told(worker, (), self._sessions.last_of(worker, [session]))
        self._sessions.told(worker, {}, [session])

    def leave(self, worker: str) -> None:
        self._places.left(worker, self.now)
        self._sessions.left(worker, is_made_up_for=False)
        self.workers = [one for one in self.workers if one != worker]


class Rollouts(RuleBasedStateMachine):
    """The model: which sessions of which attempts each worker has, and the newest attempt that was lost with one."""

    def __init__(self) -> None:
        super().__init__()
        self.told = Coordinator()
        self.live: dict[tuple[str, str, int], str] = {}
        """By rollout, session and attempt: its worker."""
        self.lost: dict[str, int] = {}
        self.count = 0

    @rule(rollout=ROLLOUTS, attempt=ATTEMPTS, asker=st.integers(0, 1), makes=st.booleans())
    def ask(self, rollout: str, attempt: int, asker: int, makes: bool) -> None:
        owner = self.told.ask(rollout, attempt, self.told.workers[asker])
        have = {worker for (one, _, _), worker in self.live.items() if one == rollout}
        assert not have or {owner} == have, "one worker has a rollout, whoever asks"
        if not have and attempt <= self.lost.get(rollout, -1):
            assert owner is None, "and nobody begins anew what was lost"
        if makes and owner is not None:
            self.lost.pop(rollout, None)
            self.count += 1
            self.live[rollout, f"s-{self.count}", attempt] = owner
            self.told.begin(owner, f"s-{self.count}", rollout, attempt)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        rollout, session, attempt = data.draw(st.sampled_from(sorted(self.live)))
        self.told.end(self.live.pop((rollout, session, attempt)), session)

    @rule(which=st.integers(0, 1))
    def die(self, which: int) -> None:
        """Another one takes its seat."""
        worker = self.told.workers[which]
        for (rollout, session, attempt), owner in list(self.live.items()):
            if owner == worker:
                del self.live[rollout, session, attempt]
                self.lost[rollout] = max(attempt, self.lost.get(rollout, 0))
        self.told.leave(worker)
        self.count += 1
        self.told.workers.append(f"w-{self.count}")

    @rule(seconds=st.sampled_from([1.0, 61.0, KEPT_S]))
    def later(self, seconds: float) -> None:
        self.told.now += seconds
        if seconds == KEPT_S:
            self.lost = {}

    @invariant()
    def one_worker_has_a_rollout(self) -> None:
        owners: dict[str, set[str]] = {}
        for (rollout, _, _), worker in self.live.items():
            owners.setdefault(rollout, set()).add(worker)
        assert all(len(workers) == 1 for workers in owners.values())


TestRollouts = Rollouts.TestCase
