"""The agent that does nothing: what a task is worth untouched."""

from __future__ import annotations

from typing import ClassVar

from swe_sdk.agents.contract import AgentEnd, AgentNeeds, Episode, Tier
from swe_sdk.model.record import Record


class NoopAgent(Record):
    """Ends at once; its patch is empty."""

    name: ClassVar[str] = "noop"
    version: ClassVar[str] = "1"
    tier: ClassVar[Tier] = "exact"
    needs: ClassVar[AgentNeeds] = AgentNeeds()

    async def run(self, episode: Episode) -> AgentEnd:
        """Nothing."""
        return AgentEnd(message="nothing was done")
