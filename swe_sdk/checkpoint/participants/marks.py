"""Which attempts are over. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId


class Marks:
    """Retired attempts: for each rollout the highest one; lower ones are retired with it."""

    def __init__(self) -> None:
        self._highest: dict[str, int] = {}

    def retire(self, episodes: Iterable[EpisodeId]) -> None:
        """Mark these and all earlier attempts."""
        for episode in episodes:
            before = self._highest.get(episode.rollout_id, 0)
            self._highest[episode.rollout_id] = max(before, episode.attempt)

    def forget(self, rollout_ids: Iterable[str]) -> tuple[str, ...]:
        """Drop the marks of rollouts; returns those that had one."""
        return tuple(name for name in rollout_ids if self._highest.pop(name, None) is not None)

    def covers(self, episode: EpisodeId) -> bool:
        """Whether an attempt is over."""
        return episode.attempt <= self._highest.get(episode.rollout_id, -1)

    def require_live(self, episode: EpisodeId) -> None:
        """``stale_attempt`` where it is over."""
        if self.covers(episode):
            raise refuse("stale_attempt", f"{episode} was retired")

    def of(self, episodes: Iterable[EpisodeId]) -> tuple[EpisodeId, ...]:
        """The marks that hold for these rollouts."""
        names = dict.fromkeys(episode.rollout_id for episode in episodes)
        return tuple(EpisodeId(rollout_id=name, attempt=self._highest[name]) for name in names)

    def as_dict(self) -> dict[str, int]:
        """All marks."""
        return dict(self._highest)
