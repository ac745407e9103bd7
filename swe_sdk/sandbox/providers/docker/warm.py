"""Boxes that are ready before anybody asks for them: a container takes the engine a sixth of a second, this one a call.

Nothing but the supervisor has ever run in them, and one that does not answer is never handed out.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

import anyio

from swe_sdk.errors import SweError
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.docker.container import Image

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.docker.box import DockerBox
    from swe_sdk.sandbox.providers.docker.provider import DockerProvider

KINDS = 4
"""Of how many kinds boxes are kept: the ones that were asked for last."""
_ANSWER_S = 1.0
_log = logging.getLogger(__name__)


class WarmPool:
    """``size`` boxes of each kind that was asked for lately; a thread makes them, one after the other."""

    def __init__(self, provider: DockerProvider, size: int) -> None:
        self._provider = provider
        self._size = size
        self._ready: OrderedDict[str, list[DockerBox]] = OrderedDict()
        self._changing = threading.Lock()
        self._wanted: queue.SimpleQueue[tuple[SandboxSpec, Image] | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None

    async def take(self, spec: SandboxSpec, image: Image) -> DockerBox | None:
        """A box of that kind that answers, if there is one; the caller's from here on. Others are made in its place."""
        if self._size == 0:
            return None
        kind = _kind(spec, image)
        try:
            while (box := self._pop(kind)) is not None:
                if await _answers(box):
                    return box
                await box.close()
            return None
        finally:
            self._ask_for(_plain(spec), image)

    def _pop(self, kind: str) -> DockerBox | None:
        with self._changing:
            boxes = self._ready.setdefault(kind, [])
            self._ready.move_to_end(kind)
            return boxes.pop() if boxes else None

    def _ask_for(self, spec: SandboxSpec, image: Image) -> None:
        with self._changing:
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="swe_sdk warm boxes", daemon=True)
                self._worker.start()
        self._wanted.put((spec, image))

    def _work(self) -> None:
        while (wanted := self._wanted.get()) is not None:
            try:
                anyio.run(self._fill, *wanted)
            except Exception as error:  # noqa: BLE001 - nobody waits for what is made in advance
                _log.warning("no box could be made in advance: %s", error)

    async def _fill(self, spec: SandboxSpec, image: Image) -> None:
        kind = _kind(spec, image)
        while self._lacks(kind):
            box = await self._provider.make(spec, image)
            with self._changing:
                self._ready.setdefault(kind, []).append(box)
        for box in self._superfluous():
            await box.close()

    def _lacks(self, kind: str) -> bool:
        with self._changing:
            return self._worker is not None and len(self._ready.get(kind, ())) < self._size

    def _superfluous(self) -> list[DockerBox]:
        with self._changing:
            kinds = list(self._ready)[:-KINDS]
            return [box for kind in kinds for box in self._ready.pop(kind)]

    async def drop(self, image_id: str) -> None:
        """Close the boxes that stand on an image."""
        with self._changing:
            kinds = [kind for kind in self._ready if kind.startswith(image_id)]
            boxes = [box for kind in kinds for box in self._ready.pop(kind)]
        for box in boxes:
            await box.close()

    def stop(self) -> None:
        """Make no more; those that are there are the provider's to close. Blocks while one is being made."""
        with self._changing:
            worker, self._worker = self._worker, None
            self._ready.clear()
        if worker is not None:
            self._wanted.put(None)
            worker.join()

    def forget(self) -> None:
        """In a forked child there is neither the thread nor any box."""
        self._changing, self._wanted, self._worker = threading.Lock(), queue.SimpleQueue(), None
        self._ready.clear()


def _plain(spec: SandboxSpec) -> SandboxSpec:
    """What of a spec the container itself is made of; the rest is said with each command."""
    return spec.model_copy(update={"workdir": "/", "env": {}, "labels": {}})


def _kind(spec: SandboxSpec, image: Image) -> str:
    made_of = spec.model_dump_json(include={"network", "mounts", "limits"})
    return f"{image.id} {made_of}"


async def _answers(box: DockerBox) -> bool:
    """Whether its supervisor does, and nothing else is in it."""
    try:
        with anyio.fail_after(_ANSWER_S):
            return await box.status() == "running" and not await box.alive()
    except (SweError, TimeoutError):
        return False
