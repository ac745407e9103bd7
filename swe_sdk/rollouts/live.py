"""A rollout while it runs: to be watched, asked to park, and told to go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import anyio

from swe_sdk.rollouts.bookmark import Bookmark, RolloutStage

if TYPE_CHECKING:
    from swe_sdk.model.task import Task
    from swe_sdk.rollouts.lent import Lent
    from swe_sdk.rollouts.meter import Meter
    from swe_sdk.sandbox.contract import Box, SandboxProvider


class LiveRollout:
    """One rollout in this process; the engine keeps it up to date. Of the engine's event loop, but for the flags.

    To save it: :meth:`request_park`, :meth:`wait_parked`, then freeze :attr:`box` and keep the bookmark with the id of
    the snapshot, then :meth:`resume`. A parked rollout is charged nothing, and its deadlines stand still.
    """

    def __init__(self, task: Task, rollout_id: str, *, attempt: int = 1) -> None:
        self.task = task
        self.rollout_id = rollout_id
        self.attempt = attempt
        self.stage: RolloutStage = "seed"
        self.provider: SandboxProvider | None = None
        self.box: Box | None = None
        """The agent's, from the end of ``seed`` to that of ``close_agent``."""
        self.lent: Lent | None = None
        """The same as it is lent to the agent, from when that begins."""
        self.bookmark: Bookmark | None = None
        """The latest boundary."""
        self.meter: Meter | None = None
        self.newest: Bookmark | None = None
        """What the newest checkpoint holds of it, where it was restored: what it began with may be gone by now."""
        self._asked = threading.Event()
        self._asked_async = anyio.Event()
        self._parked = anyio.Event()
        self._go_on = anyio.Event()

    # -- for who parks -----------------------------------------------------------------------------------------------

    def request_park(self) -> None:
        """Ask it to stand still at its next boundary. Again is no harm."""
        self._asked.set()
        self._asked_async.set()

    async def wait_parked(self) -> Bookmark:
        """Until it stands; returns where."""
        await self._parked.wait()
        assert self.bookmark is not None
        return self.bookmark

    def resume(self) -> None:
        """Take the request back and, where it is parked, let it go on."""
        self._asked.clear()
        self._asked_async = anyio.Event()
        self._go_on.set()

    @property
    def is_parked(self) -> bool:
        """Whether it stands at :attr:`bookmark` now."""
        return self._parked.is_set()

    @property
    def park_requested(self) -> bool:
        """From any thread."""
        return self._asked.is_set()

    async def wait_park_requested(self) -> None:
        """Until somebody asks."""
        while not self._asked.is_set():
            await self._asked_async.wait()

    # -- for the engine ----------------------------------------------------------------------------------------------

    async def stand(self, bookmark: Bookmark) -> None:
        """At a boundary: keep the bookmark and, as long as somebody asks for it, stay. The engine charges the time."""
        self.bookmark = bookmark
        while self._asked.is_set():
            self._go_on = anyio.Event()
            self._parked.set()
            try:
                await self._go_on.wait()
            finally:
                self._parked = anyio.Event()


class LiveRollouts:
    """Those that run in this process now, by id."""

    def __init__(self) -> None:
        self._live: dict[str, LiveRollout] = {}

    def add(self, rollout: LiveRollout) -> None:
        """It begins."""
        self._live[rollout.rollout_id] = rollout

    def remove(self, rollout: LiveRollout) -> None:
        """It is over."""
        self._live.pop(rollout.rollout_id, None)

    def get(self, rollout_id: str) -> LiveRollout | None:
        """That of an id, if it runs."""
        return self._live.get(rollout_id)

    def __iter__(self) -> Iterator[LiveRollout]:
        return iter(list(self._live.values()))

    def __len__(self) -> int:
        return len(self._live)
