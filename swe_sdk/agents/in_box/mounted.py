"""What agents share whose harness runs in the box."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from swe_sdk.agents.contract import AgentNeeds
from swe_sdk.agents.harnesses import need_harness
from swe_sdk.agents.harnesses.agent import HarnessAgent
from swe_sdk.agents.in_box.program import AGENTS
from swe_sdk.sandbox.contract import Mount


class MountedAgent(HarnessAgent):
    """Its harness is mounted read-only at ``AGENTS/<name>``, and calls the model from there."""

    driver: ClassVar[Path | None] = None
    """A program of ours that drives it, mounted beside it as ``AGENTS/<name>_<file name>``."""

    @property
    def needs(self) -> AgentNeeds:
        """Its program, and ours. ``HarnessUnavailable`` before :meth:`prepare`."""
        mounts = [Mount(source=str(need_harness(self.name)), target=f"{AGENTS}/{self.name}")]
        if self.driver is not None:
            mounts.append(Mount(source=str(self.driver), target=f"{AGENTS}/{self.name}_{self.driver.name}"))
        return AgentNeeds(egress="model", mounts=tuple(mounts))
