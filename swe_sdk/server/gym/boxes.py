"""The sandboxes of a resources server's sessions, and what a checkpoint holds of each session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.checkpoint.snapshots.checkpointer import SandboxCheckpointer
from swe_sdk.model.task import Task
from swe_sdk.sandbox.lent_environment import LentEnvironment
from swe_sdk.server.models import TaskSource

_SANDBOX, _SESSION = "sandbox", "session"


@dataclass
class Session:
    """One attempt's hold on the server."""

    id: str
    episode_id: EpisodeId
    seeded_with: str
    """Digest of what it was seeded with."""
    task: Task
    task_source: TaskSource
    lent: LentEnvironment
    used_at: float = field(default_factory=anyio.current_time)
    """On the clock of the event loop."""
    expires_at: float = 0.0
    """Unix seconds; 0 = as long as nobody has been given access."""
    calls: int = 0
    """Under way."""
    answer: tuple[str, dict[str, Any]] | None = None
    """The verdict, and the digest of what was asked for."""
    is_restored: bool = False
    """Whether it came from a checkpoint, and no attempt has claimed it yet."""
    lock: anyio.Lock = field(default_factory=anyio.Lock)


class SessionBoxes(SandboxCheckpointer):
    """Saves what is known of a session's repository and verdict beside its sandbox."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.known: dict[str, Session] = {}

    async def export_session_states(self, ids: Iterable[str], *, checkpoint_id: str) -> Mapping[str, Any]:
        """See :class:`~swe_sdk.checkpoint.hooks.ResourcesHooks`."""
        wanted = [one for one in ids if one in self.known]
        boxes = await super().export_session_states(wanted, checkpoint_id=checkpoint_id)
        return {name: {_SANDBOX: boxes[name], _SESSION: _saved(self.known[name])} for name in wanted}

    async def restore_session_states(self, states: Mapping[str, Any]) -> None:
        """See :class:`~swe_sdk.checkpoint.hooks.ResourcesHooks`."""
        found = {name: _loaded(name, state[_SESSION]) for name, state in states.items()}
        await super().restore_session_states({name: state[_SANDBOX] for name, state in states.items()})
        self.known.update(found)

    async def stop(self, session_id: str) -> None:
        """Close the sandbox of a session, and forget it."""
        await super().stop(session_id)
        if session_id not in self.sessions:
            self.known.pop(session_id, None)


def _saved(session: Session) -> dict[str, Any]:
    return {
        "episode_id": session.episode_id.model_dump(),
        "seeded_with": session.seeded_with,
        "task": session.task.private(),
        "task_source": session.task_source,
        "lent": session.lent.model_dump(mode="json"),
        "answer": session.answer,
    }


def _loaded(name: str, saved: Mapping[str, Any]) -> Session:
    answer = saved["answer"]
    return Session(
        id=name,
        episode_id=EpisodeId.model_validate(saved["episode_id"]),
        seeded_with=saved["seeded_with"],
        task=Task.model_validate(saved["task"]),
        task_source=saved["task_source"],
        lent=LentEnvironment.model_validate(saved["lent"]),
        answer=None if answer is None else (answer[0], answer[1]),
        is_restored=True,
    )
