"""Renews the boxes of this process while it lives: whatever it leaves behind ends by the system's own clock."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import anyio

from swe_sdk.errors import SandboxError

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.remote.provider import RemoteProvider

_SHARE = 4
"""A box is renewed when a quarter of its time has passed: three attempts may fail."""
_log = logging.getLogger(__name__)


class Heartbeat:
    """A thread for one provider."""

    def __init__(self, provider: RemoteProvider) -> None:
        self._provider = provider
        self.forget()

    def forget(self) -> None:
        """In a forked child, where the thread does not exist; also makes it stopped at first."""
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, if it has not begun yet."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, args=(self._stopped,), name="swe_sdk remote renewals", daemon=True
            )
            self._thread.start()

    def stop(self, cap_s: float = 5.0) -> None:
        """End; may be started again."""
        thread, stopped = self._thread, self._stopped
        self.forget()
        stopped.set()
        if thread is not None:
            thread.join(cap_s)

    def _run(self, stopped: threading.Event) -> None:
        while not stopped.wait(self._provider.ttl_s / _SHARE):
            anyio.run(self.renew_all)

    async def renew_all(self) -> None:
        """Once, for all boxes; what fails is tried again the next time."""
        for box in list(self._provider.boxes.values()):
            try:
                await box.renew(self._provider.ttl_s)
            except SandboxError as error:
                _log.warning("box %s could not be renewed: %s", box.id, error)
