"""The shared data sets, which lie beside the repository and not in it."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.rows import Unavailable


def shared_datasets() -> Path:
    """Below ``$SWE_SDK_SHARED``, or ``shared`` beside the repository; ``Unavailable`` where it is absent."""
    named = os.environ.get("SWE_SDK_SHARED")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "datasets").is_dir():
        raise Unavailable("the shared data is not there (SWE_SDK_SHARED names its folder)")
    return folder / "datasets"
