"""A participant that can save nothing: it holds nothing up, and everything in flight there starts over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from swe_sdk.checkpoint.messages import EpisodeId, Kind, PrepareReport
from swe_sdk.checkpoint.participants.base import BaseParticipant
from swe_sdk.checkpoint.records import CheckpointRecord


class RestartOnlyParticipant(BaseParticipant[CheckpointRecord]):
    """``in_flight`` names the episodes that are under way; none of them can be saved."""

    record_type = CheckpointRecord

    def __init__(
        self, kind: Kind, instance: str, *, in_flight: Callable[[], Iterable[EpisodeId]], **settings: Any
    ) -> None:
        super().__init__(instance, **settings)
        self.kind = kind  # type: ignore[misc]  # of this object, where others have it by their class
        self._in_flight = in_flight

    def _report(self) -> PrepareReport:
        restarts = dict.fromkeys(one for one in self._in_flight() if not self.marks.covers(one))
        return PrepareReport.of([], restarts=tuple(restarts))

    async def _export(self, checkpoint_id: str, scope: frozenset[EpisodeId] | None) -> Sequence[CheckpointRecord]:
        return []

    async def _install(self, records: Sequence[CheckpointRecord], checkpoint_id: str) -> None:
        """There is nothing to take back."""

    def _extras(self) -> dict[str, Any]:
        return {"mode": "restart_only"}
