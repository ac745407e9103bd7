"""Which worker has which rollout, so that every request of it goes there, whoever makes it. Pure."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from swe_sdk.checkpoint.messages import EpisodeId

KEPT_S = 3600.0
"""For how long a rollout without a session is remembered after its last request: a late one must not begin it anew at
another worker."""

_ABOUT_TO_S = 60.0


@dataclass
class _Place:
    worker: str
    """Empty = it was lost with its worker."""
    attempt: int
    """The newest that counts on what the worker has, or had."""
    used_at: float
    has_session: bool = False
    is_over: bool = False
    """Whether its session has ended."""
    is_restored: bool = False
    """Whether the attempt after ``attempt`` goes on with what was restored."""
    lost: int = -1
    """The newest attempt that was lost with an earlier worker: a late request of it must not begin it anew here."""

    def weighs(self, now: float) -> bool:
        """Whether it has a session, or is about to: what was refused makes none."""
        return self.has_session or (not self.is_over and now - self.used_at < _ABOUT_TO_S)


class Places:
    """Kept by the coordinator; times are seconds on its own clock."""

    def __init__(self) -> None:
        self._places: OrderedDict[str, _Place] = OrderedDict()

    def owner(self, episode: EpisodeId, asker: str, workers: Collection[str], now: float) -> str | None:
        """The worker of an attempt; one that is not known yet gets the emptiest, ``asker`` if that is no fuller.

        None where what the attempt counts on was lost with its worker; a later attempt begins anew.
        """
        self._forget_old(now)
        place = self._places.get(episode.rollout_id)
        if place is None or (not place.worker and episode.attempt > place.attempt):
            lost = -1 if place is None else place.attempt
            place = _Place(self._emptiest(asker, workers, now), episode.attempt, now, lost=lost)
            self._places[episode.rollout_id] = place
        elif episode.attempt > place.attempt:
            place.attempt, place.is_over, place.is_restored = episode.attempt, False, False
        place.used_at = now
        self._places.move_to_end(episode.rollout_id)
        if episode.attempt <= place.lost and not place.has_session:
            return None
        return place.worker or None

    def _emptiest(self, asker: str, workers: Collection[str], now: float) -> str:
        loads = Counter(place.worker for place in self._places.values() if place.weighs(now))
        return min(sorted(workers), key=lambda one: (loads[one], one != asker))

    def told(self, worker: str, begun: Iterable[EpisodeId], ended: Iterable[EpisodeId]) -> None:
        """The last sessions of rollouts at a worker have ended, and others have begun."""
        for episode in ended:
            place = self._at(worker, episode.rollout_id)
            if place is not None:
                place.has_session, place.is_over = False, True
        for episode in begun:
            place = self._at(worker, episode.rollout_id)
            if place is not None:
                place.has_session, place.is_over = True, False

    def _at(self, worker: str, rollout: str) -> _Place | None:
        place = self._places.get(rollout)
        return place if place is not None and place.worker == worker else None

    def restored(self, worker: str, episodes: Iterable[EpisodeId], now: float) -> None:
        """Their sessions were installed there; the next attempts go on with them."""
        for episode in episodes:
            place = _Place(worker, episode.attempt, now, has_session=True, is_restored=True)
            self._places[episode.rollout_id] = place
            self._places.move_to_end(episode.rollout_id)

    def left(self, worker: str, now: float) -> None:
        """A worker is gone, and all that it had; which is remembered from now on."""
        for rollout, place in list(self._places.items()):
            if place.worker == worker and place.is_over and place.lost < 0:
                del self._places[rollout]
            elif place.worker == worker and place.is_over:
                self._places[rollout] = _Place("", place.lost, now)
                self._places.move_to_end(rollout)
            elif place.worker == worker:
                place.worker, place.has_session, place.used_at = "", False, now
                place.attempt += place.is_restored
                self._places.move_to_end(rollout)

    def _forget_old(self, now: float) -> None:
        while self._places:
            rollout, place = next(iter(self._places.items()))
            if now - place.used_at <= KEPT_S:
                return
            if place.has_session:
                place.used_at = now
                self._places.move_to_end(rollout)
            else:
                del self._places[rollout]
