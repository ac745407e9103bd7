"""Episodes that were restored and not claimed yet. Pure; shared by one process and by the coordinator of several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.checkpoint.participants.marks import Marks
from swe_sdk.checkpoint.records import EpisodeRecord

Pending = MutableMapping[str, EpisodeRecord]
"""By rollout."""


def take_pending(pending: Pending, episode_id: EpisodeId, task_digest: str) -> EpisodeRecord | None:
    """What was restored for an attempt that begins, once; None for a fresh one.

    Raises ``stale_attempt`` for an attempt that is not later than the one saved, ``invalid_checkpoint_state`` where it
    was saved with another task.
    """
    saved = pending.get(episode_id.rollout_id)
    if saved is not None and episode_id.attempt <= saved.episode_id.attempt:
        raise refuse("stale_attempt", f"{saved.episode_id} was saved: it goes on as a later attempt")
    if saved is not None and saved.task_digest != task_digest:
        raise refuse("invalid_checkpoint_state", f"{saved.episode_id} was saved with another task")
    return pending.pop(episode_id.rollout_id, None)


def require_installable(
    records: Sequence[EpisodeRecord],
    *,
    pending: Mapping[str, EpisodeRecord],
    live: Iterable[EpisodeId],
    marks: Marks,
) -> None:
    """Refuse records that name a rollout twice, or one that is under way, retired, or restored already."""
    names = [record.episode_id.rollout_id for record in records]
    if len(set(names)) < len(names):
        raise refuse("invalid_checkpoint_state", "a rollout was saved twice")
    under_way = [str(one) for one in live if one.rollout_id in set(names)]
    if under_way or pending:
        raise refuse("checkpoint_conflict", "episodes are under way or wait: " + ", ".join(under_way[:5]))
    for record in records:
        marks.require_live(record.episode_id)
