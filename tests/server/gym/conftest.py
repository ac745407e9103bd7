from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import memory_folder
from tests.server.gym.gym_servers import SECRET, GymProcess, boxes_of
from tests.server.serving import tiny_row

_QUICK = ("--set", "patience_s=1", "--set", "drain_s=0.5")
"""What is gone, and what a test has left open, is not waited for."""
StartGym = Callable[..., GymProcess]


@pytest.fixture(scope="session")
def gym_home(tmp_path_factory: pytest.TempPathFactory, local_provider: LocalProvider) -> Iterator[Path]:
    """For all servers here: what sandboxes need is made once."""
    memory = memory_folder()
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-gym-", dir=memory)) if memory else tmp_path_factory.mktemp("gym")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def gym_tasks(gym_home: Path) -> Path:
    """One task that takes no time."""
    import json

    path = gym_home / "tasks.jsonl"
    path.write_text(json.dumps(tiny_row(gym_home / "repo")) + "\n")
    return path


@pytest.fixture(scope="session")
def gym_secret(gym_home: Path) -> Path:
    """What signs tokens."""
    path = gym_home / "secret"
    path.write_text(SECRET)
    return path


@pytest.fixture(scope="session")
def start_gym(gym_home: Path, gym_tasks: Path, gym_secret: Path) -> Iterator[StartGym]:
    """Starts servers; at the end all must stop in order, and leave nothing."""
    started: list[GymProcess] = []

    def start(kind: str, *arguments: str, home: Path = gym_home) -> GymProcess:
        own: tuple[str, ...] = ()
        if kind == "resources":
            own = (str(gym_tasks), "--provider", "local", "--secret-file", str(gym_secret))
        started.append(GymProcess(home, kind, *own, *_QUICK, *arguments))
        return started[-1]

    yield start
    codes = {each.log.name: each.stop() for each in started if each.process.poll() is None}
    assert set(codes.values()) <= {0}, codes
    assert boxes_of(gym_home) == []
    for each in started:
        assert "Traceback" not in each.log.read_text(), each.log.read_text()


@pytest.fixture(scope="session")
def resources(start_gym: StartGym) -> GymProcess:
    """The resources server of most tests."""
    return start_gym("resources")


@pytest.fixture(scope="session")
def gold_agent(start_gym: StartGym, resources: GymProcess, gym_tasks: Path) -> GymProcess:
    """An agent server that plays back solutions; it serves the legacy route as well."""
    return start_gym("agent", "--agent", "gold", "--tasks", str(gym_tasks), "--resources-url", resources.url)


@pytest.fixture(scope="session")
def noop_agent(start_gym: StartGym, resources: GymProcess) -> GymProcess:
    """One that does nothing."""
    return start_gym("agent", "--agent", "noop", "--resources-url", resources.url)
