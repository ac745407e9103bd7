"""Pythons and programs of this machine that a box can use: found, or fetched by uv."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from swe_sdk.errors import InputError, MissingTool
from swe_sdk.sandbox.contract import Mount, Toolchain

PROBE = """
import json, sys
try:
    import ensurepip, venv
    complete = True
except ImportError:
    complete = False
version = ".".join(map(str, sys.version_info[:3]))
print(json.dumps([version, sys.base_prefix, getattr(sys, "_base_executable", sys.executable), complete]))
"""
_INSTALL = {
    "node": "install Node.js 18 or newer (Debian, Ubuntu: apt-get install nodejs)",
    "cargo": "install Rust (rustup, or Debian, Ubuntu: apt-get install cargo)",
    "go": "install Go (Debian, Ubuntu: apt-get install golang-go)",
    "git": "install git (Debian, Ubuntu: apt-get install git)",
}
_FETCH_TIMEOUT_S = 600


@dataclass(frozen=True)
class Interpreter:
    """A Python that runs on this machine."""

    version: str
    prefix: str
    executable: str
    is_complete: bool
    """Whether it can make virtual environments."""


def find_toolchain(python: str | None, tools: Sequence[str], fetched: Path) -> Toolchain:
    """See ``SupportsBuild.toolchain``. Pythons that uv fetches are kept in ``fetched``. Blocks."""
    mounts: list[Mount] = []
    path: list[str] = []
    fingerprint: list[str] = []
    for tool in ("git", *tools):
        if "/" in tool:  # whose folder would be mounted, and a task may come from anybody
            raise InputError(f"the tool {tool!r} is a path", remedy="give the name of a program that is in PATH")
        found = shutil.which(tool)
        if found is None:
            raise MissingTool(tool, remedy=_INSTALL.get(tool, ""))
        real = _behind_rustup(tool, os.path.realpath(found))
        if not _is_visible(real):
            mounts.append(_mount(_installation(Path(real))))
            path.append(str(Path(real).parent))
        fingerprint.append(f"{tool}:{real}" if tool != "git" else "git")
    interpreter = find_python(python, fetched) if python is not None else None
    if interpreter is not None:
        fingerprint.append(f"python:{interpreter.version}:{interpreter.executable}")
        if not _is_visible(interpreter.prefix):
            mounts.append(_mount(interpreter.prefix))
    return Toolchain(
        python=interpreter.executable if interpreter else None,
        mounts=tuple(mounts),
        path=tuple(path),
        fingerprint=tuple(fingerprint),
    )


def find_python(wanted: str, fetched: Path) -> Interpreter:
    """The first complete interpreter that matches a version ("3.9", "3.9.18") or a specifier (">=3.9").

    This process's own comes first, then PATH, pyenv, the usual places, and what uv has; else uv fetches one.
    """
    matches = version_matcher(wanted)
    incomplete: Interpreter | None = None
    for interpreter in _interpreters(fetched):
        if matches(interpreter.version):
            if interpreter.is_complete:
                return interpreter
            incomplete = incomplete or interpreter
    if incomplete is not None:
        name = f"python{incomplete.version.rpartition('.')[0]}-venv"
        raise MissingTool(f"the venv module of {incomplete.executable}", remedy=f"apt-get install {name}")
    return _fetch(wanted, fetched)


def version_matcher(wanted: str) -> Callable[[str], bool]:
    """Whether a version is the one that is wanted: "3.9", "3.9.18" or ">=3.9"; ``InputError`` for anything else."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    text = wanted.strip()
    if text[:1].isdigit():
        text = f"=={text}" if text.count(".") >= 2 else f"=={text}.*"
    try:
        return SpecifierSet(text).contains
    except InvalidSpecifier:
        raise InputError(f"{wanted!r} is no Python version", remedy='write "3.11" or ">=3.9"') from None


def _interpreters(fetched: Path) -> Iterator[Interpreter]:
    seen: set[str] = set()
    for path in _candidates(fetched):
        found = _inspect(path)
        if found is not None and found.executable not in seen:
            seen.add(found.executable)
            yield found


def _candidates(fetched: Path) -> Iterator[str]:
    yield getattr(sys, "_base_executable", sys.executable)
    names = ["python3", *(f"python3.{minor}" for minor in range(30, 6, -1))]
    for name in names:
        found = shutil.which(name)
        if found is not None:
            yield found
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for root in (pyenv / "versions", fetched, Path("/opt/python")):
        yield from (str(path) for path in sorted(root.glob("*/bin/python3"), reverse=True))
    for directory in ("/usr/bin", "/usr/local/bin"):
        yield from (str(path) for path in sorted(Path(directory).glob("python3.[0-9]*"), reverse=True))


@cache
def _inspect(path: str) -> Interpreter | None:
    """Ask an interpreter about itself; None if it does not run."""
    try:
        done = subprocess.run([path, "-I", "-c", PROBE], capture_output=True, timeout=20, check=True, text=True)
        version, prefix, executable, complete = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Interpreter(version, os.path.realpath(prefix), os.path.realpath(executable), complete)


def _fetch(wanted: str, fetched: Path) -> Interpreter:
    remedy = f"install Python {wanted} with pyenv or your package manager"
    try:
        from uv import find_uv_bin

        uv = find_uv_bin()
    except (ImportError, FileNotFoundError):
        raise MissingTool(f"Python {wanted} (nor uv, which could fetch it)", remedy=remedy) from None
    command = [uv, "python", "install", "--no-bin", "--install-dir", str(fetched), wanted]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise MissingTool(f"Python {wanted} (uv took too long to fetch it)", remedy=remedy) from None
    for path in sorted(fetched.glob("*/bin/python3"), reverse=True):
        interpreter = _inspect(str(path))
        if interpreter is not None and version_matcher(wanted)(interpreter.version):
            return interpreter
    said = (done.stderr or done.stdout).strip().splitlines()
    raise MissingTool(
        f"Python {wanted} (and uv could not fetch it: {said[-1] if said else 'no reason given'})", remedy=remedy
    )


def _is_visible(path: str) -> bool:
    return path == "/usr" or path.startswith("/usr/")


def _behind_rustup(tool: str, real: str) -> str:
    """The program itself where ``real`` is rustup, which stands in for all of Rust and needs its own files in HOME."""
    if Path(real).name != "rustup" or tool == "rustup":
        return real
    try:
        done = subprocess.run([real, "which", tool], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        raise MissingTool(tool, remedy="install a toolchain: rustup default stable") from None
    return os.path.realpath(done.stdout.strip())


def _installation(tool: Path) -> str:
    """What must be mounted for a program: the folder above its ``bin``, or itself alone where the user's files are."""
    prefix, home = tool.parent.parent, Path.home()
    is_shared = tool.parent.name != "bin" or prefix in (home / ".local", home, *home.parents)
    return str(tool if is_shared else prefix)


def _mount(prefix: str) -> Mount:
    return Mount(source=prefix, target=prefix)
