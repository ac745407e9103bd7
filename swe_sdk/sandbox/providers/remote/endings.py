"""The end of this process, or its copy by fork: what becomes of providers that nobody has closed."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.remote.provider import RemoteProvider

open_providers: set[RemoteProvider] = set()
"""Those that may hold boxes, even if nobody else knows them any more."""


@atexit.register
def _at_exit() -> None:
    for provider in list(open_providers):
        if provider.boxes:
            anyio.run(_close, provider)


async def _close(provider: RemoteProvider) -> None:
    """End its boxes. Where the system does not answer in time their leases stay, for the reaper."""
    async with anyio.create_task_group() as tasks:
        for box in list(provider.boxes.values()):
            tasks.start_soon(box.close)


def _after_fork() -> None:
    """The boxes are the parent's; the child has a provider without any."""
    for provider in list(open_providers):
        provider.forget()


os.register_at_fork(after_in_child=_after_fork)
