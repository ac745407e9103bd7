"""How registries are reached."""

from __future__ import annotations

import os
from ipaddress import ip_address

from pydantic import Field

from swe_sdk.model.record import Record


class RegistrySettings(Record):
    """What may be said about registries; the defaults are what the environment says."""

    mirror: str | None = Field(default_factory=lambda: os.environ.get("SWE_SDK_REGISTRY") or None)
    """``host[:port][/path]``: where images are pulled from whose names say nothing of a registry."""
    insecure: tuple[str, ...] = Field(
        default_factory=lambda: tuple(os.environ.get("SWE_SDK_INSECURE_REGISTRIES", "").replace(",", " ").split())
    )
    """Registries (``host[:port]``) that are spoken to without TLS; those on the loopback interface always are."""
    connect_timeout_s: float = Field(default=10.0, gt=0)
    read_timeout_s: float = Field(default=60.0, gt=0)
    """How long a registry may be silent."""
    attempts: int = Field(default=6, gt=0)
    """How often in a row a request may fail; a download that gets on starts to count anew."""
    attempts_to_reach: int = Field(default=3, gt=0)
    """How often in a row nobody may answer at all: a name that is wrong, or no network, is seldom right soon."""
    backoff_s: float = Field(default=0.5, gt=0)
    """Before the second attempt; doubled for each further one."""
    longest_wait_s: float = Field(default=60.0, gt=0)
    """Between two attempts, whatever the registry asks for."""
    layer_bytes: int = Field(default=64 << 30, gt=0)
    """What one unpacked layer may hold."""
    layer_entries: int = Field(default=5_000_000, gt=0)
    """How many entries one layer may have."""

    def scheme(self, host: str) -> str:
        """http or https."""
        return "http" if host in self.insecure or is_loopback(host) else "https"


def is_loopback(host: str) -> bool:
    """Whether ``host[:port]`` is this machine by its very name."""
    name = host.partition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False
