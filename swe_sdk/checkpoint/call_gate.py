"""Model calls of agents in this process: refused or held while a checkpoint is open, and kept in a capture ledger.

The HTTP gateway of :mod:`swe_sdk.agents.gateway` is the other :class:`ModelGate`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anyio

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.checkpoint.waiting import Changes


class CallView(Protocol):
    """What is known of a call under way."""

    @property
    def rollout_id(self) -> str:
        """Whose it is."""

    @property
    def attempt(self) -> int:
        """Of its rollout."""

    @property
    def is_delivered(self) -> bool:
        """Whether the agent has seen any of the reply: from then on it is part of its history."""


class ModelGate(Protocol):
    """What the model participant needs of whatever carries calls."""

    def hold(self) -> None:
        """From now on no new call is made and no reply is given; twice is once."""

    def release(self) -> None:
        """Everything goes on."""

    def drop(self, rollout_id: str | None = None, *, up_to: int | None = None) -> int:
        """Break off undelivered calls: of one rollout, or all; of its attempts up to one, or all. How many."""

    def calls(self, rollout_id: str | None = None) -> Sequence[CallView]:
        """Calls under way."""


class CaptureRows(Protocol):
    """The ledger of delivered calls, by rollout."""

    def captured(self) -> Mapping[EpisodeId, list[dict[str, Any]]]:
        """The rows of each rollout, under the attempt that added the last one."""

    def restore(self, rows: Mapping[EpisodeId, list[dict[str, Any]]]) -> None:
        """Take rows back; those of the rollouts' later attempts are added to them."""

    def discard(self, rollout_id: str) -> None:
        """Drop the rows of a rollout."""


class MemoryRows:
    """A ledger in memory."""

    def __init__(self) -> None:
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._attempts: dict[str, int] = {}

    def add(self, episode_id: EpisodeId, row: dict[str, Any]) -> None:
        """A call was delivered."""
        self._rows.setdefault(episode_id.rollout_id, []).append(row)
        self._attempts[episode_id.rollout_id] = episode_id.attempt

    def captured(self) -> Mapping[EpisodeId, list[dict[str, Any]]]:
        """See :class:`CaptureRows`."""
        return {
            EpisodeId(rollout_id=name, attempt=self._attempts[name]): list(rows) for name, rows in self._rows.items()
        }

    def restore(self, rows: Mapping[EpisodeId, list[dict[str, Any]]]) -> None:
        """See :class:`CaptureRows`."""
        for episode_id, restored in rows.items():
            self._rows[episode_id.rollout_id] = list(restored)
            self._attempts[episode_id.rollout_id] = episode_id.attempt

    def discard(self, rollout_id: str) -> None:
        """See :class:`CaptureRows`."""
        self._rows.pop(rollout_id, None)
        self._attempts.pop(rollout_id, None)


class Call:
    """A call under way, made by :meth:`CallGate.call`."""

    def __init__(self, gate: CallGate, episode_id: EpisodeId) -> None:
        self.episode_id = episode_id
        self.scope = anyio.CancelScope()
        self.is_delivered = False
        self._gate = gate

    @property
    def rollout_id(self) -> str:
        """Whose it is."""
        return self.episode_id.rollout_id

    @property
    def attempt(self) -> int:
        """Of its rollout."""
        return self.episode_id.attempt

    async def deliver(self, row: dict[str, Any]) -> None:
        """The reply is there: wait until it may be given, and write it into the ledger."""
        await self._gate.changes.until(lambda: not self._gate.is_held)
        self.is_delivered = True
        self._gate.rows.add(self.episode_id, row)
        self._gate.changes.notify()


class CallGate:
    """A :class:`ModelGate` for agents that call the model from this process."""

    def __init__(self, rows: MemoryRows | None = None) -> None:
        self.rows = rows or MemoryRows()
        self.changes = Changes()
        self.is_held = False
        self._calls: list[Call] = []

    @asynccontextmanager
    async def call(self, episode_id: EpisodeId, *, wait: bool = False) -> AsyncIterator[Call]:
        """One call, from the request to the last byte of its reply.

        While held it is refused (``admission_closed``), or waits. ``stale_attempt`` where it was dropped.
        """
        if wait:
            await self.changes.until(lambda: not self.is_held)
        if self.is_held:
            raise refuse("admission_closed", "model calls are held", remedy="retry after resume")
        call = Call(self, episode_id)
        self._calls.append(call)
        try:
            with call.scope:
                yield call
        finally:
            self._calls.remove(call)
            self.changes.notify()
        if call.scope.cancelled_caught:
            raise refuse("stale_attempt", f"a call of {episode_id} was dropped")

    def hold(self) -> None:
        """See :class:`ModelGate`."""
        self.is_held = True

    def release(self) -> None:
        """See :class:`ModelGate`."""
        self.is_held = False
        self.changes.notify()

    def drop(self, rollout_id: str | None = None, *, up_to: int | None = None) -> int:
        """See :class:`ModelGate`."""
        calls = [call for call in self.calls(rollout_id) if up_to is None or call.attempt <= up_to]
        dropped = [call for call in calls if not call.is_delivered]
        for call in dropped:
            call.scope.cancel()
        return len(dropped)

    def calls(self, rollout_id: str | None = None) -> Sequence[Call]:
        """See :class:`ModelGate`."""
        return [call for call in self._calls if rollout_id in (None, call.rollout_id)]
