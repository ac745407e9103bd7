"""The images that are mounted at present, each by a zygote of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence

from anyio import to_thread

from swe_sdk.sandbox.providers.apptainer.container import Facts, ImageZygote
from swe_sdk.sandbox.providers.apptainer.library import Image


class MountedImages:
    """Any event loop and any thread may use it."""

    def __init__(
        self, make: Callable[[Image], ImageZygote], in_use: Callable[[], Collection[str]], idle: int, idle_s: float
    ) -> None:
        self._make = make
        self._in_use = in_use
        self._idle = idle
        self._idle_s = idle_s
        self._zygotes: dict[str, ImageZygote] = {}
        """By the keys of their images; the one that was wanted last is last."""
        self._wanted_at: dict[str, float] = {}
        self._guard = threading.Lock()

    async def mount(self, image: Image) -> Facts:
        """What an image says of itself, mounted if it is not."""
        return await self.zygote(image).start()

    def zygote(self, image: Image) -> ImageZygote:
        """The zygote of an image, started or not."""
        with self._guard:
            zygote = self._zygotes.pop(image.key, None) or self._make(image)
            self._zygotes[image.key] = zygote
            self._wanted_at[image.key] = time.monotonic()
            return zygote

    @property
    def all(self) -> Sequence[ImageZygote]:
        """Those of all images."""
        with self._guard:
            return tuple(self._zygotes.values())

    async def retire(self) -> None:
        """Unmount images that no box stands on, but for those that were wanted last."""
        for zygote in self._surplus():
            await to_thread.run_sync(zygote.close)

    def _surplus(self) -> list[ImageZygote]:
        with self._guard:
            if len(self._zygotes) <= self._idle:
                return []
            in_use, now = self._in_use(), time.monotonic()
            idle = [key for key in self._zygotes if key not in in_use]
            old = [key for key in idle[: max(0, len(idle) - self._idle)] if now > self._wanted_at[key] + self._idle_s]
            return [self._zygotes.pop(key) for key in old]
