"""The lowest layer of every box: the places that an image may lack, empty."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from swe_sdk.model.environment import WORKDIR
from swe_sdk.model.ids import content_key, new_id
from swe_sdk.sandbox.contract import Mount
from swe_sdk.sandbox.providers.local.layers import remove_tree

_VERSION = 1
_DIRECTORIES = ("dev", "etc", "mnt", "opt", "proc", "root", "run", "sys", "usr", "var", WORKDIR.lstrip("/"))
_SHARED_DIRECTORIES = ("tmp", "var/tmp")
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/resolv.conf": "",
}


def ensure_ground(parent: Path, scratch: Path, mounts: Sequence[Mount]) -> str:
    """The name of a layer below ``parent`` with a mount point for each of ``mounts``, made if there is none."""
    points = sorted((mount.target, os.path.isdir(mount.source)) for mount in mounts)
    name = f"ground-{content_key([_VERSION, points])[:16]}"
    if not (parent / name).exists():
        _make(scratch / new_id("ground"), parent / name, points)
    return name


def _make(building: Path, final: Path, points: Sequence[tuple[str, bool]]) -> None:
    building.mkdir()
    for name in (*_DIRECTORIES, *_SHARED_DIRECTORIES):
        (building / name).mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        (building / name).write_text(text)
    for target, is_directory in points:
        place = building / target.lstrip("/")
        (place if is_directory else place.parent).mkdir(parents=True, exist_ok=True)
        if not is_directory:
            place.touch()
    for path in (building, *building.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)  # whatever the caller's umask is
    for name in _SHARED_DIRECTORIES:
        (building / name).chmod(0o1777)
    (building / "root").chmod(0o700)
    try:
        building.rename(final)
    except OSError:
        remove_tree(building)  # somebody else made the same one meanwhile
        if not final.exists():
            raise
