"""What tests need and may not find: the shared data sets beside the repository, and programs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest


def find_shared() -> Path | None:
    """The folder of shared data: ``$SWE_SDK_SHARED``, or ``shared`` beside the repository; None where it is absent."""
    named = os.environ.get("SWE_SDK_SHARED")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    return folder if (folder / "datasets").is_dir() else None


def lacking(why: str) -> NoReturn:
    """Skip the test for what this machine lacks. On CI it fails."""
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)
    raise AssertionError("both raise")


def shared_dir() -> Path:
    """The folder of shared data. Without it the test is skipped; on CI it fails."""
    folder = find_shared()
    if folder is not None:
        return folder
    lacking("the shared data is not there")


def shared_rows(*names: str) -> list[dict[str, Any]]:
    """The rows of JSONL files below ``datasets``; none where the folder is absent (for parameters of tests)."""
    folder = find_shared()
    if folder is None:
        return []
    lines = [line for name in names for line in (folder / "datasets" / name).read_text("utf-8").splitlines()]
    return [json.loads(line) for line in lines]


def full_device() -> Path:
    """A file that takes nothing, as on a full disk. Skips where only root may write to it (some machines' /dev)."""
    device = Path("/dev/full")
    if not os.access(device, os.W_OK):
        lacking(f"{device} is not writable for this user")
    return device


def need_program(name: str) -> None:
    """Skip the test where a program is not installed. On CI it fails."""
    if shutil.which(name) is None:
        lacking(f"{name} is not installed")
