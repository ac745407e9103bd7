"""What the engine needs of others, and does not know more of: a verifier, a model, a journal."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from swe_sdk.agents.contract import ModelAccess
from swe_sdk.agents.gateway.settings import ModelUsage
from swe_sdk.errors import SweError
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task
from swe_sdk.sandbox.contract import Box, SandboxProvider
from swe_sdk.store.events import ArtifactRole, Event


class Verifier(Protocol):
    """Grades a patch, here or elsewhere. :class:`swe_sdk.rollouts.verifier.LocalVerifier` does it in this process."""

    async def verify(self, task: Task, patch: Patch, *, deadline_s: float) -> Outcome:
        """What ``patch`` is worth. It is cancelled after ``deadline_s`` seconds, and should end by itself before.

        Raises errors of :mod:`swe_sdk.errors` where no answer can be had; the engine makes a mask of them.
        """


class ModelSession(Protocol):
    """One episode's way to its model, while it lasts."""

    @property
    def access(self) -> ModelAccess:
        """Probed from where the agent will use it."""

    @property
    def trouble(self) -> SweError | None:
        """The failure of the endpoint that the episode has not got over: its last call could not be answered, after
        all tries (no connection, a timeout, an error of the server). None where its last call was answered. Known from
        the gateway's own ledger, never from what the agent says."""

    @property
    def usage(self) -> ModelUsage:
        """What the episode has used of the model, with what it had used where it goes on from a bookmark."""

    @property
    def refused(self) -> int:
        """Calls that were refused because the episode's allowance was spent."""

    def held_at_call(self) -> AbstractAsyncContextManager[None]:
        """Hold the episode's calls until the block is left; it begins once one of them waits for its answer."""


class ModelSource(Protocol):
    """Gives each episode its own access to the model."""

    def connect(
        self, provider: SandboxProvider, box: Box, *, rollout_id: str, attempt: int, used: ModelUsage | None = None
    ) -> AbstractAsyncContextManager[ModelSession]:
        """Open the way for one attempt; it ends with the block. ``used`` counts towards its allowance already.

        Raises an error of :mod:`swe_sdk.errors` where the box cannot reach the model.
        """


class Artifact(Protocol):
    """A file of the run that grows; see :class:`swe_sdk.store.artifacts.ArtifactFile`."""

    path: Path

    def write(self, data: bytes) -> None:
        """Append, from any thread. Raises ``NoSpace``."""

    async def aclose(self) -> object:
        """It is complete."""


class EventSink(Protocol):
    """The journal of this process, thread-safe: what it was told is on disk when it returns.

    It is a :class:`swe_sdk.store.writer.RunWriter`, or a :class:`swe_sdk.rollouts.no_journal.NoJournal`. All methods
    raise ``NoSpace`` on a full disk.
    """

    def append(self, event: Event, /) -> None:
        """Write one event."""

    async def append_async(self, event: Event, /) -> None:
        """The same, without blocking the event loop for events that are synced to the disk."""

    def artifact(self, name: str, *, rollout_id: str | None, attempt: int | None, role: ArtifactRole) -> Artifact:
        """A new file of an attempt; ``InputError`` where there is one of that name."""

    def save(
        self, name: str, data: bytes, *, rollout_id: str | None, attempt: int | None, role: ArtifactRole
    ) -> object:
        """A whole file of an attempt."""
