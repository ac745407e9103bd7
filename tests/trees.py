"""Random file trees with every kind of name and content that git and Linux allow, and random edits of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

_PIECES = [
    b"a", b"b", b"lib", b"x.py", b" ", b"  y", b"tab\t", b"new\nline", b'quo"te', b"back\\slash", b"\xe9\xff", b"\x01",
    "ünï".encode(), "日本".encode(), b"-dash", b"*glob", b"[ab]", b":(top)", b"end ", b"cr\r", b"a => b", b"~", b"#c",
]  # fmt: skip
NAMES = st.lists(st.sampled_from(_PIECES), min_size=1, max_size=2).map(b"".join).filter(lambda name: name != b".git")
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join).filter(lambda path: b" /" not in path)
"""A directory that ends in a space is left out: ``git apply`` cannot read the header of an empty file in it."""
CONTENTS = st.one_of(
    st.sampled_from([
        b"", b"\n", b"no final newline", b"crlf\r\nlines\r\n", b"latin-1 \xe9\n", b"nul \x00 byte\n", b"-- a/x\n",
        b"one\ntwo\nthree\nfour\nfive\n" * 3, b"\xef\xbb\xbfbom\n", b"\\ No newline at end of file\n", b"@@ -1 +1 @@\n",
    ]),
    st.binary(max_size=60),
    st.lists(st.sampled_from([b"alpha", b"beta", b"", b"\tgamma ", b"-", b"+"]), max_size=12).map(b"\n".join),
)  # fmt: skip


class Edit(NamedTuple):
    """One change: ``index`` picks a file among those that are there."""

    kind: str
    index: int
    path: bytes
    content: bytes


def trees() -> st.SearchStrategy[dict[bytes, bytes]]:
    """Files by path. A path may run into another one's file; :class:`EditableTree` leaves it out then."""
    return st.dictionaries(PATHS, CONTENTS, min_size=1, max_size=6)


def edits(*, repositories: bool = False) -> st.SearchStrategy[list[Any]]:
    """Changes of a tree, in order; with ``repositories``, some make a directory a repository of its own."""
    names = ["write", "edit", "append", "delete", "rename", "mode", "link", "to_link", "to_directory"]
    kinds = st.sampled_from([*names, *(["repository"] * repositories)])
    return st.lists(st.builds(Edit, kinds, st.integers(0, 9), PATHS, CONTENTS), min_size=1, max_size=8)


class EditableTree:
    """A directory, a .git at its top left alone."""

    def __init__(self, root: Path) -> None:
        self._root = os.fsencode(root)

    def clear(self) -> None:
        """Remove everything."""
        for name in os.listdir(self._root):
            full = os.path.join(self._root, name)
            if name != b".git":
                shutil.rmtree(full) if os.path.isdir(full) and not os.path.islink(full) else os.unlink(full)

    def write_all(self, files: dict[bytes, bytes]) -> None:
        """Write files, where they have a place."""
        for path, content in files.items():
            self.write(path, content)

    def files(self) -> list[bytes]:
        """Paths of all files and links, sorted."""
        found = []
        for directory, folders, files in os.walk(self._root):
            folders[:] = [name for name in folders if name != b".git"]
            links = [name for name in folders if os.path.islink(os.path.join(directory, name))]
            found += [os.path.relpath(os.path.join(directory, name), self._root) for name in (*files, *links)]
        return sorted(found)

    def write(self, path: bytes, content: bytes) -> bool:
        """Write a file unless something is in its way."""
        full = self._free_place(path)
        if full is not None:
            with open(full, "wb") as file:
                file.write(content)
        return full is not None

    def rename(self, path: bytes, new: bytes) -> None:
        """Rename a file unless something is in its way."""
        full = self._free_place(new)
        if full is not None:
            os.rename(os.path.join(self._root, path), full)

    def apply(self, changes: list[Any]) -> None:
        """Make the changes that are possible."""
        for kind, index, path, content in changes:
            files = self.files()
            if kind == "write" or not files:
                self.write(path, content)
                continue
            self._change(kind, files[index % len(files)], path, content)

    def _change(self, kind: str, chosen: bytes, path: bytes, content: bytes) -> None:
        full = os.path.join(self._root, chosen)
        is_link = os.path.islink(full)
        match kind:
            case "edit" | "append" if not is_link:
                with open(full, "wb" if kind == "edit" else "ab") as file:
                    file.write(content)
            case "mode" if not is_link:
                os.chmod(full, os.stat(full).st_mode ^ 0o111)
            case "rename":
                self.rename(chosen, path)
            case "link":
                place = self._free_place(path)
                if place is not None:
                    os.symlink(content[:20].replace(b"\0", b"0") or b"nowhere", place)
            case "repository" if os.path.dirname(chosen):
                os.makedirs(os.path.join(os.path.dirname(full), b".git"), exist_ok=True)
            case "delete":
                os.unlink(full)
            case "to_link":
                os.unlink(full)
                os.symlink(path, full)
            case "to_directory" if not chosen.endswith(b" "):
                os.unlink(full)
                os.mkdir(full)
                self.write(os.path.join(chosen, b"inner"), content)

    def _free_place(self, path: bytes) -> bytes | None:
        full = os.path.join(self._root, path)
        if os.path.lexists(full):
            return None
        parent = os.path.dirname(full)
        while not os.path.lexists(parent):
            parent = os.path.dirname(parent)
        if os.path.realpath(parent) != parent or not os.path.isdir(parent):
            return None
        os.makedirs(os.path.dirname(full), exist_ok=True)
        return full
