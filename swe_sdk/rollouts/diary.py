"""What one attempt tells the journal."""

from __future__ import annotations

from collections.abc import Callable

from anyio import to_thread

from swe_sdk.errors import SandboxError
from swe_sdk.model.patch import Patch
from swe_sdk.rollouts.ports import Artifact, EventSink
from swe_sdk.store.events import ArtifactRole, Event


class Diary:
    """The journal, for the events of one attempt.

    :meth:`tell` raises where the journal cannot be written (``NoSpace``, ``OSError``). :meth:`note`, for places where
    an exception would hide another, does not; what it met is kept in :attr:`trouble`.
    """

    def __init__(self, sink: EventSink, rollout_id: str, attempt: int) -> None:
        self.rollout_id = rollout_id
        self.attempt = attempt
        self.trouble: SandboxError | OSError | None = None
        self._sink = sink

    async def tell(self, kind: Callable[..., Event], **fields: object) -> None:
        """Write an event; on disk when this returns."""
        await self._sink.append_async(self._event(kind, fields))

    def tell_now(self, kind: Callable[..., Event], **fields: object) -> None:
        """The same, from any thread and without waiting; an agent may swallow what it raises, the diary does not."""
        try:
            self._sink.append(self._event(kind, fields))
        except (SandboxError, OSError) as error:
            self.trouble = self.trouble or error
            raise

    def note(self, kind: Callable[..., Event], **fields: object) -> None:
        """Write an event that may be lost."""
        try:
            self._sink.append(self._event(kind, fields))
        except (SandboxError, OSError) as error:
            self.trouble = self.trouble or error

    def artifact(self, name: str, role: ArtifactRole) -> Artifact:
        """A file of the attempt that grows."""
        return self._sink.artifact(name, rollout_id=self.rollout_id, attempt=self.attempt, role=role)

    async def save_patch(self, patch: Patch) -> None:
        """Keep the patch as a file of the attempt."""

        def save() -> None:
            self._sink.save("patch.diff", patch.data, rollout_id=self.rollout_id, attempt=self.attempt, role="patch")

        await to_thread.run_sync(save)

    def _event(self, kind: Callable[..., Event], fields: dict[str, object]) -> Event:
        return kind(rollout_id=self.rollout_id, attempt=self.attempt, **fields)
