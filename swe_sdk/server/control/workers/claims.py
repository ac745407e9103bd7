"""Which worker has begun which episode, and what was restored and waits to be claimed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.checkpoint.participants.marks import Marks
from swe_sdk.checkpoint.participants.pending import require_installable, take_pending
from swe_sdk.checkpoint.records import EpisodeRecord


class _Begun(NamedTuple):
    episode_id: EpisodeId
    worker: str


class ClaimBook:
    """Every episode of the server, wherever it runs."""

    def __init__(self) -> None:
        self.pending: dict[str, EpisodeRecord] = {}
        """Restored, by rollout, until a worker claims them."""
        self._begun: dict[str, _Begun] = {}

    def begin(self, worker: str, episode_id: EpisodeId, task_digest: str) -> EpisodeRecord | None:
        """A worker begins an attempt: what was restored of it is given this once.

        Raises ``checkpoint_conflict`` where the rollout is under way anywhere; and as
        :func:`~swe_sdk.checkpoint.participants.pending.take_pending`.
        """
        under_way = self._begun.get(episode_id.rollout_id)
        if under_way is not None:
            raise refuse("checkpoint_conflict", f"{under_way.episode_id} is under way at {under_way.worker}")
        saved = take_pending(self.pending, episode_id, task_digest)
        self._begun[episode_id.rollout_id] = _Begun(episode_id, worker)
        return saved

    def end(self, worker: str, episode_id: EpisodeId) -> None:
        """It is over there."""
        if self._begun.get(episode_id.rollout_id) == _Begun(episode_id, worker):
            del self._begun[episode_id.rollout_id]

    def lost(self, worker: str) -> None:
        """All that it had is over; it is not given to another one, since what came after the claim is lost."""
        self._begun = {name: one for name, one in self._begun.items() if one.worker != worker}

    def install(self, records: Sequence[EpisodeRecord], marks: Marks) -> None:
        """Restored records wait from now on; refused as in one process."""
        live = [one.episode_id for one in self._begun.values()]
        require_installable(records, pending=self.pending, live=live, marks=marks)
        self.pending = {record.episode_id.rollout_id: record for record in records}

    def drop(self, marks: Marks) -> None:
        """Forget what was retired."""
        self.pending = {name: one for name, one in self.pending.items() if not marks.covers(one.episode_id)}

    def keep(self, scope: frozenset[EpisodeId]) -> None:
        """Forget what is not in scope."""
        self.pending = {name: one for name, one in self.pending.items() if one.episode_id in scope}
