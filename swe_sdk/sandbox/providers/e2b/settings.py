"""Where a system with E2B's wire is, and which of its dialects it speaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from swe_sdk.model.record import Record
from swe_sdk.sandbox.providers.remote import settings

Dialect = Literal["e2b", "agentenv"]
ENVD_PORT = 49983
API_KEY = "E2B_API_KEY"
TEMPLATE = "SWE_SDK_E2B_TEMPLATE"
VARIABLES = {
    "api_url": "E2B_API_URL",
    "sandbox_url": "E2B_SANDBOX_URL",
    "domain": "E2B_DOMAIN",
    "dialect": "SWE_SDK_E2B_DIALECT",
    "snapshot_scope": "SWE_SDK_E2B_SNAPSHOTS",
}
"""The environment variables that the settings are read from; the names of the first three and of the key are E2B's."""


class E2BSettings(Record):
    """Plain data, without the key."""

    domain: str = "e2b.app"
    api_url: str | None = None
    """Of the control plane; None = ``https://api.DOMAIN``."""
    sandbox_url: str | None = None
    """Of a gateway to all sandboxes; None = each has an address of its own, below ``domain``."""
    dialect: Literal["auto", "e2b", "agentenv"] = "auto"
    """``auto``: the system tells by how it answers, see :meth:`swe_sdk.sandbox.providers.e2b.rest.Rest.dialect`."""
    templates: dict[str, str] = Field(default_factory=dict)
    """Templates by the image that they were made of. AgentENV starts all other images cold."""
    snapshot_scope: Literal["files", "memory"] = "files"
    """What a snapshot of E2B holds. AgentENV's always hold memory."""
    user: str = "root"
    """The user of the sandbox as whom our supervisor runs."""
    request_timeout_s: float = Field(default=60.0, gt=0)
    """For an answer of the control plane, and for each piece of a file."""
    create_timeout_s: float = Field(default=300.0, gt=0)
    """For a new sandbox, and for a snapshot. AgentENV converts an image that it has not seen before."""

    @field_validator("domain", "api_url", "sandbox_url")
    @classmethod
    def _is_plain(cls, address: str | None) -> str | None:
        return None if address is None else settings.plain_address(address)

    @property
    def control(self) -> str:
        """Where the control plane is."""
        return (self.api_url or f"https://api.{self.domain}").rstrip("/")

    def address_of(self, sandbox: str, domain: str | None) -> str:
        """Where the program inside of a sandbox, envd, is reached. ``domain``: what the control plane says of it."""
        return (self.sandbox_url or f"https://{ENVD_PORT}-{sandbox}.{domain or self.domain}").rstrip("/")


def read_settings(given: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> E2BSettings:
    """See :func:`swe_sdk.sandbox.providers.remote.settings.read_settings`."""
    return settings.read_settings(E2BSettings, "e2b", VARIABLES, given, environ)
