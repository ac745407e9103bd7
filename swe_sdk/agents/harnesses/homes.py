"""Where installed harnesses are: made once on a machine, by one at a time, complete or not there at all."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

from swe_sdk.agents.harnesses.maker import Maker
from swe_sdk.agents.harnesses.pinned import HARNESSES
from swe_sdk.errors import HarnessUnavailable, PrerequisiteError, UnknownAgent
from swe_sdk.model.ids import new_id
from swe_sdk.model.record import Record
from swe_sdk.paths import harnesses_dir
from swe_sdk.sandbox.locks import locked

_KEEP_UNUSED_S = 60 * 24 * 3600
OnProgress = Callable[[str], None]


class HarnessStatus(Record):
    """Whether a harness is there and, if not, whether it could be and what to do."""

    name: str
    version: str
    is_ready: bool
    path: str = ""
    reason: str = ""
    remedy: str = ""


def ensure_harness(name: str, *, on_progress: OnProgress | None = None) -> Path:
    """The directory of a harness, installed if it is not there yet; it never changes afterwards.

    Blocks: a millisecond where it is there, else up to minutes, and as long as another process installs it.
    ``UnknownAgent``; ``MissingTool`` where a Python or a program is missing; ``HarnessUnavailable`` where the package
    index cannot be reached or what it has does not work.
    """
    maker = _maker(name)
    home = harnesses_dir()
    path = _path(maker)
    if not path.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        with locked(home / f".{name}.lock"):
            if not path.is_dir():
                if on_progress is not None:
                    on_progress(f"installing {name} {maker.version}")
                _forget_unused(home)
                _make(maker, home, path)
    os.utime(path)
    return path


def find_harness(name: str) -> Path | None:
    """The directory of a harness, where it is installed already. ``UnknownAgent``, or ``MissingTool``."""
    path = _path(_maker(name))
    return path if path.is_dir() else None


def need_harness(name: str) -> Path:
    """The same, and ``HarnessUnavailable`` where it is not: for who must not wait."""
    path = find_harness(name)
    if path is None:
        raise HarnessUnavailable(name, "it is not installed", remedy=f"swe-sdk agents install {name}")
    return path


def harness_status() -> list[HarnessStatus]:
    """How things stand with each of them; installs nothing."""
    return [_status(maker) for maker in HARNESSES.values()]


def _status(maker: Maker) -> HarnessStatus:
    known = HarnessStatus(name=maker.name, version=maker.version, is_ready=False)
    try:
        path = _path(maker)
    except PrerequisiteError as error:
        return known.model_copy(update={"reason": error.message, "remedy": error.remedy})
    if path.is_dir():
        return known.model_copy(update={"is_ready": True, "path": str(path)})
    remedy = f"swe-sdk agents install {maker.name}"
    return known.model_copy(update={"reason": "not installed yet", "remedy": remedy})


def _maker(name: str) -> Maker:
    try:
        return HARNESSES[name]
    except KeyError:
        raise UnknownAgent(name, HARNESSES) from None


def _path(maker: Maker) -> Path:
    return harnesses_dir() / f"{maker.name}-{maker.version}-{maker.key()[:16]}"


def _make(maker: Maker, home: Path, path: Path) -> None:
    half_made = home / new_id(".part")
    half_made.mkdir()
    try:
        maker.make(half_made)
        _let_all_read(half_made)
        half_made.rename(path)
    except OSError as error:
        raise HarnessUnavailable(
            maker.name,
            f"its files could not be written: {error}",
            remedy=f"make room in {home}, or set SWE_SDK_HARNESSES",
        ) from error
    finally:
        shutil.rmtree(half_made, ignore_errors=True)


def _let_all_read(directory: Path) -> None:
    """Whatever the user's umask: in a box another user may run it."""
    for folder, _folders, files in os.walk(directory):
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            mode = os.lstat(path).st_mode
            wanted = mode | 0o444 | (0o111 if stat.S_ISDIR(mode) or mode & 0o100 else 0)
            if mode != wanted and not stat.S_ISLNK(mode):
                os.chmod(path, wanted)


def _forget_unused(home: Path) -> None:
    """Those that nobody has used for months, of whatever version, and what a killed process left half made."""
    for old in home.iterdir():
        is_half_made = old.name.startswith(".part")
        if old.is_dir() and old.stat().st_mtime < time.time() - (_KEEP_UNUSED_S if not is_half_made else 24 * 3600):
            shutil.rmtree(old, ignore_errors=True)
