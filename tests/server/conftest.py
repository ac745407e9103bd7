from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import memory_folder
from tests.server.serving import ServerProcess, slow_row, tiny_row

StartServer = Callable[..., ServerProcess]


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, local_provider: LocalProvider) -> Iterator[Path]:
    """For all servers here: what boxes need is made once."""
    memory = memory_folder()
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-server-", dir=memory)) if memory else tmp_path_factory.mktemp("s")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def rows(home: Path) -> list[dict[str, Any]]:
    """What the servers have loaded: one task that takes no time, and one that takes a second."""
    return [tiny_row(home / "repo"), slow_row(home / "repo", 1)]


@pytest.fixture(scope="session")
def server(home: Path, rows: list[dict[str, Any]]) -> Iterator[ServerProcess]:
    """One for all tests that do not need their own; nothing of it may be left."""
    server = ServerProcess(home, "--body-mib", "8", "--results", str(home / "results"), rows=rows)
    yield server
    code = server.stop()
    assert code == 0, server.log.read_text()
    assert server.left() == []
    assert "Traceback" not in server.log.read_text()


@pytest.fixture
def start(home: Path, rows: list[dict[str, Any]], server: ServerProcess) -> Iterator[StartServer]:
    """Starts servers with other settings, beside that of the session, on the same state."""
    started: list[ServerProcess] = []

    def start(*arguments: str, **env: str) -> ServerProcess:
        started.append(ServerProcess(home, *arguments, rows=rows, **env))
        return started[-1]

    yield start
    for each in started:
        each.stop()
        assert "Traceback" not in each.log.read_text()
