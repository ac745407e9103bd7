"""Drives ``limit.c``: a C program that times cycles of its own, or of other programs, without a Python's overhead."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from benchmarks.rows import Unavailable

_SOURCE = Path(__file__).with_name("limit.c")
_LAYERS = ("upper", "work", "mnt")


def compile_limit(folder: Path) -> Path:
    """The compiled program; ``Unavailable`` where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise Unavailable("there is no C compiler (Debian, Ubuntu: apt-get install gcc libc6-dev)")
    program = folder / "limit"
    done = subprocess.run(
        [compiler, "-O2", "-Wall", "-o", program, _SOURCE], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Unavailable(f"{compiler} could not compile limit.c: {done.stderr.strip()[:300]}")
    return program


class Stopwatch:
    """A running ``limit``. Directories for ``places`` cycles are made at once, and not timed."""

    def __init__(
        self,
        program: Path,
        mode: str,
        folder: Path,
        places: int,
        *arguments: str,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._places = places
        self._done = 0
        for number in range(places):
            for layer in _LAYERS:
                (folder / str(number) / layer).mkdir(parents=True)
        self._process = subprocess.Popen(
            [program, mode, folder, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
        )

    async def run(self, count: int) -> list[float]:
        """The seconds of each of ``count`` cycles. Blocks: nothing else may run meanwhile.

        Raises ``Unavailable`` with the program's own words where one fails.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._done += count
        if self._done > self._places:
            raise ValueError(f"directories were made for {self._places} cycles only")
        self._process.stdin.write(b"%d\n" % count)
        self._process.stdin.flush()
        lines = [self._process.stdout.readline() for _ in range(count + 1)]
        if lines[-1] != b"\n":
            raise Unavailable(self._last_words())
        return [float(line) / 1e3 for line in lines[:-1]]

    def _last_words(self) -> str:
        _output, errors = self._process.communicate()
        return f"it ended with code {self._process.returncode}: {errors.decode(errors='replace').strip()[-300:]}"

    def close(self) -> None:
        """End the program."""
        if self._process.poll() is None:
            self._process.communicate()
