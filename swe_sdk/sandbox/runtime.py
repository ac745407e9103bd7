"""An interpreter that runs in any Linux container of this machine's architecture, whatever the image holds.

Our supervisor is Python, and an image may hold no Python, an old one, or another C library. So a directory is made out
of what is here: this process's own interpreter, its ELF loader, the shared libraries and the few modules of the
standard library that the supervisor loads (20 MB). Mounted read-only at :data:`MOUNT` and started through its own
loader, it needs nothing of the image, and nothing in the image can change it.
"""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from swe_sdk.errors import PrerequisiteError
from swe_sdk.model.ids import content_key, new_id
from swe_sdk.sandbox import boxside, elf
from swe_sdk.sandbox.locks import locked

MOUNT = "/.swe_sdk/runtime"
"""Where the directory is to be mounted in the box: its own paths are written into it."""
_VERSION = 1
"""Changes whenever the same interpreter would make a different runtime."""
_KEEP_UNUSED_S = 30 * 24 * 3600
_TRY_S = 60.0
_LOADER, _PYTHON, _LIB = "loader.so", "bin/python", "lib"
_MAIN = "import sys; from boxside import inside; inside.main(*sys.argv[1:])"
_OPTIONS = ("-I", "-S", "-B", "-X", "utf8")
_LIST = """
import sys
sys.path.append(sys.argv[1])
from boxside import container, inside, ring, station
inside.supervisor.warm_up("true")
import json
print(json.dumps([m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None)]))
"""


@dataclass(frozen=True)
class Runtime:
    """A directory that is complete and never changes."""

    path: Path
    """On this machine. Mount it read-only at :data:`MOUNT`."""
    has_loader: bool
    """Not for an interpreter that is one static program."""

    def command(self, socket: str, *words: str, at: str = MOUNT) -> list[str]:
        """What starts the supervisor in a box; see :func:`swe_sdk.sandbox.boxside.inside.main` for the arguments."""
        return [*self.interpreter(at), "-c", _MAIN, socket, *words]

    def interpreter(self, at: str = MOUNT) -> list[str]:
        """The interpreter itself, with its options."""
        loader = [f"{at}/{_LOADER}", "--library-path", f"{at}/{_LIB}"] if self.has_loader else []
        return [*loader, f"{at}/{_PYTHON}", *_OPTIONS]


def ensure_runtime(state: Path) -> Runtime:
    """The runtime of this interpreter and this version of the package, below ``state``; made if it is not there.

    Blocks (a second when it is made, else a millisecond). One at a time, on this machine; what is there is complete.
    ``PrerequisiteError`` where this interpreter cannot be carried.
    """
    home = state / "runtimes"
    path = home / _key()
    if not path.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        with locked(home / "lock"):
            if not path.is_dir():
                _forget_unused(home)
                _make(home, path)
    os.utime(path)
    return Runtime(path, (path / _LOADER).exists())


class RuntimeKeeper:
    """The runtime below one state directory, made again where it has gone. May be asked from several threads."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._runtime: Runtime | None = None
        self.forget()

    def forget(self) -> None:
        """In a forked child, where a thread that does not exist may hold the lock."""
        self._asking = threading.Lock()

    def get(self) -> Runtime:
        """See :func:`ensure_runtime`. Blocks the first time."""
        with self._asking:
            if self._runtime is None or not self._runtime.path.is_dir():
                self._runtime = ensure_runtime(self._state)
            return self._runtime


def _key() -> str:
    """Everything that goes into it: the interpreter, by its place and time, and the supervisor, by its text."""
    python = os.stat(_python())
    sources = {source.name: source.read_text() for source in _boxside().glob("*.py")}
    return content_key([_VERSION, sys.version, _python(), python.st_size, python.st_mtime_ns, sources])[:24]


def _python() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def _boxside() -> Path:
    return Path(boxside.__file__).parent


def _forget_unused(home: Path) -> None:
    """Those of other versions and interpreters, a month after their last use. A running box needs its own no more."""
    for old in home.iterdir():
        if old.is_dir() and old.stat().st_mtime < time.time() - _KEEP_UNUSED_S:
            shutil.rmtree(old, ignore_errors=True)


def _make(home: Path, path: Path) -> None:
    half_made = home / new_id("part")
    half_made.mkdir()
    try:
        _fill(half_made)
        _try(half_made)
        half_made.rename(path)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise PrerequisiteError(
            f"the interpreter {_python()} cannot be carried into a container: {error}",
            remedy="use a Python from python.org, pyenv, uv or your distribution",
        ) from error
    finally:
        shutil.rmtree(half_made, ignore_errors=True)


def _fill(runtime: Path) -> None:
    standard = runtime / _LIB / f"python{sys.version_info.major}.{sys.version_info.minor}"
    (standard / "lib-dynload").mkdir(parents=True)
    (runtime / "bin").mkdir()
    shutil.copy(_python(), runtime / _PYTHON)
    programs = [Path(_python())]
    for module in _modules():
        if module.suffix == ".py":
            _compile(module, standard / _place(module).with_suffix(".pyc"))
        else:
            shutil.copy(module, standard / "lib-dynload" / module.name)
            programs.append(module)
    loader = elf.interpreter(_python())
    if loader is not None:
        shutil.copy(loader, runtime / _LOADER)
        (runtime / _LOADER).chmod(0o755)
        _copy_libraries(loader, programs, runtime / _LIB)


def _modules() -> list[Path]:
    """The files of all modules that the supervisor has loaded by the time it serves."""
    command = [_python(), *_OPTIONS, "-c", _LIST, str(_boxside().parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TRY_S, check=True, env={"PATH": os.defpath})
    found = {Path(name) for name in json.loads(done.stdout)}
    landmark = Path(os.__file__)  # by which an interpreter finds its standard library
    return sorted({*found, landmark, *_boxside().glob("*.py")})


def _place(module: Path) -> Path:
    if module.parent == _boxside():
        return Path("boxside") / module.name
    return module.relative_to(Path(os.__file__).parent)


def _compile(source: Path, target: Path) -> None:
    """No sources: compiled, a module needs no second look at its file, and the interpreter starts in half the time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(source), str(target), dfile=source.name, doraise=True, invalidation_mode=mode)


def _copy_libraries(loader: str, programs: list[Path], target: Path) -> None:
    for program in programs:
        for name, path in elf.libraries(loader, program).items():
            if not (target / name).exists():
                shutil.copy(path, target / name)


def _try(path: Path) -> None:
    """Start it where it is, with nothing else to fall back on."""
    runtime = Runtime(path, (path / _LOADER).exists())
    code = "from boxside import inside; import sys; sys.stdout.write('works')"
    command = [*runtime.interpreter(str(path)), "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TRY_S, env={}, check=False)
    if done.stdout != "works":
        raise ValueError(f"its copy does not start: {(done.stderr or done.stdout)[-500:].strip()}")
