"""The provider ``e2b``. Experimental: see the page on it for what was never run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from swe_sdk.paths import state_dir
from swe_sdk.sandbox.admission import Admission
from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.sandbox.providers.e2b.engine import E2BEngine
from swe_sdk.sandbox.providers.e2b.settings import TEMPLATE, read_settings
from swe_sdk.sandbox.providers.remote.provider import DEFAULT_TTL_S, RemoteProvider


class E2BProvider(RemoteProvider):
    """Boxes of E2B, or of AgentENV, which speaks the same wire.

    ``template`` (default: ``$SWE_SDK_E2B_TEMPLATE``) is what boxes stand on that name neither an image nor a snapshot.
    ``settings`` are the fields of :class:`~swe_sdk.sandbox.providers.e2b.settings.E2BSettings`; what is not given comes
    from environment variables, and so does the key. ``InputError`` for settings that cannot be.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        template: str | None = None,
        state: str | Path | None = None,
        leases: LeaseBook | None = None,
        admission: Admission | None = None,
        ttl_s: float = DEFAULT_TTL_S,
        **settings: Any,
    ) -> None:
        template = template or os.environ.get(TEMPLATE) or None
        read = read_settings(settings)
        if template is not None:
            read = read.model_copy(update={"templates": {template: template, **read.templates}})
        labels = (Path(state).absolute() if state is not None else state_dir()) / E2BEngine.name / "labels"
        super().__init__(
            E2BEngine(read, labels, ttl_s=ttl_s, api_key=api_key),
            base_image=template,
            state=state,
            leases=leases,
            admission=admission,
            ttl_s=ttl_s,
        )
