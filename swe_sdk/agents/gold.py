"""The agent that plays back the dataset's own solution: does everything around an agent work?"""

from __future__ import annotations

from typing import ClassVar

from swe_sdk.agents.contract import AgentEnd, AgentNeeds, Episode, Step, Tier
from swe_sdk.errors import InputError, SandboxLost
from swe_sdk.model.patch import Patch
from swe_sdk.model.record import Record

_PATCH = "/tmp/swe_sdk-gold.patch"
_APPLY = f"git apply --whitespace=nowarn {_PATCH} || patch --batch --fuzz=5 -p1 -i {_PATCH}"
_APPLY_TIMEOUT_S = 300.0


class GoldAgent(Record):
    """Applies the solution in the box, from where it is taken like any agent's work.

    ``submit=True``: it submits the solution as it stands. The engine hands it the patch, which no agent sees otherwise.
    """

    name: ClassVar[str] = "gold"
    version: ClassVar[str] = "1"
    tier: ClassVar[Tier] = "exact"
    needs: ClassVar[AgentNeeds] = AgentNeeds()
    submit: bool = False
    patch: Patch | None = None

    def with_gold(self, patch: Patch | None) -> GoldAgent:
        """The agent for the task whose solution ``patch`` is."""
        return self.model_copy(update={"patch": patch})

    async def run(self, episode: Episode) -> AgentEnd:
        """Apply the patch. ``InputError`` where the task has none, ``SandboxLost`` where the box dies meanwhile."""
        if self.patch is None:
            raise InputError(f"{episode.task.instance_id} has no gold patch", remedy="choose another agent for it")
        if self.submit:
            return AgentEnd(patch=self.patch, message="submitted the gold patch")
        if episode.saved is None:
            await episode.box.write(_PATCH, self.patch.data)
            applied = await episode.box.exec(_APPLY, merge_stderr=True, timeout_s=_APPLY_TIMEOUT_S)
            if applied.status == "lost":
                raise SandboxLost("the sandbox died while the gold patch was applied")
            await episode.box.exec(["rm", "-f", _PATCH], timeout_s=_APPLY_TIMEOUT_S)
            episode.record(Step(n=1, kind="action", summary="apply the gold patch", seconds=applied.duration_s))
            if not applied.ok:
                return AgentEnd(reason="error", message=applied.stdout[-2000:], exit_code=applied.exit_code)
        await episode.boundary({"applied": True})
        return AgentEnd(message="applied the gold patch")
