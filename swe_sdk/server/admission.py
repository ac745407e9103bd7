"""How much a server takes on at once. What is beyond that is refused at once, and told when to come again."""

from __future__ import annotations

import math
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio

from swe_sdk.errors import SweError
from swe_sdk.sandbox.admission import Gate
from swe_sdk.server.settings import ServerSettings

_FIRST_GUESS_S = 5.0
_WEIGHT = 0.2
"""Of the newest evaluation in the running mean of how long they take."""
_LONGEST_WAIT_S = 300
MIB = 1 << 20


class TooBusy(SweError):
    """The server is at its limit of ``what``; after ``retry_after_s`` seconds there may be room."""

    def __init__(self, what: str, retry_after_s: int) -> None:
        super().__init__(f"too many {what}", remedy=f"try again after {retry_after_s} s")
        self.retry_after_s = retry_after_s


class PostSlot:
    """A post that is being answered, and the bytes of its body that were counted."""

    def __init__(self, admission: ServerAdmission) -> None:
        self._admission = admission
        self.bytes = 0

    def add(self, count: int) -> None:
        """Count bytes that have arrived; ``TooBusy`` where all bodies together are too many."""
        self.bytes += count
        self._admission.add_bytes(count)


class ServerAdmission:
    """Counts posts, their bytes, and evaluations; of one event loop."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._most_posts = min(settings.posts, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self._evaluations = Gate(settings.workers)
        self._bytes = 0
        self._usual_s = _FIRST_GUESS_S
        self.posts = 0
        self.idle = anyio.Event()
        self.idle.set()

    @property
    def running(self) -> int:
        """Evaluations under way."""
        return len(self._evaluations.view().held)

    @property
    def waiting(self) -> int:
        """Evaluations that wait for a worker."""
        return self._evaluations.view().waiting

    @property
    def retry_after_s(self) -> int:
        """When there may be room: what one round of the workers usually takes."""
        rounds = 1 + self.waiting / self._settings.workers
        return min(_LONGEST_WAIT_S, max(1, math.ceil(self._usual_s * rounds)))

    @contextmanager
    def post(self) -> Iterator[PostSlot]:
        """Around answering one post; ``TooBusy`` where there are too many."""
        if self.posts >= self._most_posts:
            raise TooBusy("posts at once", self.retry_after_s)
        slot = PostSlot(self)
        self.posts += 1
        if self.idle.is_set():
            self.idle = anyio.Event()
        try:
            yield slot
        finally:
            self._bytes -= slot.bytes
            self.posts -= 1
            if not self.posts:
                self.idle.set()

    def add_bytes(self, count: int) -> None:
        """See :meth:`PostSlot.add`."""
        self._bytes += count
        if self._bytes > self._settings.bodies_mib * MIB:
            raise TooBusy("bytes in the bodies of posts", self.retry_after_s)

    @asynccontextmanager
    async def evaluation(self, what: str) -> AsyncIterator[None]:
        """A worker's place, first come, first served; ``TooBusy`` where too many wait for one."""
        if self.running >= self._settings.workers and self.waiting >= self._settings.queue:
            raise TooBusy("evaluations that wait", self.retry_after_s)
        slot = await self._evaluations.enter(what)
        started = anyio.current_time()
        try:
            yield
        finally:
            slot.release()
            self._usual_s += _WEIGHT * (anyio.current_time() - started - self._usual_s)
