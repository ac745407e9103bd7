"""The model participant: no new call and no reply while a checkpoint is open, and the ledger of what was delivered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import anyio

from swe_sdk.checkpoint.call_gate import CallView, CaptureRows, ModelGate
from swe_sdk.checkpoint.messages import EpisodeId, Kind, PrepareReport
from swe_sdk.checkpoint.participants.base import BaseParticipant
from swe_sdk.checkpoint.participants.calls import owner_in
from swe_sdk.checkpoint.records import ModelRecord

_POLL_S = 0.02


class ModelParticipant(BaseParticipant[ModelRecord]):
    """Closes a gate. Only a reply that is being delivered holds a checkpoint up: any other call is undelivered, not in
    the ledger, and made again after a restore."""

    kind: ClassVar[Kind] = "model"
    record_type = ModelRecord
    poll_s = _POLL_S  # a gate does not tell when a reply has been delivered

    def __init__(
        self, instance: str = "model", *, gate: ModelGate, rows: CaptureRows | None = None, **settings: Any
    ) -> None:
        super().__init__(instance, **settings)
        self._gate = gate
        self._rows = rows

    def _on_close(self) -> None:
        self._gate.hold()

    def _on_open(self) -> None:
        self._gate.release()

    def _delivering(self) -> list[CallView]:
        return [call for call in self._gate.calls() if call.is_delivered]

    def _report(self) -> PrepareReport:
        delivering, calls = self._delivering(), self._gate.calls()
        blockers = [f"a reply to {call.rollout_id}#{call.attempt} is being delivered" for call in delivering]
        return PrepareReport.of(blockers, counts={"held": len(calls) - len(delivering), "delivering": len(delivering)})

    def _captured(self) -> Mapping[EpisodeId, list[dict[str, Any]]]:
        return self._rows.captured() if self._rows else {}

    async def _export(self, checkpoint_id: str, scope: frozenset[EpisodeId] | None) -> Sequence[ModelRecord]:
        """Rows of an earlier attempt belong to the later one that has made no call yet."""
        captured = self._captured()
        owners = {one: owner_in(scope, one, unclaimed=True) for one in captured if not self.marks.covers(one)}
        return [ModelRecord(episode_id=owner, rows=captured[one]) for one, owner in owners.items() if owner is not None]

    async def _install(self, records: Sequence[ModelRecord], checkpoint_id: str) -> None:
        if self._rows is not None:
            self._rows.restore({record.episode_id: record.rows for record in records})

    async def _stop(self, episodes: Sequence[EpisodeId]) -> None:
        over = {mark.rollout_id: mark.attempt for mark in self.marks.of(episodes)}
        for name, attempt in over.items():
            self._gate.drop(name, up_to=attempt)  # a retry may come late: the next attempt goes on
        while any(call.attempt <= over.get(call.rollout_id, -1) for call in self._gate.calls()):
            await anyio.sleep(_POLL_S)
        for episode in self._captured():
            if self._rows is not None and self.marks.covers(episode):
                self._rows.discard(episode.rollout_id)
