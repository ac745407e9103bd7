"""Which runs and journals there are on the disk, and which of them may have grown."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from swe_sdk.errors import InputError
from swe_sdk.store.layout import events_folder, is_run

_SETTLED_S = 3.0
_ENDING = ".jsonl"


class JournalFile(NamedTuple):
    """A journal, and how long it is."""

    name: str
    size: int


class Catalog:
    """The run directories of ``root``: itself if it is one, else those right below it.

    What cannot have changed is not looked at again: a directory whose time has not changed for a while, a journal that
    was closed. ``InputError`` where there is no such directory.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise InputError(f"there is no directory {root}")
        self.root = root
        self._listings: dict[Path, tuple[float, list[os.DirEntry[str]]]] = {}

    def runs(self) -> dict[str, Path]:
        """Directory of each run, by name."""
        if is_run(self.root):
            return {self.root.name: self.root}
        folders = (Path(entry.path) for entry in self._list(self.root) if entry.is_dir())
        return {folder.name: folder for folder in sorted(folders) if is_run(folder)}

    def journals(self, run_dir: Path, closed: frozenset[str]) -> Iterator[JournalFile]:
        """The journals of a run; for those in ``closed`` the size is -1: they do not grow."""
        folder = events_folder(run_dir)
        for entry in self._list(folder):
            if entry.name.endswith(_ENDING):
                size = -1 if entry.name in closed else _size(folder / entry.name)
                yield JournalFile(entry.name, size)

    def _list(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            changed_at = folder.stat().st_mtime
            known = self._listings.get(folder)
            if known is not None and known[0] == changed_at:
                return known[1]
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except FileNotFoundError:
            return []
        # a file made right after this may leave the time of the directory as it is
        if time.time() - changed_at > _SETTLED_S:
            self._listings[folder] = (changed_at, entries)
        return entries


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
