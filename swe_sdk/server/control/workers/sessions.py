"""Which worker has sessions of which episodes, and whose were lost with a worker. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.checkpoint.participants.marks import Marks


class SessionBook:
    """Kept by the coordinator from what workers tell, since one that is lost can tell nothing."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, EpisodeId]] = {}
        self._orphans: dict[str, int] = {}
        """Rollouts that have lost a session, and the attempt that had it."""

    def told(self, worker: str, begun: Mapping[str, EpisodeId], ended: Iterable[str]) -> None:
        """A worker's sessions have changed."""
        own = self._of.setdefault(worker, {})
        own.update(begun)
        for session in ended:
            own.pop(session, None)
        for episode in begun.values():
            if episode.attempt > self._orphans.get(episode.rollout_id, episode.attempt) + 1:
                del self._orphans[episode.rollout_id]

    def left(self, worker: str, *, is_made_up_for: bool) -> None:
        """A worker is gone, and so are its sessions, unless they were restored and are about to be placed again."""
        for episode in self._of.pop(worker, {}).values():
            if not is_made_up_for:
                self._orphans[episode.rollout_id] = max(episode.attempt, self._orphans.get(episode.rollout_id, 0))

    def restarts(self, marks: Marks) -> tuple[EpisodeId, ...]:
        """Attempts that count on a session which nobody has: the one that had it, and the one that was about to claim
        it. No checkpoint can hold them; to retire the first ends it for both."""
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
