"""A participant as one worker's part of a larger one, whose phases, leases and marks are kept elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId, Kind, PrepareReport
from swe_sdk.checkpoint.participants.base import BaseParticipant
from swe_sdk.checkpoint.protocol.machine import Control


class Part:
    """What a coordinator of several workers asks of each: the work of a participant without its own decisions.

    The operations of ``participant`` itself are not to be used beside it.
    """

    def __init__(self, participant: BaseParticipant[Any]) -> None:
        self.participant = participant

    @property
    def kind(self) -> Kind:
        """Of the participant."""
        return self.participant.kind

    @property
    def session_episodes(self) -> dict[str, EpisodeId]:
        """Whose each of its sessions is, where its kind has any."""
        return getattr(self.participant, "session_episodes", {})

    def close(self, checkpoint_id: str) -> None:
        """Admission is closed: whatever works parks at its next boundary. Closing again begins anew."""
        self.open()
        self.participant._apply(Control(phase="preparing", checkpoint_id=checkpoint_id))

    def open(self) -> None:
        """Admission is open."""
        self.participant._apply(Control())

    def report(self) -> PrepareReport:
        """What blocks here now."""
        return self.participant._report()

    def extras(self) -> dict[str, Any]:
        """What else its status tells."""
        return self.participant._extras()

    async def export(self, checkpoint_id: str, scope: frozenset[EpisodeId] | None) -> list[dict[str, Any]]:
        """Its records as plain data. Raises ``checkpoint_error``, ``restart_in_scope``."""
        report = self.report()
        if not report.ready:
            raise refuse("checkpoint_error", f"no longer ready: {', '.join(report.blockers[:5])}")
        both = set(report.restarts) & (scope or frozenset())
        if both:
            raise refuse("restart_in_scope", f"restarts: {', '.join(sorted(map(str, both))[:5])}")
        records = await self.participant._export(checkpoint_id, scope)
        return [record.model_dump(mode="json", by_alias=True) for record in records]

    async def drop_unclaimed(self, scope: frozenset[EpisodeId], also: Collection[str]) -> None:
        """Free what was restored, not claimed, and is not in scope, or is one of the sessions ``also``."""
        await self.participant._drop_unclaimed(scope, also)

    async def install(self, records: Sequence[Any], checkpoint_id: str) -> None:
        """Take restored records over, all or nothing."""
        typed = [self.participant.record_type.model_validate(record) for record in records]
        await self.participant._install(typed, checkpoint_id)

    async def settle(self) -> None:
        """Clean up before admission opens."""
        await self.participant._settle()

    def mark(self, episodes: Sequence[EpisodeId]) -> None:
        """These attempts are over."""
        self.participant.marks.retire(episodes)
        self.participant.changes.notify()

    def forget(self, rollout_ids: Sequence[str]) -> None:
        """Drop marks."""
        self.participant.marks.forget(rollout_ids)

    async def stop(self, episodes: Sequence[EpisodeId]) -> None:
        """Stop the work of attempts that were marked."""
        await self.participant._stop(episodes)

    async def release(self, kept: frozenset[str]) -> int:
        """Free what only checkpoints outside ``kept`` need."""
        return await self.participant._release(kept)
