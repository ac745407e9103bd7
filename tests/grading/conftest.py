from __future__ import annotations

import anyio
import pytest

from swe_sdk.grading.box_git import BoxGit
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.store.results import Results
from tests.grading.faulty import FaultyProvider
from tests.grading.tiny import make_task


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="session")
def provider(tmp_path_factory):
    """The real local provider on a state directory of its own; at the end no box may be left."""
    provider = LocalProvider(tmp_path_factory.mktemp("state"))
    health = anyio.run(provider.probe)
    if not health.works:
        pytest.fail(f"the local provider does not work here: {health.reason}")
    yield provider
    left = list(provider.boxes)
    anyio.run(provider.aclose)
    assert left == []


@pytest.fixture
def faulty(provider):
    """Makes providers that fail on demand, over the state of the real one."""
    made = []

    def make(faults=None, on_exec=None):
        made.append(FaultyProvider(provider.state, faults, on_exec))
        return made[-1]

    yield make
    for each in made:
        assert each.live == 0, "a sandbox was left open"
        anyio.run(each.aclose)


@pytest.fixture
async def box(provider, tmp_path):
    """A box with the tiny repository at its workdir, committed."""
    task = make_task(tmp_path / "repo")
    prepared = await prepare(provider, task.environment)
    box = await provider.create(prepared.spec())
    yield box
    await box.close()


@pytest.fixture
async def git(box):
    git = BoxGit(box)
    await git.set_up()
    return git


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "repo")


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path / "results")
