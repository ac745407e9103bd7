"""Who may post to a server, how much at once, and whether it still takes anything."""

from __future__ import annotations

import time

import anyio

from swe_sdk.server.admission import ServerAdmission
from swe_sdk.server.problems import Problem
from swe_sdk.server.settings import ServerSettings
from swe_sdk.server.wire import shows_token

_READERS = 2
"""Bodies that are understood at once, in threads: more would only take turns."""


class Door:
    """A :class:`swe_sdk.server.answering.Desk`. Of one event loop."""

    def __init__(self, settings: ServerSettings, admission: ServerAdmission) -> None:
        self.settings = settings
        self.admission = admission
        self.readers = anyio.CapacityLimiter(_READERS)
        self.is_draining = False
        self._started = time.monotonic()

    def require_token(self, authorization: str | None) -> None:
        """``Problem`` unless the header shows the server's token, compared in a time that tells nothing about it."""
        if self.settings.token is not None and not shows_token(authorization, self.settings.token):
            challenge = {"WWW-Authenticate": "Bearer"}
            raise Problem("unauthorized", "the bearer token is missing or wrong", headers=challenge)

    def require_open(self) -> None:
        """``Problem`` where the server was told to stop."""
        if self.is_draining:
            wait = {"Retry-After": str(self.admission.retry_after_s)}
            raise Problem("draining", "the server was told to stop", remedy="post to another one", headers=wait)
