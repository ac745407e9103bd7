"""One box of the Apptainer provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from swe_sdk.errors import CapabilityMissing
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.records import ImageFacts
from swe_sdk.sandbox.supervised import BASE_ENV

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider

_ENV = {**BASE_ENV, "HOME": "/root", "USER": "root", "LOGNAME": "root"}
_USERS = (None, "agent", "root", "0")


class ApptainerBox(LocalBox):
    """A box on an image that Apptainer has mounted. Made by ``ApptainerProvider.create``.

    Its one user is root, as in a container, with power over the files of the box. Outside, that is the caller.
    """

    def __init__(self, provider: ApptainerProvider, spec: SandboxSpec, chain: tuple[str, ...], box_id: str) -> None:
        super().__init__(provider, spec, chain, box_id)
        self._images = provider.images

    def stand_on(self, image: ImageFacts | None) -> None:
        """Take the shell and the variables of an image."""
        super().stand_on(image)
        self.env = {**_ENV, **(image.env if image else {})}

    async def close(self) -> None:
        """Kill everything in it and delete what it wrote. Runs to its end even if the caller is cancelled."""
        await super().close()
        with anyio.CancelScope(shield=True):
            await self._images.retire()

    def _user(self, user: str | None) -> int | None:
        if user not in _USERS:
            raise CapabilityMissing(f"apptainer boxes have no user {user!r}", remedy='their one user is "root"')
        return None
