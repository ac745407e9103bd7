"""What the benchmarks share: settings, a place for state, the meter, and contenders that are made on first use."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import cached_property
from pathlib import Path

from benchmarks.bubblewrap import Bubblewrap, find_bubblewrap
from benchmarks.docker_daemon import Docker, docker_daemon
from benchmarks.meter import Meter, open_meter
from benchmarks.rows import Unavailable
from benchmarks.settings import Settings
from benchmarks.state import default_state, temporary_folder
from benchmarks.stopwatch import Stopwatch, compile_limit
from benchmarks.tiny_root import make_tiny_root
from swe_sdk.sandbox.providers.local.provider import LocalProvider


class Lab:
    """Made by :func:`open_lab`."""

    def __init__(self, settings: Settings, folder: Path, meter: Meter, stack: ExitStack) -> None:
        self.settings = settings
        self.folder = folder
        self.meter = meter
        self._stack = stack

    def new_folder(self, name: str) -> Path:
        """An empty folder that nobody else has."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))

    @cached_property
    def root(self) -> Path:
        """A small root file system."""
        return make_tiny_root(self.folder / "root")

    @cached_property
    def _limit(self) -> Path:
        return compile_limit(self.folder)

    @cached_property
    def bubblewrap(self) -> Bubblewrap:
        """Or ``Unavailable``."""
        return find_bubblewrap()

    @cached_property
    def docker(self) -> Docker:
        """Or ``Unavailable``."""
        return self._stack.enter_context(docker_daemon(self.folder / "docker", self.root, self.meter.group))

    def limit_of_a_box(self, places: int) -> Stopwatch:
        """The C program that does the least that makes a box."""
        return self._stopwatch("box", places, str(self.root))

    def stopwatch_of(self, places: int, *command: str, env: Mapping[str, str] | None = None) -> Stopwatch:
        """A C program that times another one."""
        return self._stopwatch("spawn", places, *command, env=env)

    def _stopwatch(self, mode: str, places: int, *arguments: str, env: Mapping[str, str] | None = None) -> Stopwatch:
        stopwatch = Stopwatch(self._limit, mode, self.new_folder(mode), places, *arguments, env=env)
        self._stack.callback(stopwatch.close)
        return stopwatch

    def at_end(self, work: Callable[..., object], *arguments: str) -> None:
        """Call ``work`` when everything is over, before what was there earlier is taken down."""
        self._stack.callback(work, *arguments)

    @asynccontextmanager
    async def provider(self) -> AsyncIterator[LocalProvider]:
        """A local provider with a state directory of its own; ``Unavailable`` where it does not work."""
        provider = LocalProvider(self.new_folder("state"))
        try:
            health = await provider.probe()
            if not health.works:
                raise Unavailable(f"local sandboxes do not work here: {health.reason}")
            yield provider
        finally:
            await provider.aclose()


@contextmanager
def open_lab(settings: Settings, state: Path | None) -> Iterator[Lab]:
    """A lab with everything below ``state`` (default: /dev/shm where there is one), gone at the end."""
    with ExitStack() as stack:
        meter = stack.enter_context(open_meter())
        folder = stack.enter_context(temporary_folder(state or default_state()))
        yield Lab(settings, folder, meter, stack)
