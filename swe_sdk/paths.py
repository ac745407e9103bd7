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


def runs_dir() -> Path:
    """Run directories: ``$SWE_SDK_RUNS``, else ``~/.local/share/swe_sdk/runs``."""
    default = _xdg("XDG_DATA_HOME", ".local/share") / "swe_sdk" / "runs"
    return Path(os.environ.get("SWE_SDK_RUNS") or default).absolute()


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


def harnesses_dir() -> Path:
    """Where the programs of agents are installed, each in an environment of its own: ``$SWE_SDK_HARNESSES``."""
    return Path(os.environ.get("SWE_SDK_HARNESSES") or state_dir() / "harnesses").absolute()


def index_dir() -> Path:
    """Where the indexes of run directories are kept: ``$SWE_SDK_INDEX``. They can be built anew at any time."""
    return Path(os.environ.get("SWE_SDK_INDEX") or state_dir() / "index").absolute()
