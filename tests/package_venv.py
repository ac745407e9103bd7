"""Packages that tests run beside ours, in environments of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from swe_sdk.sandbox.locks import locked
from tests.shared import lacking


@cache
def package_python(package: str, version: str) -> Path:
    """The Python of an environment with that package, made once on a machine. Skips where no index has it."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache_home / "swe_sdk-test" / f"{package}-{version}-{sys.version_info.major}.{sys.version_info.minor}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with locked(home.with_suffix(".lock")):
        if not (home / "whole").exists():
            _install(home, f"{package}=={version}")
    return home / "bin" / "python"


def _install(home: Path, requirement: str) -> None:
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=300)
    pip = [home / "bin" / "python", "-m", "pip", "install", "-q", requirement]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        shutil.rmtree(home, ignore_errors=True)
        lacking(f"the package index has no {requirement}: {done.stderr[-500:]}")
    (home / "whole").touch()
