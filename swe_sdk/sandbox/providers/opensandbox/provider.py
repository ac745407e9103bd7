"""The provider ``opensandbox``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from swe_sdk.sandbox.admission import Admission
from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.sandbox.providers.opensandbox.engine import OpenSandboxEngine
from swe_sdk.sandbox.providers.opensandbox.settings import read_settings
from swe_sdk.sandbox.providers.remote.provider import DEFAULT_TTL_S, RemoteProvider


class OpenSandboxProvider(RemoteProvider):
    """Boxes of an OpenSandbox server.

    ``settings`` are the fields of :class:`~swe_sdk.sandbox.providers.opensandbox.settings.OpenSandboxSettings`; what is
    not given comes from environment variables, and so does the key. ``InputError`` for settings that cannot be.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_image: str | None = None,
        state: str | Path | None = None,
        leases: LeaseBook | None = None,
        admission: Admission | None = None,
        ttl_s: float = DEFAULT_TTL_S,
        **settings: Any,
    ) -> None:
        super().__init__(
            OpenSandboxEngine(read_settings(settings), api_key=api_key),
            base_image=base_image,
            state=state,
            leases=leases,
            admission=admission,
            ttl_s=ttl_s,
        )
