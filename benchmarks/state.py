"""Where everything that a run writes is kept, and how it goes away."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def default_state() -> Path:
    """Memory, so that no disk is measured."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else Path(tempfile.gettempdir())


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """A new folder below ``parent``, gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-benchmarks-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, onerror=_open_and_remove)


def _open_and_remove(_function: object, path: str, _error: object) -> None:
    """The kernel closes an overlay's work directory to everybody; its owner may open it again."""
    if os.path.isdir(path):
        os.chmod(path, 0o700)
        shutil.rmtree(path, ignore_errors=True)
