"""How an OpenSandbox server is reached, and what it is said to be like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from swe_sdk.model.record import Record
from swe_sdk.sandbox.providers.remote import settings

DEFAULT_DOMAIN = "localhost:8080"
API_KEY = "OPEN_SANDBOX_API_KEY"
VARIABLES = {
    "domain": "OPEN_SANDBOX_DOMAIN",
    "protocol": "SWE_SDK_OPENSANDBOX_PROTOCOL",
    "use_server_proxy": "SWE_SDK_OPENSANDBOX_PROXY",
    "runtime": "SWE_SDK_OPENSANDBOX_RUNTIME",
    "network": "SWE_SDK_OPENSANDBOX_NETWORK",
    "memory_mib": "SWE_SDK_OPENSANDBOX_MEMORY_MIB",
}
"""The environment variables that the settings are read from; the names of the first and of the key are upstream's."""


class OpenSandboxSettings(Record):
    """Plain data, without the key."""

    domain: str = DEFAULT_DOMAIN
    """Host and port of the server."""
    protocol: Literal["http", "https"] = "http"
    use_server_proxy: bool = False
    """Whether everything goes through the server, because boxes cannot be reached directly."""
    runtime: Literal["docker", "kubernetes"] = "docker"
    """What the server makes boxes with: Kubernetes ends all processes when it pauses a box, so there our supervisor
    alone pauses them."""
    network: Literal["policy", "open"] = "policy"
    """``policy``: a box of network ``none`` is made with a policy that denies everything, which takes a server with an
    egress image. ``open``: boxes have the network that the server gives them, and that is accepted."""
    memory_mib: int = Field(default=4096, gt=0)
    """Of a box whose spec names no limit."""

    @field_validator("domain")
    @classmethod
    def _is_plain(cls, domain: str) -> str:
        return settings.plain_address(domain)


def read_settings(given: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> OpenSandboxSettings:
    """See :func:`swe_sdk.sandbox.providers.remote.settings.read_settings`."""
    return settings.read_settings(OpenSandboxSettings, "opensandbox", VARIABLES, given, environ)
