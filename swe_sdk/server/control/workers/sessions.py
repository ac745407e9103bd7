"""Which worker has sessions of which episodes, and whose were lost with a worker. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.checkpoint.participants.marks import Marks


class SessionBook:
    """Kept by the coordinator from what workers tell, since one that is lost can tell nothing."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, EpisodeId]] = {}
        self._holders: defaultdict[str, set[str]] = defaultdict(set)
        self._doubled: set[str] = set()
        """Sessions that several workers have. A seed that is made again without a cookie may come to any of them:
        because its reply was lost, or because its episode was saved before that."""
        self._orphans: dict[str, int] = {}
        """Rollouts that have lost a session, and the attempt that had it."""

    def told(self, worker: str, begun: Mapping[str, EpisodeId], ended: Iterable[str]) -> None:
        """A worker's sessions have changed."""
        own = self._of.setdefault(worker, {})
        own.update(begun)
        self._hold(worker, begun)
        for session in ended:
            own.pop(session, None)
        self._let_go(worker, ended)
        for episode in begun.values():
            if episode.attempt > self._orphans.get(episode.rollout_id, episode.attempt) + 1:
                del self._orphans[episode.rollout_id]

    def last_of(self, worker: str, sessions: Collection[str]) -> list[EpisodeId]:
        """Whose these sessions of a worker are, where it has told of no others of the same rollout."""
        own = self._of.get(worker, {})
        others = {episode.rollout_id for session, episode in own.items() if session not in sessions}
        found = (own[session] for session in sessions if session in own)
        return [episode for episode in found if episode.rollout_id not in others]

    def holder(self, session: str) -> str | None:
        """A worker that has it, as far as they have told."""
        return next(iter(sorted(self._holders.get(session, ()))), None)

    def left(self, worker: str, *, is_made_up_for: bool) -> None:
        """A worker is gone, and so are its sessions, unless they were restored and are about to be placed again."""
        had = self._of.pop(worker, {})
        self._let_go(worker, had)
        for episode in had.values():
            if not is_made_up_for:
                self._orphans[episode.rollout_id] = max(episode.attempt, self._orphans.get(episode.rollout_id, 0))

    def _hold(self, worker: str, sessions: Iterable[str]) -> None:
        for session in sessions:
            self._holders[session].add(worker)
            if len(self._holders[session]) > 1:
                self._doubled.add(session)

    def _let_go(self, worker: str, sessions: Iterable[str]) -> None:
        for session in sessions:
            self._holders[session].discard(worker)
            if len(self._holders[session]) < 2:
                self._doubled.discard(session)
            if not self._holders[session]:
                del self._holders[session]

    def superseded(self) -> dict[str, frozenset[str]]:
        """By worker, what it has of an earlier attempt, and another one of a later: nobody will ask for it there."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for session, held in self._double():
            newest = max(episode.attempt for episode in held.values())
            for worker, episode in held.items():
                if episode.attempt < newest:
                    found[worker].add(session)
        return {worker: frozenset(sessions) for worker, sessions in found.items()}

    def _double(self) -> Iterator[tuple[str, dict[str, EpisodeId]]]:
        for session in self._doubled:
            yield session, {worker: self._of[worker][session] for worker in self._holders[session]}

    def restarts(self, marks: Marks) -> tuple[EpisodeId, ...]:
        """Attempts that no checkpoint can hold: those that count on a session which nobody has, or which several have.

        Of the first, the one that had it, and the one that was about to claim it; to retire the first ends it for both.
        """
        ambiguous = (one for _, held in self._double() for one in _twice(held.values()) if not marks.covers(one))
        return (*self._orphaned(marks), *dict.fromkeys(ambiguous))

    def _orphaned(self, marks: Marks) -> tuple[EpisodeId, ...]:
        live = [
            EpisodeId(rollout_id=rollout, attempt=attempt)
            for rollout, attempt in self._orphans.items()
            if not marks.covers(EpisodeId(rollout_id=rollout, attempt=attempt))
        ]
        return tuple(one for had in live for one in (had, had.model_copy(update={"attempt": had.attempt + 1})))

    def forget(self, rollouts: Iterable[str]) -> None:
        """They will not be heard of again."""
        for rollout in rollouts:
            self._orphans.pop(rollout, None)


def _twice(episodes: Iterable[EpisodeId]) -> Iterator[EpisodeId]:
    """The newest attempt, where more than one worker has the session for it: which one its client knows is not told."""
    found = list(episodes)
    newest = max(found, key=lambda one: one.attempt)
    if found.count(newest) > 1:
        yield newest
