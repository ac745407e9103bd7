"""Renews the boxes of this process while it lives: whatever it leaves behind ends by the system's own clock."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from swe_sdk.errors import SandboxError
from swe_sdk.sandbox.periodic import Periodic

if TYPE_CHECKING:
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
        """Once, for all boxes; what fails is tried again the next time."""
        for box in list(self._provider.boxes.values()):
            try:
                await box.renew(self._provider.ttl_s)
            except SandboxError as error:
                _log.warning("box %s could not be renewed: %s", box.id, error)
