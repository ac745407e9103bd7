"""One turn of a single agent as an episode: its stages, its bookmark, and what is done again after a restore.

=============  ======  ==========================================================================================
stage          step    after a restore at it
=============  ======  ==========================================================================================
seed           replay  seeded, under the same ids: what the checkpoint has of the sessions is kept
invoke_agent   replay  seeded again first, where a sandbox is lent or grants are held; then the activation goes on
close_agent    wait    as above
verify         told    nothing is seeded
return         -       nothing is done
=============  ======  ==========================================================================================

To seed a restored session again keeps the state of the task and skips its set-up: it only gives the new attempt a
sandbox and grants of its own. Where an agent cannot take them (it does not rebind), the episode starts over.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

from pydantic import Field

from swe_sdk.checkpoint.hooks import SeedBody
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.checkpoint.participants.agent import SeedReply
from swe_sdk.checkpoint.participants.episode import Episode, StepKind
from swe_sdk.model.record import Record

Stage = Literal["seed", "invoke_agent", "close_agent", "verify", "return"]


class SessionHandles(Record):
    """How an episode reaches its sessions; fields have defaults, so that old bookmarks load."""

    resources_session_id: str
    resources_cookies: dict[str, str] = Field(default_factory=dict)
    agent_session_id: str
    agent_cookies: dict[str, str] = Field(default_factory=dict)
    resources_verify: StepKind = "wait"
    """Which kind of step verification is; the seed of the resources session tells."""
    borrowed_sandbox: bool = False
    """Whether the resources session lends its sandbox to the agent."""
    holds_grants: bool = False
    """Whether the agent holds grants for tools, which are of one attempt."""
    elapsed_s: float = 0.0
    """Not used: what is spent is in the record of the episode. Kept for bookmarks that have it."""

    @property
    def are_of_one_attempt(self) -> bool:
        """Whether the next attempt must be given access of its own."""
        return self.borrowed_sandbox or self.holds_grants


class Bookmark(Record):
    """Where a turn goes on."""

    next: Stage = "seed"
    handles: SessionHandles | None = None
    response: Any = None
    observations: list[Any] = Field(default_factory=list)
    result: Any = None


class ResourcesSeed(Record):
    """What the seed of a resources session gives."""

    sandbox: dict[str, Any] | None = None
    """How the agent reaches the sandbox that is lent to it."""
    tool_grants: tuple[str, ...] = ()
    verify: StepKind = "wait"
    restarts: bool = False
    """Whether this server can save nothing, so that the episode can only start over."""


class Stages(Protocol):
    """What the stages do; each call may be made again with the same arguments."""

    async def seed_resources(self, session_id: str, episode_id: EpisodeId) -> ResourcesSeed:
        """Make the session; for one that is there, give the attempt access and keep the rest."""

    async def seed_agent(self, body: SeedBody) -> SeedReply:
        """Make the agent's session, or give it new access."""

    async def invoke_agent(self, handles: SessionHandles, episode_id: EpisodeId) -> Any:
        """The agent's work; it parks by itself. Returns plain data."""

    async def close_agent(self, handles: SessionHandles, episode_id: EpisodeId) -> None:
        """The agent is done."""

    async def verify(self, handles: SessionHandles, response: Any, episode_id: EpisodeId) -> Any:
        """What it is worth, as plain data."""


class Turn:
    """One episode's way through the stages; ``body`` is what the agent is seeded with."""

    def __init__(self, episode: Episode, stages: Stages, *, body: dict[str, Any] | None = None) -> None:
        self._episode = episode
        self._stages = stages
        self._body = body or {}
        saved = episode.take_continuation()
        self._is_restored = saved is not None
        self.bookmark = Bookmark() if saved is None else Bookmark.model_validate(saved)

    async def run(self) -> Any:
        """Go on from the bookmark to the end; returns the result of the verification."""
        stages: Mapping[Stage, Callable[[], Awaitable[Bookmark]]] = {
            "seed": self._seed,
            "invoke_agent": self._invoke,
            "close_agent": self._close,
            "verify": self._verify,
        }
        if self._is_restored:
            await self._seed_again()
        while self.bookmark.next != "return":
            self.bookmark = await stages[self.bookmark.next]()
            await self._episode.boundary(self.bookmark.model_dump(mode="json"))
        return self.bookmark.result

    @property
    def _handles(self) -> SessionHandles:
        assert self.bookmark.handles is not None
        return self.bookmark.handles

    def _then(self, following: Stage, **changes: Any) -> Bookmark:
        return self.bookmark.model_copy(update={"next": following, **changes})

    async def _seed(self) -> Bookmark:
        """The ids are chosen and recorded first: sessions that a checkpoint has are found again by them, and never
        left behind."""
        if self.bookmark.handles is None:
            self.bookmark = self._then("seed", handles=_new_handles())
            await self._episode.boundary(self.bookmark.model_dump(mode="json"))
        async with self._episode.step("replay"):
            handles = await self._give_access()
        return self._then("invoke_agent", handles=handles)

    async def _seed_again(self) -> None:
        if self.bookmark.next not in ("invoke_agent", "close_agent") or not self._handles.are_of_one_attempt:
            return
        async with self._episode.step("replay"):
            await self._give_access()

    async def _give_access(self) -> SessionHandles:
        """Seed both sessions; new ones are made, those that are there get access for this attempt."""
        seed = await self._stages.seed_resources(self._handles.resources_session_id, self._episode.id)
        reply = await self._stages.seed_agent(
            SeedBody(
                session_id=self._handles.agent_session_id,
                episode_id=self._episode.id,
                body=self._body,
                sandbox=seed.sandbox,
                tool_grants=seed.tool_grants,
            )
        )
        if seed.restarts or reply.restarts:
            await self._episode.mark_restart()
        told = {
            "resources_verify": seed.verify,
            "borrowed_sandbox": seed.sandbox is not None,
            "holds_grants": bool(seed.tool_grants),
        }
        return self._handles.model_copy(update=told)

    async def _invoke(self) -> Bookmark:
        async with self._episode.step("replay"):
            response = await self._stages.invoke_agent(self._handles, self._episode.id)
        return self._then("close_agent", response=response)

    async def _close(self) -> Bookmark:
        async with self._episode.step("wait"):
            await self._stages.close_agent(self._handles, self._episode.id)
        return self._then("verify")

    async def _verify(self) -> Bookmark:
        async with self._episode.step(self._handles.resources_verify):
            result = await self._stages.verify(self._handles, self.bookmark.response, self._episode.id)
        return self._then("return", result=result)


def _new_handles() -> SessionHandles:
    return SessionHandles(
        resources_session_id=f"resources-session-{secrets.token_hex(8)}",
        agent_session_id=f"agent-session-{secrets.token_hex(8)}",
    )
