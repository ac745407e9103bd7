"""A harness of Python packages, at the versions of a lock file, and the interpreter that it runs on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from swe_sdk.agents.harnesses.carried import carried_command, carry_interpreter
from swe_sdk.agents.harnesses.index import uv_environment
from swe_sdk.agents.harnesses.maker import run_client
from swe_sdk.errors import MissingTool
from swe_sdk.model.ids import content_key
from swe_sdk.paths import state_dir
from swe_sdk.sandbox.providers.local.toolchain import Interpreter, find_python

_LOCKS = Path(__file__).parent / "locks"
_LAYOUT = 1
"""Changes whenever the same packages would be laid out differently."""
SITE = "site"
"""Where the packages are, below the harness's directory."""
_RUN = (
    "import os, runpy, site, sys; site.addsitedir(sys.argv[1]); sys.path.insert(0, os.path.dirname(sys.argv[2]));"
    "runpy.run_path(sys.argv[2], run_name='__main__')"
)
_WARM_UP = "import site, sys; site.addsitedir(sys.argv[1]); [__import__(name) for name in sys.argv[2:]]"


@dataclass(frozen=True)
class PythonPackages:
    """Packages below ``site``; with ``is_carried``, an interpreter besides that runs in any Linux box."""

    name: str
    version: str
    python: str
    """The versions of Python that it runs on."""
    imports: tuple[str, ...]
    """What must be importable once it is installed; it is compiled then, as the directory is mounted read-only."""
    is_carried: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    """For the import."""

    def key(self) -> str:
        """By the versions of all packages and the interpreter."""
        python = self.interpreter()
        return content_key([_LAYOUT, self.lock.read_text("utf-8"), python.version, python.executable, self.is_carried])

    def interpreter(self) -> Interpreter:
        """The Python of this machine that it runs on; ``MissingTool`` where there is none."""
        return find_python(self.python, state_dir() / "pythons")

    def make(self, directory: Path) -> None:
        """Install with uv, and import it once."""
        python = self.interpreter()
        command = [
            _uv(), "pip", "install", "--quiet", "--no-deps", "--no-config", "--python", python.executable,
            "--target", str(directory / SITE), "--requirements", str(self.lock),
        ]  # fmt: skip
        remedy = "see that this machine reaches its package index (UV_DEFAULT_INDEX, PIP_INDEX_URL or a proxy)"
        run_client(self.name, command, env=uv_environment(), cwd=directory, remedy=remedy)
        if self.is_carried:
            carry_interpreter(self.name, python, directory, also=directory / SITE)
        self._warm_up(directory)

    def run(self, directory: str | Path, script: str | Path) -> list[str]:
        """What runs a script with the packages, of a harness that lies in ``directory`` of this machine or of a box."""
        return [*self._interpreter(directory), "-B", "-c", _RUN, f"{directory}/{SITE}", str(script)]

    def _interpreter(self, directory: str | Path) -> list[str]:
        if self.is_carried:
            return carried_command(directory, self.interpreter())
        return [self.interpreter().executable, "-I", "-S"]

    def _warm_up(self, directory: Path) -> None:
        home = directory / "home"
        home.mkdir()
        env = {"PATH": os.defpath, "HOME": str(home), "LANG": "C.UTF-8", **self.env, "MSWEA_SILENT_STARTUP": "1"}
        command = [*self._interpreter(directory), "-c", _WARM_UP, str(directory / SITE), *self.imports]
        run_client(self.name, command, env=env, cwd=home, remedy="report this, with your version of Python")

    @property
    def lock(self) -> Path:
        """The versions of all packages, one a line."""
        return _LOCKS / f"{self.name}.txt"


def _uv() -> str:
    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        raise MissingTool("uv", remedy="pip install uv") from None
