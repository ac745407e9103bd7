"""A whole Python that runs in any Linux box of this architecture, whatever its image holds.

A harness needs far more of the standard library than our supervisor does, and an image may have no Python, an old one,
or another C library. So an interpreter of this machine is copied with its standard library, the shared libraries that
it and the harness's packages load, and its ELF loader, through which it is started: as
:mod:`swe_sdk.sandbox.runtime` does for the supervisor. Nothing in it knows its own path, so that it runs wherever it
is mounted.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from swe_sdk.errors import HarnessUnavailable
from swe_sdk.sandbox import elf
from swe_sdk.sandbox.providers.local.toolchain import Interpreter

_LOADER, _ROOT, _LIBRARIES = "loader.so", "python", "libraries"
_OPTIONS = ("-I", "-S", "-X", "utf8")
_PATHS = """
import json, sys, sysconfig
print(json.dumps([sys.base_prefix, sysconfig.get_path("stdlib"), sysconfig.get_config_var("DESTSHARED")]))
"""
_LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "*.a", "config-*", "dist-packages", "ensurepip", "idlelib", "lib2to3", "lib-dynload", "pydoc_data",
    "site-packages", "test", "tests", "tkinter", "turtledemo", "_tkinter*",
)  # fmt: skip


def carried_command(directory: str | Path, python: Interpreter) -> list[str]:
    """What starts the interpreter in ``directory``, without its site packages."""
    at = str(directory)
    program = f"{at}/{_ROOT}/bin/{Path(python.executable).name}"
    return [f"{at}/{_LOADER}", "--library-path", f"{at}/{_LIBRARIES}", program, *_OPTIONS]


def carry_interpreter(harness: str, python: Interpreter, directory: Path, *, also: Path) -> None:
    """Copy what ``python`` and the extension modules below ``also`` need into ``directory``. Blocks some seconds."""
    try:
        loader = elf.interpreter(python.executable)
        if loader is None:
            raise ValueError("it is one static program")
        _copy_python(python, directory / _ROOT)
        shutil.copy(loader, directory / _LOADER)
        (directory / _LOADER).chmod(0o755)
        _copy_libraries(loader, directory, [directory / _ROOT, also], Path(python.executable))
    except (ValueError, subprocess.SubprocessError) as error:
        raise HarnessUnavailable(
            harness,
            f"the interpreter {python.executable} cannot be carried into a box: {error}",
            remedy="use a Python from python.org, pyenv, uv or your distribution",
        ) from error


def _copy_python(python: Interpreter, root: Path) -> None:
    done = subprocess.run(
        [python.executable, "-I", "-c", _PATHS], capture_output=True, text=True, timeout=60, check=True
    )
    prefix, standard, extensions = json.loads(done.stdout)
    target = root / Path(standard).relative_to(prefix)
    shutil.copytree(standard, target, ignore=_LEFT_OUT, symlinks=False)
    shutil.copytree(extensions, target / "lib-dynload", ignore=_LEFT_OUT)
    (root / "bin").mkdir()
    shutil.copy(python.executable, root / "bin")


def _copy_libraries(loader: str, directory: Path, roots: list[Path], program: Path) -> None:
    target = directory / _LIBRARIES
    target.mkdir()
    for file in (program, *_extension_modules(roots)):
        for name, path in _needed(loader, file).items():
            if not Path(path).is_relative_to(directory) and not (target / name).exists():
                shutil.copy(path, target / name)


def _extension_modules(roots: list[Path]) -> Iterator[Path]:
    for root in roots:
        yield from (path for path in sorted(root.rglob("*.so*")) if path.is_file())


def _needed(loader: str, file: Path) -> dict[str, str]:
    try:
        return elf.libraries(loader, file)
    except ValueError:  # for another architecture or C library, or needs what this machine lacks, as tkinter may
        return {}
