"""The lowest layer of every box: an empty system around the host's read-only /usr."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from functools import cache
from glob import glob
from pathlib import Path

from swe_sdk.model.environment import WORKDIR
from swe_sdk.model.ids import content_key, new_id
from swe_sdk.sandbox.boxside.root import AGENT_ID
from swe_sdk.sandbox.contract import Mount
from swe_sdk.sandbox.providers.local.identity import Identity

_VERSION = 2
HOME = "/home/agent"
_DIRECTORIES = (
    "dev", "etc", "home/agent", "media", "mnt", "opt", "proc", "root", "run", "srv", "sys", "usr", "var/cache",
    "var/lib", "var/log", WORKDIR.lstrip("/"),
)  # fmt: skip
_SHARED_DIRECTORIES = ("tmp", "var/tmp")
_TOP_LEVEL = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
_COPIED = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/java-*",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/mime.types",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
"""Settings of the host without which programs in /usr do not run. Copied, since each mount makes a box slower."""
_COPIED_FOR_NETWORK = ("/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/services", "/etc/protocols")
"""Besides, for a box that has the host's network."""
_PASSWD = f"""root:x:0:0:root:/root:/bin/bash
agent:x:{AGENT_ID}:{AGENT_ID}:agent:{HOME}:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
_GROUP = f"root:x:0:\ntty:x:5:\nagent:x:{AGENT_ID}:\nnogroup:x:65534:\n"
NAMES = {
    "etc/hostname": "sandbox\n",
    "etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n",
    "etc/resolv.conf": "",
}
"""What every box says of itself and of its network, whatever its system says."""
_FILES = {
    "etc/passwd": _PASSWD,
    "etc/group": _GROUP,
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    **NAMES,
}


@cache
def host_mounts() -> tuple[Mount, ...]:
    """What every box mounts of the host, read-only: its programs and libraries."""
    separate = [f"/{name}" for name in _TOP_LEVEL if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}")]
    return tuple(Mount(source=path, target=path) for path in ("/usr", *separate))


@cache
def network_mounts() -> tuple[Mount, ...]:
    """What a box on an image mounts besides where it has the host's network: how names are found there."""
    paths = ("/etc/hosts", "/etc/resolv.conf")
    return tuple(Mount(source=path, target=path) for path in paths if os.path.isfile(path))


def ensure_mount_points(parent: Path, scratch: Path, mounts: Sequence[Mount], identity: Identity) -> str:
    """The name of a layer below ``parent`` with a mount point for each of ``mounts``, and nothing else."""
    points = sorted((mount.target, os.path.isdir(mount.source)) for mount in mounts)
    name = content_key([_VERSION, "mount points", points, identity.first])[:16]
    if not (parent / name).exists():
        building = scratch / new_id("skeleton")
        building.mkdir(mode=0o755)
        _finish(building, parent / name, points, identity)
    return name


def ensure_skeleton(parent: Path, scratch: Path, mounts: Sequence[Mount], network: bool, identity: Identity) -> str:
    """The name of a skeleton below ``parent`` with a mount point for each of ``mounts``.

    If there is none, it is made in ``scratch`` first, a directory that goes with this process.
    """
    points = tuple(sorted((mount.target, os.path.isdir(mount.source)) for mount in mounts))
    name = _name(points, network, identity.first)
    if not os.path.exists(f"{parent}/{name}"):
        _make(scratch / new_id("skeleton"), parent / name, points, network, identity)
    return name


@cache
def _name(points: tuple[tuple[str, bool], ...], network: bool, first_id: int | None) -> str:
    return content_key([_VERSION, points, _top_level_links(), _host_settings(network), first_id])[:16]


@cache
def _top_level_links() -> list[tuple[str, str]]:
    return [(name, os.readlink(f"/{name}")) for name in _TOP_LEVEL if os.path.islink(f"/{name}")]


@cache
def _host_settings(network: bool) -> list[tuple[str, int, int]]:
    """The files to copy, with time and size, so that a skeleton of an older state of the host is left unused."""
    found = [
        path for pattern in (*_COPIED, *(_COPIED_FOR_NETWORK if network else ())) for path in sorted(glob(pattern))
    ]
    return [(path, (info := os.stat(path)).st_mtime_ns, info.st_size) for path in found if os.path.exists(path)]


def _make(building: Path, final: Path, points: Iterable[tuple[str, bool]], network: bool, identity: Identity) -> None:
    building.mkdir(mode=0o755)
    for directory in (*_DIRECTORIES, *_SHARED_DIRECTORIES):
        _directory(building / directory)
    for link, target in _top_level_links():
        (building / link).symlink_to(target)
    for file, text in _FILES.items():
        (building / file).write_text(text)
    for path, _time, _size in _host_settings(network):
        _copy_public(Path(path), building / path.lstrip("/"))
    _finish(building, final, points, identity)


def _finish(building: Path, final: Path, points: Iterable[tuple[str, bool]], identity: Identity) -> None:
    """Add mount points, and put it into its place."""
    for target, is_directory in points:
        _mount_point(building / target.lstrip("/"), is_directory)
    _hand_over(building, identity)
    try:
        building.rename(final)
    except OSError:
        shutil.rmtree(building)  # somebody else made the same one meanwhile
        if not final.exists():
            raise


def _copy_public(source: Path, target: Path) -> None:
    """Copy what everybody may read. A link is followed, one within a directory kept."""
    if source.is_dir():
        _directory(target)
        for child in source.iterdir():
            if child.is_symlink():
                (target / child.name).symlink_to(child.readlink())
            else:
                _copy_public(child, target / child.name)
    elif source.is_file() and source.stat().st_mode & stat.S_IROTH:
        _directory(target.parent)
        shutil.copyfile(source, target)


def _hand_over(skeleton: Path, identity: Identity) -> None:
    """Permissions that do not depend on the caller's umask, and the boxes' own user as the owner."""
    shared = {skeleton / directory for directory in _SHARED_DIRECTORIES}
    for path in (skeleton, *skeleton.rglob("*")):
        if path in shared:
            path.chmod(0o1777)
        elif not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
        identity.own(path)


def _directory(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


def _mount_point(path: Path, is_directory: bool) -> None:
    if is_directory:
        _directory(path)
    else:
        _directory(path.parent)
        path.touch(exist_ok=True)
