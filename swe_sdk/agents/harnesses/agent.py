"""What agents share whose harness is installed in an environment of its own."""

from __future__ import annotations

from typing import ClassVar

from anyio import to_thread

from swe_sdk.agents.harnesses.homes import ensure_harness
from swe_sdk.agents.harnesses.pinned import HARNESSES
from swe_sdk.model.record import Record


class HarnessAgent(Record):
    """An agent by the name of its harness."""

    name: ClassVar[str]

    @property
    def version(self) -> str:
        """Of the harness: the one it was tried with."""
        return HARNESSES[self.name].version

    async def prepare(self) -> None:
        """Install it, if it is not there yet. Raises ``PrerequisiteError`` where this machine lacks something."""
        await to_thread.run_sync(ensure_harness, self.name, abandon_on_cancel=True)
