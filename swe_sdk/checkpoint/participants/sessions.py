"""Sessions of an agent: their seeds, the replies they gave, and what a checkpoint holds of them. Pure."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.hooks import SeedBody
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.checkpoint.participants.activation import Activation
from swe_sdk.checkpoint.records import AgentSessionRecord
from swe_sdk.model.ids import content_key

KEPT_REPLIES = 16
"""How many replies of a session are kept for repeated calls."""
CLOSE_RETRY_WINDOW_S = 300.0
"""How long a closed id is remembered: closing again is well, seeding again is refused."""


def seed_key(body: SeedBody) -> str:
    """Equal for seeds that ask for the same; another attempt of the same rollout may ask for the same."""
    return content_key({**body.model_dump(mode="json", exclude={"episode_id"}), "of": body.episode_id.rollout_id})


@dataclass
class AgentSession:
    """One session."""

    key: str
    seed: SeedBody
    seeded_with: str
    """:func:`seed_key` of the seed as it came, grants and all."""
    is_restart: bool = False
    """Whether no checkpoint can hold it."""
    is_restored: bool = False
    """Whether it came from a checkpoint and nobody has seeded it again yet."""
    completed: int = 0
    replies: OrderedDict[int, Any] = field(default_factory=OrderedDict)
    activation: Activation | None = None
    saved_index: int | None = None
    """The activation that a checkpoint has cut; its boundary is ``saved``."""
    saved: Any = None

    @property
    def episode_id(self) -> EpisodeId:
        """Whose it is."""
        return self.seed.episode_id

    def complete(self, index: int, reply: Any) -> None:
        """An activation has ended."""
        self.completed = index
        self.replies[index] = reply
        while len(self.replies) > KEPT_REPLIES:
            self.replies.popitem(last=False)

    def replay(self, index: int) -> Any:
        """The reply of a completed activation; ``activation_out_of_order`` where it is not kept any more."""
        if index not in self.replies:
            raise refuse("activation_out_of_order", f"{self.completed} activations of {self.key} are completed")
        return self.replies[index]

    def require_next(self, index: int) -> None:
        """``activation_out_of_order`` unless ``index`` comes next."""
        if index != self.completed + 1:
            raise refuse("activation_out_of_order", f"{self.key} expects {self.completed + 1}, and not {index}")

    def claim(self, episode_id: EpisodeId | None) -> None:
        """A later attempt of its rollout goes on with it; ``stale_attempt`` for an earlier one."""
        if episode_id is None:
            return
        if episode_id.rollout_id != self.episode_id.rollout_id:
            raise refuse("checkpoint_conflict", f"session {self.key} is of {self.episode_id}")
        if episode_id.attempt < self.episode_id.attempt:
            raise refuse("stale_attempt", f"session {self.key} is of {self.episode_id}")
        self.seed, self.is_restored = self.seed.model_copy(update={"episode_id": episode_id}), False

    def record(self, episode_id: EpisodeId, state: Any) -> AgentSessionRecord:
        """What a checkpoint holds of it, as of ``episode_id``; the boundary is evaluated now."""
        index, boundary = self.saved_index, self.saved
        if self.activation is not None:
            index, boundary = self.activation.index, self.activation.snapshot()
        return AgentSessionRecord(
            episode_id=episode_id,
            session_key=self.key,
            session={
                "seed": self.seed.model_dump(mode="json", exclude={"tool_grants", "sandbox", "episode_id"}),
                "seeded_with": self.seeded_with,
                "completed": self.completed,
                "replies": {str(number): reply for number, reply in self.replies.items()},
                "activation": index,
                "state": state,
            },
            boundary=boundary,
        )


def session_of(record: AgentSessionRecord) -> AgentSession:
    """A session as it was saved; how to reach tools and sandboxes is secret and not in it."""
    saved = record.session
    try:
        return AgentSession(
            key=record.session_key,
            seed=SeedBody.model_validate({**saved["seed"], "episode_id": record.episode_id.model_dump()}),
            seeded_with=saved["seeded_with"],
            is_restored=True,
            completed=int(saved["completed"]),
            replies=OrderedDict((int(number), reply) for number, reply in saved["replies"].items()),
            saved_index=saved["activation"],
            saved=record.boundary,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise refuse("invalid_checkpoint_state", f"session {record.session_key}: {error!r}") from error


class ClosedSessions:
    """Ids of closed sessions, for as long as their close may be repeated."""

    def __init__(self) -> None:
        self._closed: OrderedDict[str, float] = OrderedDict()

    def add(self, key: str, now: float) -> None:
        """Remember one; drop those that are old enough."""
        self._closed[key] = now
        self._closed.move_to_end(key)
        while self._closed and next(iter(self._closed.values())) < now - CLOSE_RETRY_WINDOW_S:
            self._closed.popitem(last=False)

    def __contains__(self, key: str) -> bool:
        return key in self._closed
