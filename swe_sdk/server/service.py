"""Everything that one running server has."""

from __future__ import annotations

import time

import anyio

import swe_sdk
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.server.door import Door
from swe_sdk.server.metrics import Metrics
from swe_sdk.server.models import HealthResponse
from swe_sdk.server.settings import ServerSettings
from swe_sdk.server.tasks import Tasks
from swe_sdk.server.verifier import Verifier
from swe_sdk.server.watching import NOBODY
from swe_sdk.store.results import Results


class Service(Door):
    """The parts of a server, put together; ``provider`` is used as it is. Of one event loop."""

    def __init__(self, settings: ServerSettings, tasks: TaskSet, provider: SandboxProvider) -> None:
        self.provider = provider
        self.tasks = Tasks(tasks, inline=settings.inline_tasks, local_sources=settings.local_sources)
        self.metrics = Metrics() if settings.metrics else None
        self.watcher = self.metrics or NOBODY
        results = None if settings.results is None else Results(settings.results)
        self.verifier = Verifier(settings, provider, results=results, watcher=self.watcher)
        super().__init__(settings, self.verifier.admission)
        if self.metrics is not None:
            self.metrics.watch(self.admission)

    def health(self) -> HealthResponse:
        """How it is just now."""
        return HealthResponse(
            status="draining" if self.is_draining else "ok",
            version=swe_sdk.__version__,
            provider=self.provider.name,
            tasks=len(self.tasks.loaded),
            uptime_s=round(time.monotonic() - self._started, 3),
            posts=self.admission.posts,
            evaluations=self.admission.running,
            waiting=self.admission.waiting,
            workers=self.settings.workers,
        )

    async def drain(self, *, stop: anyio.Event) -> None:
        """Take nothing new, and finish what was begun: for ``drain_s`` seconds, or until ``stop`` is set.

        Then what is left is given up: its posts are answered with masks, once their sandboxes are gone.
        """
        self.is_draining = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._stop_later, stop)
            await self.admission.idle.wait()
            tasks.cancel_scope.cancel()

    async def _stop_later(self, stop: anyio.Event) -> None:
        with anyio.move_on_after(self.settings.drain_s):
            await stop.wait()
        self.verifier.stop()
