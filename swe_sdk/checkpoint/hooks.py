"""What an agent or resources server implements to be saved and restored, and the check of that at its start."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from swe_sdk.checkpoint.messages import EpisodeId, Mode
from swe_sdk.model.record import Record


class SeedBody(Record):
    """What a session of an agent is made from; the caller chooses the id."""

    session_id: str
    episode_id: EpisodeId
    body: dict[str, Any] = Field(default_factory=dict)
    """The agent's own arguments."""
    sandbox: dict[str, Any] | None = None
    """How to reach the sandbox that is lent to it."""
    tool_grants: tuple[str, ...] = ()
    """Tokens for tools; each holds for this attempt only."""


class AgentHooks:
    """Base class of what an agent does with its sessions; override what it needs.

    By default an agent keeps nothing outside of its boundaries. All hooks may be called again after a failure.
    """

    rebinds_tool_accesses: bool = False
    """Whether a restored session can be given new tool grants and a new sandbox; then override
    :meth:`rebind_restored_agent_session_state`."""

    def checkpoint_mode_in_effect(self) -> Mode:
        """How far this instance can be saved; asked at set-up, at every seed and by ``status``."""
        return "exported"

    def seed_restarts(self, body: SeedBody) -> bool:
        """Whether a session with this seed can only start over: by default, where it holds grants it cannot renew."""
        return bool(body.tool_grants) and not self.rebinds_tool_accesses

    async def seed_agent_session(self, body: SeedBody) -> None:
        """Make what a new session needs; may be slow."""

    async def close_agent_session(self, key: str) -> None:
        """The session is over."""

    async def export_agent_sessions(self, keys: Sequence[str], *, checkpoint_id: str) -> Mapping[str, Any]:
        """Plain data for each of these sessions, beside its boundary; a missing key fails the commit."""
        return dict.fromkeys(keys)

    async def restore_agent_sessions(self, states: Mapping[str, Any]) -> None:
        """Take back what :meth:`export_agent_sessions` returned."""

    async def rebind_restored_agent_session_state(self, key: str, body: SeedBody) -> None:
        """Let a restored session use the sandbox and the grants of ``body`` from now on."""

    async def retire_agent_session(self, key: str) -> None:
        """Free everything of a session whose attempt is over."""

    async def release_external_state(self, kept: frozenset[str]) -> int:
        """Free what only checkpoints outside ``kept`` need; returns how many things went.

        Runs under the control lock: the next prepare waits for it. It is cancelled at its deadline and called again, so
        a second run must do no harm. Decide by reference and not by name: a later checkpoint may hold what an older one
        made. Admission is open meanwhile; several workers may run it at once on one store.
        """
        return 0


class ResourcesHooks:
    """Base class of what a resources server does with its sessions; see :class:`AgentHooks` for the rules."""

    def checkpoint_mode_in_effect(self) -> Mode:
        """By default nothing can be saved, so that episodes start over rather than lose state unseen."""
        return "restart_only"

    async def export_session_states(self, ids: Sequence[str], *, checkpoint_id: str) -> Mapping[str, Any]:
        """Plain data for each session; one that is gone may be left out."""
        return {}

    async def restore_session_states(self, states: Mapping[str, Any]) -> None:
        """Take them back, all or none."""

    async def retire_session_state(self, session_id: str) -> None:
        """Free everything of a session whose attempt is over."""

    async def close_session_state(self, session_id: str) -> None:
        """The session is over."""

    def admission_opened(self) -> None:
        """A checkpoint has ended: sessions may change again."""

    async def settle(self) -> None:
        """Wait for clean-up of what a restore has replaced; admission opens after it."""

    async def release_external_state(self, kept: frozenset[str]) -> int:
        """See :meth:`AgentHooks.release_external_state`."""
        return 0


def check_agent_hooks(hooks: AgentHooks) -> None:
    """``ValueError`` naming the class where its hooks could only fail later."""
    _require_checkpoint_id(hooks, "export_agent_sessions")
    rebind = type(hooks).rebind_restored_agent_session_state
    if hooks.rebinds_tool_accesses and rebind is AgentHooks.rebind_restored_agent_session_state:
        raise ValueError(
            f"{type(hooks).__qualname__} declares rebinds_tool_accesses without overriding "
            "rebind_restored_agent_session_state"
        )


def check_resources_hooks(hooks: ResourcesHooks) -> None:
    """``ValueError`` naming the class where its hooks could only fail later."""
    _require_checkpoint_id(hooks, "export_session_states")


def _require_checkpoint_id(hooks: object, name: str) -> None:
    parameters = inspect.signature(getattr(hooks, name)).parameters.values()
    named = any(
        one.kind is one.VAR_KEYWORD
        or (one.name == "checkpoint_id" and one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD))
        for one in parameters
    )
    if not named:
        raise ValueError(f"{type(hooks).__qualname__}.{name} must take the keyword checkpoint_id, or **kwargs")
