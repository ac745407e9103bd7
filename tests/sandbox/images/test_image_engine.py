"""The same image in a real engine and in a local box: the same files."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.sandbox.docker.images import debian_image
from tests.sandbox.images.engine import changed, exported, pushed
from tests.sandbox.images.oci import LiveRegistry

pytestmark = pytest.mark.anyio
_SCRIPTS = (
    "mkdir -p /w/tree/sub /w/again /w/moved && cd /w && echo 1 > tree/one && echo 2 > tree/sub/two"
    " && echo 3 > again/three && echo 4 > moved/four && ln -s tree link && ln -s /nowhere dangling && mkfifo pipe"
    " && echo x > a && ln a b",
    # what a later layer takes away, and what it brings back
    "cd /w && rm -r tree/sub && rm -r again && mkdir again && echo 5 > again/five && rm tree/one && mkdir tree/one"
    " && touch tree/one/within && rm link && mkdir link && touch link/real && chmod 000 again/five && chmod 500 tree",
    r"""cd /w && printf x > "$(printf 'new\nline')" && touch -- "$(printf '\377\376')" ' ' -rf '*' && chmod 4755 a"""
    " && mv moved gone && mkdir moved && rm -rf /usr/share/doc /var/cache/apt && touch -d @1 old"
    " && head -c 3000000 /dev/urandom > big && cp -a --reflink=never /etc/skel skel && mkdir closed && touch closed/x"
    " && chmod 0 closed && mkdir -m 1777 sticky && mkdir -m 2755 setgid",
    r"cd /w && for i in $(seq 300); do echo $i > many-$i; done && rm -rf gone && rm -f dangling && echo new > dangling",
    "cd /w && rm -f many-1* && rm -rf skel && ln big big-again",
)
_LIST = """
import hashlib, json, os, stat, sys
found, names = {}, {}
for top, directories, files in os.walk("/"):
    if top == "/":
        directories[:] = [name for name in directories if name not in ("proc", "dev", "sys", "testbed")]
    for name in directories + files:
        path = os.path.join(top, name)
        info = os.lstat(path)
        kind = stat.S_IFMT(info.st_mode)
        what = os.readlink(path) if stat.S_ISLNK(kind) else ""
        if stat.S_ISREG(kind):
            os.chmod(path, 0o600)
            what = hashlib.sha256(open(path, "rb").read()).hexdigest()
            os.chmod(path, stat.S_IMODE(info.st_mode))
        elif stat.S_ISDIR(kind) and not info.st_mode & 0o500 == 0o500:
            os.chmod(path, 0o700)  # it is closed to its owner, and walked through next
        names.setdefault((info.st_dev, info.st_ino), []).append(path)
        mode = 0 if stat.S_ISLNK(kind) else stat.S_IMODE(info.st_mode)
        time = 0 if stat.S_ISDIR(kind) else int(info.st_mtime)
        found[path] = [kind, mode, what, time]
same = sorted(sorted(group) for group in names.values() if len(group) > 1)
json.dump([found, same], open("/tmp/listing", "w"))
"""
_OURS = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/passwd", "/etc/group", "/home/agent"}
_THEIRS = {"/etc/mtab", "/.dockerenv"}
"""Where a local box is not as the image says, and where a container is not."""


@contextmanager
def _image(live: LiveRegistry) -> Iterator[tuple[str, str]]:
    """Its name in the engine, and in the registry."""
    with changed(debian_image(), *_SCRIPTS) as made:
        yield made, pushed(made, live.host, "compared")


def _of_engine(image: str) -> tuple[dict[str, list[Any]], list[list[str]]]:
    found: dict[str, list[Any]] = {}
    names: dict[str, list[str]] = {}
    with exported(image) as tar:
        for member in tar:
            path = "/" + member.name
            if path.split("/")[1] in ("proc", "dev", "sys"):
                continue
            source = member
            if member.islnk():
                names.setdefault(f"/{member.linkname}", [f"/{member.linkname}"]).append(path)
                source = tar.getmember(member.linkname)
            found[path] = _described(tar, source)
    return found, sorted(sorted(group) for group in names.values())


def _described(tar: tarfile.TarFile, member: tarfile.TarInfo) -> list[Any]:
    if member.isreg():
        file = tar.extractfile(member)
        assert file is not None
        return [stat.S_IFREG, stat.S_IMODE(member.mode), hashlib.sha256(file.read()).hexdigest(), int(member.mtime)]
    if member.issym():
        return [stat.S_IFLNK, 0, member.linkname, int(member.mtime)]
    if member.isdir():
        return [stat.S_IFDIR, stat.S_IMODE(member.mode), "", 0]
    assert member.isfifo(), member.name
    return [stat.S_IFIFO, stat.S_IMODE(member.mode), "", int(member.mtime)]


async def test_a_box_has_the_files_that_an_engine_finds_in_the_image(
    provider: LocalProvider, registry: LiveRegistry
) -> None:
    with _image(registry) as (made, name):
        theirs, their_links = _of_engine(made)
        box = await provider.create(SandboxSpec(image=name))
        result = await box.exec(["python3", "-c", _LIST], timeout_s=120)
        assert result.ok, result.stderr
        ours, our_links = json.loads(await box.read("/tmp/listing"))
        await box.close()
    assert len(theirs) > 3000
    for path in _OURS | _THEIRS:
        theirs.pop(path, None)
        ours.pop(path, None)
    differ = {path: (theirs.get(path), ours.get(path)) for path in theirs.keys() | ours.keys()}
    assert {path: pair for path, pair in differ.items() if pair[0] != pair[1]} == {}
    assert our_links == their_links
    assert {os.fsencode(path) for path in ours} >= {b"/w/new\nline", b"/w/\xff\xfe", b"/w/ "}
