"""Where things are kept on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def state_dir() -> Path:
    """Environments, layers and live boxes: ``$SWE_SDK_STATE``, else ``~/.cache/swe_sdk``. Safe to delete when idle."""
    return Path(os.environ.get("SWE_SDK_STATE") or _xdg("XDG_CACHE_HOME", ".cache") / "swe_sdk").absolute()


def results_dir() -> Path:
    """Outcomes and logs: ``$SWE_SDK_RESULTS``, else ``~/.local/share/swe_sdk/results``."""
    default = _xdg("XDG_DATA_HOME", ".local/share") / "swe_sdk" / "results"
    return Path(os.environ.get("SWE_SDK_RESULTS") or default).absolute()


def bundled_datasets_dir() -> Path:
    """The datasets that ship with the package: inside it in a wheel, beside it in a checkout."""
    package = Path(__file__).parent
    inside = package / "datasets"
    return inside if inside.is_dir() else package.parent / "datasets"


def _xdg(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / default)


def evaluators_dir() -> Path:
    """Where upstreams' own evaluators are installed, for nested evaluation: ``$SWE_SDK_EVALUATORS``."""
    return Path(os.environ.get("SWE_SDK_EVALUATORS") or state_dir() / "evaluators").absolute()
