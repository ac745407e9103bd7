"""The end of this process, or its copy by fork: what becomes of providers that nobody has closed."""

from __future__ import annotations

import atexit
import os
import time
from typing import TYPE_CHECKING

from swe_sdk.errors import SweError

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.docker.box import DockerBox
    from swe_sdk.sandbox.providers.docker.provider import DockerProvider

_CAP_S = 10.0
_LOOK_S = 0.05
open_providers: set[DockerProvider] = set()
"""Those that may hold boxes, even if nobody else knows them any more."""


@atexit.register
def _at_exit() -> None:
    for provider in list(open_providers):
        end(provider)


def end(provider: DockerProvider) -> None:
    """Let all boxes end, and wait a moment for the engine to have removed them: no event loop runs any more."""
    provider.warm.stop()
    boxes = list(provider.boxes.values())
    provider.boxes.clear()
    for box in boxes:
        box.forget()  # the supervisor ends with its control socket, and with that the container, which removes itself
    deadline = time.monotonic() + _CAP_S
    try:
        while boxes and time.monotonic() < deadline:
            boxes = [box for box in boxes if not _has_gone(provider, box)]
            time.sleep(_LOOK_S if boxes else 0.0)
    except SweError:
        pass  # the engine does not answer: the leases of these boxes stay, for the reaper


def _has_gone(provider: DockerProvider, box: DockerBox) -> bool:
    if provider.engine.has_container(box.container):
        return False
    provider.leases.keep(box.lease)
    return True


def _after_fork() -> None:
    """The boxes are the parent's; the child has a provider without any."""
    for provider in list(open_providers):
        provider.forget()


os.register_at_fork(after_in_child=_after_fork)
