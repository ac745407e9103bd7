"""Providers by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from swe_sdk.errors import ProviderUnavailable, UnknownProvider
from swe_sdk.sandbox.contract import ProviderHealth, SandboxProvider

_AUTO = ("local", "docker", "apptainer")
"""Tried in this order by "auto": a weaker isolation than full namespaces is never chosen silently."""
_SETTINGS = (
    *("SWE_SDK_STATE", "SWE_SDK_BASE_IMAGE", "SWE_SDK_REGISTRY", "SWE_SDK_INSECURE_REGISTRIES"),
    *("SWE_SDK_LOCAL_ENGINE", "SWE_SDK_BWRAP", "SWE_SDK_APPTAINER", "SWE_SDK_SIF_DIR"),
    *("OPEN_SANDBOX_DOMAIN", "OPEN_SANDBOX_API_KEY", "SWE_SDK_OPENSANDBOX_PROTOCOL", "SWE_SDK_OPENSANDBOX_PROXY"),
    *("SWE_SDK_OPENSANDBOX_RUNTIME", "SWE_SDK_OPENSANDBOX_NETWORK", "SWE_SDK_OPENSANDBOX_MEMORY_MIB"),
    *("E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_DOMAIN"),
    *("SWE_SDK_E2B_DIALECT", "SWE_SDK_E2B_SNAPSHOTS", "SWE_SDK_E2B_TEMPLATE"),
    *("DOCKER_HOST", "DOCKER_CONFIG", "XDG_CACHE_HOME", "HOME"),
)
"""The environment variables that providers read as they are made."""


def _local(**settings: Any) -> SandboxProvider:
    from swe_sdk.sandbox.providers.local.provider import LocalProvider

    return LocalProvider(**settings)


def _docker(**settings: Any) -> SandboxProvider:
    from swe_sdk.sandbox.providers.docker.provider import DockerProvider

    return DockerProvider(**settings)


def _apptainer(**settings: Any) -> SandboxProvider:
    from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider

    return ApptainerProvider(**settings)


def _e2b(**settings: Any) -> SandboxProvider:
    from swe_sdk.sandbox.providers.e2b.provider import E2BProvider

    return E2BProvider(**settings)


def _opensandbox(**settings: Any) -> SandboxProvider:
    from swe_sdk.sandbox.providers.opensandbox.provider import OpenSandboxProvider

    return OpenSandboxProvider(**settings)


_BUILTIN: dict[str, Callable[..., SandboxProvider]] = {
    "apptainer": _apptainer,
    "docker": _docker,
    "e2b": _e2b,
    "local": _local,
    "opensandbox": _opensandbox,
}


def provider_names() -> tuple[str, ...]:
    """The names that :func:`get_provider` takes, beside "auto"."""
    return tuple(sorted(_BUILTIN))


def named_provider(name: str) -> SandboxProvider:
    """The process-wide provider of that name; ``UnknownProvider`` where there is none. Not probed.

    It is as the environment variables say at this moment: one that is set in a notebook after a provider has asked
    for it makes another provider, and the boxes of the first stay as they are.
    """
    return _provider_of(name, tuple(os.environ.get(setting) for setting in _SETTINGS))


@cache
def _provider_of(name: str, _environment: tuple[str | None, ...]) -> SandboxProvider:
    return restore_provider(name, {})


def restore_provider(name: str, settings: Mapping[str, Any]) -> SandboxProvider:
    """A new provider object for an engine as another process described it, see ``reaping.SupportsReaping.settings``.

    ``UnknownProvider`` where there is none of that name. Not probed.
    """
    if name not in _BUILTIN:
        raise UnknownProvider(name, (*_BUILTIN, "auto"))
    return _BUILTIN[name](**settings)


async def get_provider(provider: SandboxProvider | str = "auto") -> SandboxProvider:
    """A provider that works here: itself, by name, or "auto".

    Raises ``UnknownProvider``, or ``ProviderUnavailable`` with what to do.
    """
    if not isinstance(provider, str):
        return provider
    problems: list[ProviderHealth] = []
    for name in _AUTO if provider == "auto" else (provider,):
        candidate = named_provider(name)
        health = await candidate.probe()
        if health.works:
            return candidate
        problems.append(health)
    raise ProviderUnavailable(
        "; ".join(f"sandbox provider {p.provider!r} does not work here: {p.reason}" for p in problems),
        remedy="; ".join(p.remedy for p in problems if p.remedy) or "run `swe-sdk doctor`",
    )
