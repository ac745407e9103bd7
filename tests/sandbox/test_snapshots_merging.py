"""Layers are copied with everything that a layer can hold, and merged as overlayfs itself would show them."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from swe_sdk.sandbox.boxside import merging
from swe_sdk.sandbox.boxside.merging import OPAQUE, merge

WHITEOUT = "whiteout"
NAMES = [b"plain", b"sp ace", b"new\nline", b"\xff\xfe\x80", "ünï".encode(), b"-n", b"*", b"x" * 255]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that can hold extended attributes of users."""
    try:
        os.setxattr(tmp_path, "user.test", b"1")
    except OSError as error:
        pytest.skip(f"no extended attributes of users on this file system: {error}")
    os.removexattr(tmp_path, "user.test")
    return tmp_path


def merged(place: Path, *layers: str) -> Path:
    """What the layers, from the top down, are merged into."""
    (place / "merged").mkdir()
    within = os.open(place, os.O_PATH)
    try:
        merge(list(layers), "merged", within=within)
    finally:
        os.close(within)
    return place / "merged"


def lay(root: Path, entries: dict[str, str | None]) -> None:
    """Make a layer. None is a directory, ``WHITEOUT`` a whiteout; a path that ends with ! is an opaque directory."""
    root.mkdir()
    for name, content in entries.items():
        path = root / name.rstrip("!")
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
            if name.endswith("!"):
                os.setxattr(path, OPAQUE, b"y")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if content == WHITEOUT:
            os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))
        else:
            path.write_text(content)


def laid(root: Path) -> dict[str, str | None]:
    """The counterpart of :func:`lay`; directories that hold something are left out unless they are opaque."""
    found: dict[str, str | None] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_dir():
            if OPAQUE in os.listxattr(path):
                found[f"{name}!"] = None
            elif not any(path.iterdir()):
                found[name] = None
        else:
            found[name] = WHITEOUT if stat.S_ISCHR(path.lstat().st_mode) else path.read_text()
    return found


def facts(root: Path) -> dict[bytes, Any]:
    """Everything about everything below a directory, by path."""
    found: dict[bytes, Any] = {}
    first_names: dict[int, bytes] = {}
    top = os.fsencode(root)
    for directory, directories, files in os.walk(top):
        for path in [directory, *(os.path.join(directory, name) for name in (*directories, *files))]:
            info = os.lstat(path)
            name = os.path.relpath(path, top)
            content = None
            if stat.S_ISLNK(info.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(info.st_mode):
                content = Path(os.fsdecode(path)).read_bytes()
            is_plain = stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)
            found[name] = {
                "mode": info.st_mode,
                "owner": (info.st_uid, info.st_gid),
                "device": info.st_rdev,
                "time": info.st_mtime_ns,
                "link to": None if stat.S_ISDIR(info.st_mode) else first_names.setdefault(info.st_ino, name),
                "content": content,
                "attributes": {key: os.getxattr(path, key) for key in os.listxattr(path)} if is_plain else None,
            }
    return found


def furnish(root: Path) -> None:
    """One of everything that a program can leave in a layer."""
    top = os.fsencode(root)
    for number, name in enumerate(NAMES):
        path = os.path.join(top, name)
        Path(os.fsdecode(path)).write_bytes(name * number)
        os.chmod(path, (0o644, 0o4755, 0o2755, 0o1644, 0o600, 0o755, 0o444, 0o640)[number])
    os.makedirs(os.path.join(top, b"deep", *NAMES[:4]))
    os.link(root / "plain", root / "deep/linked")
    os.link(root / "plain", os.path.join(top, b"deep", *NAMES[:3], b"linked again"))
    os.symlink(b"\xff/../nowhere", root / "link")
    os.link(root / "link", root / "deep/link", follow_symlinks=False)
    os.mkfifo(root / "pipe", 0o640)
    os.mknod(root / "socket", stat.S_IFSOCK | 0o750)
    os.mknod(root / "gone", stat.S_IFCHR, os.makedev(0, 0))
    os.link(root / "gone", root / "deep/gone")
    os.mkdir(root / "sticky")
    os.mkdir(root / "replaced")
    os.setxattr(root / "replaced", OPAQUE, b"y")
    os.setxattr(root / "plain", "user.comment", b"\0\xff")
    os.setxattr(root / "deep", "user.overlay.origin", b"\0\xfb")
    for name, mode in {"sticky": 0o1777, "deep": 0o2750, "replaced": 0o500}.items():
        os.chmod(root / name, mode)
    for number, (directory, directories, files) in enumerate(os.walk(top, topdown=False)):
        for path in [*(os.path.join(directory, name) for name in (*directories, *files)), directory]:
            moment = 1_000_000_000_000_000_000 + number * 1_000_000_007 + 123
            os.utime(path, ns=(moment, moment + 1), follow_symlinks=False)


def test_a_copy_has_everything(place: Path) -> None:
    root = place / "layer"
    root.mkdir(mode=0o751)
    furnish(root)
    before = facts(root)
    assert facts(merged(place, "layer")) == before
    assert facts(root) == before, "the original is as it was"
    assert len(before) > 20


@pytest.mark.skipif(os.geteuid() != 0, reason="needs several users")
def test_owners_are_kept_and_closed_files_are_read(place: Path) -> None:
    root = place / "layer"
    root.mkdir()
    for number, name in enumerate(["closed", "setuid"]):
        (root / name).write_text(name)
        os.chown(root / name, 5000 + number, 6000 + number)
        os.chmod(root / name, (0o000, 0o6711)[number])
    os.symlink("closed", root / "link")
    os.mkfifo(root / "pipe")
    for name in ("link", "pipe"):
        os.chown(root / name, 7000, 7001, follow_symlinks=False)
    os.chmod(root, 0o000)
    assert facts(merged(place, "layer")) == facts(root)


def test_holes_stay_holes(place: Path) -> None:
    root = place / "layer"
    root.mkdir()
    for name, pieces in {"begin": [0], "middle": [5 << 20], "two": [1 << 20, 9 << 20], "none": []}.items():
        with (root / name).open("wb") as file:
            for offset in pieces:
                file.seek(offset)
                file.write(b"data" * 2000)
            file.truncate(10 << 20)
    copy = merged(place, "layer")
    for path in root.iterdir():
        assert (copy / path.name).read_bytes() == path.read_bytes()
        assert (copy / path.name).stat().st_blocks <= path.stat().st_blocks + 16, path.name


def test_reading_is_not_noticed(place: Path) -> None:
    """Times of access are kept on both sides: a paused box is not touched."""
    root = place / "layer"
    root.mkdir()
    (root / "file").write_text("x")
    for path in (root / "file", root):
        os.utime(path, ns=(10**18, 10**18 + 5))
    copy = merged(place, "layer")
    for path in (root, root / "file", copy, copy / "file"):
        assert path.stat().st_atime_ns == 10**18, path


CASES: dict[str, tuple[list[dict[str, str | None]], dict[str, str | None]]] = {
    "the upper file wins": ([{"f": "new"}, {"f": "old", "g": "g"}], {"f": "new", "g": "g"}),
    "a whiteout hides, and stays for what lies below": ([{"f": WHITEOUT}, {"f": "old"}], {"f": WHITEOUT}),
    "a file made after a whiteout": ([{"f": "new"}, {"f": WHITEOUT}, {"f": "old"}], {"f": "new"}),
    "directories show through each other": (
        [{"d/a": "1"}, {"d/b": "2"}, {"d/c": "3"}],
        {"d/a": "1", "d/b": "2", "d/c": "3"},
    ),
    "an opaque directory hides what lies below": ([{"d!": None, "d/a": "1"}, {"d/b": "2"}], {"d!": None, "d/a": "1"}),
    "an opaque directory in the middle": (
        [{"d/a": "1"}, {"d!": None, "d/b": "2"}, {"d/c": "3"}],
        {"d!": None, "d/a": "1", "d/b": "2"},
    ),
    "a whiteout in the middle makes it opaque": (
        [{"d/a": "1"}, {"d": WHITEOUT}, {"d/c": "3"}],
        {"d!": None, "d/a": "1"},
    ),
    "so does a file": ([{"d/a": "1"}, {"d": "file"}, {"d/c": "3"}], {"d!": None, "d/a": "1"}),
    "a file instead of a directory": ([{"d": "file"}, {"d/a": "1"}], {"d": "file"}),
    "a whiteout of a directory": ([{"d": WHITEOUT}, {"d/a": "1"}], {"d": WHITEOUT}),
    "whiteouts within an opaque directory have done their work": (
        [{"d/b": WHITEOUT, "d/x": WHITEOUT, "d/a": "1"}, {"d!": None, "d/b": "2"}],
        {"d!": None, "d/a": "1"},
    ),
    "also deep within": (
        [{"d/e/f/x": WHITEOUT, "d/e/a": "1"}, {"d!": None, "d/e/f/x": "2"}],
        {"d!": None, "d/e/a": "1", "d/e/f": None},
    ),
    "opaque within opaque": (
        [{"d/e!": None, "d/e/a": "1"}, {"d!": None, "d/e/b": "2"}],
        {"d!": None, "d/e!": None, "d/e/a": "1"},
    ),
    "an empty directory": ([{"d": None}, {"e": None}], {"d": None, "e": None}),
    "whiteouts in directories that show through": (
        [{"d/e/x": WHITEOUT}, {"d/e/x": "1", "d/e/y": "2"}],
        {"d/e/x": WHITEOUT, "d/e/y": "2"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_layers_are_merged(case: str, place: Path) -> None:
    layers, wanted = CASES[case]
    for number, entries in enumerate(layers):
        lay(place / f"layer{number}", entries)
    assert laid(merged(place, *(f"layer{number}" for number in range(len(layers))))) == dict(sorted(wanted.items()))


def test_attributes_are_those_of_the_top(place: Path) -> None:
    for number, name in enumerate(("top", "middle", "bottom")):
        lay(place / name, {"d": None})
        os.setxattr(place / name / "d", "user.from", name.encode())
        os.chmod(place / name / "d", 0o700 + number)
        os.utime(place / name / "d", ns=(number, number))
    copy = merged(place, "top", "middle", "bottom")
    info = (copy / "d").stat()
    assert (os.getxattr(copy / "d", "user.from"), stat.S_IMODE(info.st_mode), info.st_mtime_ns) == (b"top", 0o700, 0)


def test_links_hold_across_directories_but_not_across_layers(place: Path) -> None:
    lay(place / "bottom", {"a": "old", "d/b": "old", "e": None})
    os.link(place / "bottom/a", place / "bottom/e/c")
    os.link(place / "bottom/a", place / "bottom/e/d")
    lay(place / "top", {"e/c": "new"})
    os.link(place / "top/e/c", place / "top/new")
    copy = merged(place, "top", "bottom")
    groups: dict[int, set[str]] = {}
    for path in copy.rglob("*"):
        if path.is_file():
            groups.setdefault(path.stat().st_ino, set()).add(str(path.relative_to(copy)))
    assert sorted(map(sorted, groups.values())) == [["a", "e/d"], ["d/b"], ["e/c", "new"]]
    assert (copy / "e/c").read_text() == "new"


def test_no_descriptor_is_left_open(place: Path) -> None:
    lay(place / "top", {"d/e/f": "1", "d/x": WHITEOUT})
    lay(place / "bottom", {"d!": None, "d/e/g": "2"})
    before = len(os.listdir("/proc/self/fd"))
    merged(place, "top", "bottom")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_failure_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(place / "layer", {"d/f": "content" * 1000})

    def full(*_arguments: object) -> int:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(merging.os, "copy_file_range", full)
    with pytest.raises(OSError, match="no space"):
        merged(place, "layer")
