"""Renews the boxes of this process while it lives: whatever it leaves behind ends by the system's own clock."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from swe_sdk.sandbox.periodic import Periodic

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.remote.box import RemoteBox
    from swe_sdk.sandbox.providers.remote.provider import RemoteProvider

_SHARE = 4
"""A box is renewed when a quarter of its time has passed: three attempts may fail."""
_log = logging.getLogger(__name__)


class Heartbeat(Periodic):
    """Of one provider."""

    def __init__(self, provider: RemoteProvider) -> None:
        self._provider = provider
        super().__init__("swe_sdk remote renewals", provider.ttl_s / _SHARE, self.renew_all)

    async def renew_all(self) -> None:
        """Once, for all boxes at the same time; what fails, or takes until the next time, is tried again then."""
        with anyio.move_on_after(self._provider.ttl_s / _SHARE):
            async with anyio.create_task_group() as tasks:
                for box in list(self._provider.boxes.values()):
                    tasks.start_soon(self._renew, box)

    async def _renew(self, box: RemoteBox) -> None:
        try:
            await box.renew(self._provider.ttl_s)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one box must not cost the others theirs
            _log.warning("box %s could not be renewed: %s", box.id, error)
