"""A sandbox provider as plain data, to be made on another machine."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from swe_sdk.errors import InputError
from swe_sdk.executors.place import Place
from swe_sdk.model.record import Record
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.registry import named_provider, provider_names, restore_provider

_BASE_IMAGE = "SWE_SDK_BASE_IMAGE"


class ProviderRef(Record):
    """By its name, and with the image on which it builds sources; all else is as the other machine is set up."""

    name: str
    base_image: str | None = None

    async def at(self, place: Place) -> SandboxProvider | str:
        """The provider at that place, or the name that gives it."""
        if self.base_image is None or self.name in ("auto", "local"):
            return self.name
        return await place.keep(f"provider {self.name} on {self.base_image}", self._opened)

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[SandboxProvider]:
        assert self.base_image is not None
        provider = provider_on(self.name, self.base_image)
        try:
            yield provider
        finally:
            await provider.aclose()


def provider_ref(provider: SandboxProvider | str, base_image: str | None = None) -> ProviderRef:
    """The reference to a provider; ``base_image`` None = ``$SWE_SDK_BASE_IMAGE``.

    Raises ``InputError`` for an object: only this process has that.
    """
    if not isinstance(provider, str):
        raise InputError(
            f"the provider {provider.name!r} is an object of this process, and cannot be had on other machines",
            remedy=f"choose one by its name ({', '.join(provider_names())}), and set it up there by the environment",
        )
    if provider != "auto":
        named_provider(provider)
    return ProviderRef(name=provider, base_image=base_image or os.environ.get(_BASE_IMAGE))


def provider_on(name: str, base_image: str) -> SandboxProvider:
    """A provider of containers of its own, which builds sources on ``base_image``. Raises ``InputError``."""
    if name in ("docker", "opensandbox"):
        return restore_provider(name, {"base_image": base_image})
    if name == "apptainer":
        from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings

        return restore_provider(name, {"options": ApptainerSettings(base_image=base_image)})
    problem = f"base_image is for container providers, which {name!r} is not"
    raise InputError(problem, remedy="leave it out, or choose the provider docker or apptainer")
