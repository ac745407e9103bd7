"""Images: found in the engine, or pulled into it, once however many want it."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path
from typing import Any

import anyio

from swe_sdk.errors import CreateFailed, ImageNotFound, NoSpace, PullFailed, SweError
from swe_sdk.model.ids import safe_name
from swe_sdk.sandbox.images.reference import ImageReference, parse_reference
from swe_sdk.sandbox.images.settings import RegistrySettings
from swe_sdk.sandbox.locks import file_lock
from swe_sdk.sandbox.providers.docker.container import Image
from swe_sdk.sandbox.providers.docker.engine import SLOW_TIMEOUT_S, Engine
from swe_sdk.sandbox.providers.docker.failures import NotThere, Refused

LEAST_FREE_BYTES = 512 << 20
"""With less than this on the engine's disk nothing is made any more: a full disk spoils what runs already."""
ATTEMPTS = 3
_BACKOFF_S = 0.5
_HOPELESS = ("manifest unknown", "not found", "repository does not exist", "no matching manifest", "invalid reference")
_FORBIDDEN = ("denied", "unauthorized", "authentication required")


class Images:
    """Those of one engine. ``state`` holds the locks that keep processes from pulling the same image twice."""

    def __init__(self, engine: Engine, state: Path, registries: RegistrySettings | None = None) -> None:
        self._engine = engine
        self._locks = state / "pulls"
        self._registries = registries or RegistrySettings()
        self._data: Path | None = None

    async def find(self, name: str) -> Image | None:
        """An image that the engine has, by name or id."""
        try:
            found: dict[str, Any] = await self._engine.call("inspect an image", lambda api: api.inspect_image(name))
        except NotThere:
            return None
        except Refused as refused:
            if refused.status == 400:
                raise ImageNotFound(f"{name!r} is no name of an image", remedy="see docker pull") from None
            raise
        return Image.from_api(found)

    async def ensure(self, name: str, *, refresh: bool = False) -> Image:
        """The image, pulled if the engine has none of that name, or to ``refresh`` what it has.

        Through ``SWE_SDK_REGISTRY``, if that is set and the name says nothing of a registry. One pull at a time for
        each name, in all processes: the second finds what the first has pulled. Raises ``ImageNotFound``,
        ``PullFailed`` or ``NoSpace``.
        """
        found = None if refresh else await self.find(name)
        if found is not None:
            return found
        async with file_lock(self._locks / safe_name(name)):
            found = None if refresh else await self.find(name)
            if found is None:
                self.require_space()
                await self._pull(name)
                found = await self.find(name)
        if found is None:
            raise PullFailed(f"the image {name} was pulled, and is not there", remedy="is something pruning images?")
        return found

    def require_space(self, wanted_bytes: int = 0) -> None:
        """``NoSpace`` where so much would nearly fill the engine's disk, as far as it can be seen from here."""
        if self._data is None:
            return
        try:
            free = shutil.disk_usage(self._data).free
        except OSError:
            return  # an engine that keeps its data where this user cannot look
        if free < LEAST_FREE_BYTES + wanted_bytes:
            message = f"{self._data}, where the Docker engine keeps its data, has {free >> 20} MiB left"
            wanted = f", and {wanted_bytes >> 20} MiB are wanted" if wanted_bytes else ""
            raise NoSpace(message + wanted, remedy="free space there; see docker system df")

    def data_is_at(self, directory: str) -> None:
        """Where the engine says that it keeps its data."""
        self._data = Path(directory) if directory else None

    async def _pull(self, name: str) -> None:
        wanted = parse_reference(name)
        source = wanted.through(self._registries.mirror)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await pull(self._engine, source)
                break
            except (ImageNotFound, NoSpace):
                raise
            except SweError as error:
                if attempt == ATTEMPTS:
                    raise PullFailed(f"{source} could not be pulled: {error.message}", remedy=error.remedy) from None
            await anyio.sleep(_BACKOFF_S * 2**attempt * random.uniform(0.5, 1.0))
        if source != wanted:
            repository = f"{wanted.registry}/{wanted.repository}"
            await self._engine.call(
                "name an image", lambda api: api.tag(str(source), repository, wanted.tag or "latest")
            )


async def pull(engine: Engine, image: ImageReference) -> None:
    """One attempt. The engine tells a failure by the status of its answer, or in the stream of its progress.

    A caller who is cancelled leaves at once; soon after, the engine hears that nobody wants it any more.
    """
    stopped = threading.Event()

    def follow(api: Any) -> None:
        repository = f"{image.registry}/{image.repository}"
        for line in api.pull(repository, tag=image.version, stream=True, decode=True):
            if "error" in line:
                raise _failure(str(image), str(line["error"]))
            if stopped.is_set():
                return

    try:
        await engine.call(f"pull {image}", follow, timeout_s=SLOW_TIMEOUT_S, abandon=True)
    except (NotThere, Refused) as refused:
        raise _failure(str(image), refused.message) from None
    finally:
        stopped.set()


def _failure(name: str, said: str) -> CreateFailed | NoSpace:
    text = said.lower()
    if "no space left" in text:
        return NoSpace(f"no space left to pull {name}", remedy="free space where the engine keeps its data")
    if any(word in text for word in _FORBIDDEN):
        return ImageNotFound(f"there is no image {name}, or it is not for you: {said}", remedy="docker login")
    if any(word in text for word in _HOPELESS):
        return ImageNotFound(f"there is no image {name}: {said}", remedy="check its name and tag")
    return PullFailed(said)
