"""The lowest layer of every box: an empty system around the host's read-only /usr."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from glob import glob
from pathlib import Path

from swe_sdk.model.environment import WORKDIR
from swe_sdk.model.ids import content_key, new_id
from swe_sdk.sandbox.boxside.root import AGENT_ID
from swe_sdk.sandbox.contract import Mount
from swe_sdk.sandbox.providers.local.identity import Identity

_VERSION = 1
HOME = "/home/agent"
_DIRECTORIES = (
    "dev", "etc", "home/agent", "media", "mnt", "opt", "proc", "root", "run", "srv", "sys", "usr", "var/cache",
    "var/lib", "var/log", WORKDIR.lstrip("/"),
)  # fmt: skip
_SHARED_DIRECTORIES = ("tmp", "var/tmp")
_TOP_LEVEL = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
_HOST_FILES = (
    "/usr",
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
"""What a box sees of the host: programs, libraries, and the settings without which they do not run. No secrets."""
NETWORK_FILES = ("/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/services", "/etc/protocols")
"""Besides, in a box that has the host's network."""
_PASSWD = f"""root:x:0:0:root:/root:/bin/bash
agent:x:{AGENT_ID}:{AGENT_ID}:agent:{HOME}:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
_GROUP = f"root:x:0:\ntty:x:5:\nagent:x:{AGENT_ID}:\nnogroup:x:65534:\n"
_FILES = {
    "etc/passwd": _PASSWD,
    "etc/group": _GROUP,
    "etc/hostname": "sandbox\n",
    "etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/resolv.conf": "",
}


def host_mounts(network: bool) -> tuple[Mount, ...]:
    """What every box mounts of the host; with ``network``, the name resolution too."""
    wanted = [path for pattern in (*_HOST_FILES, *(NETWORK_FILES if network else ())) for path in glob(pattern)]
    wanted += [f"/{name}" for name in _TOP_LEVEL if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}")]
    return tuple(Mount(source=os.path.realpath(path), target=path) for path in wanted if os.path.exists(path))


def ensure_skeleton(parent: Path, mounts: Sequence[Mount], identity: Identity) -> str:
    """The name of a skeleton below ``parent`` with a mount point for each of ``mounts``; made if there is none."""
    points = sorted((mount.target, os.path.isdir(mount.source)) for mount in mounts)
    links = [(name, os.readlink(f"/{name}")) for name in _TOP_LEVEL if os.path.islink(f"/{name}")]
    name = content_key([_VERSION, points, links, identity.first])[:16]
    if not (parent / name).exists():
        _make(parent, name, points, links, identity)
    return name


def _make(
    parent: Path, name: str, points: list[tuple[str, bool]], links: list[tuple[str, str]], identity: Identity
) -> None:
    building = parent / new_id("new")
    building.mkdir(mode=0o755)
    for directory in _DIRECTORIES:
        _directory(building / directory)
    for directory in _SHARED_DIRECTORIES:
        _directory(building / directory)
        (building / directory).chmod(0o1777)
    for link, target in links:
        (building / link).symlink_to(target)
    for file, text in _FILES.items():
        (building / file).write_text(text)
    for target, is_directory in points:
        _mount_point(building / target.lstrip("/"), is_directory)
    for path in (building, *building.rglob("*")):
        if not path.is_symlink() and path.stat().st_mode & 0o7777 != 0o1777:
            path.chmod(0o755 if path.is_dir() else 0o644)  # whatever the caller's umask is
        identity.own(path)
    try:
        building.rename(parent / name)
    except OSError:
        shutil.rmtree(building)  # somebody else made the same one meanwhile
        if not (parent / name).exists():
            raise


def _directory(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


def _mount_point(path: Path, is_directory: bool) -> None:
    if is_directory:
        _directory(path)
    else:
        _directory(path.parent)
        path.touch(exist_ok=True)
