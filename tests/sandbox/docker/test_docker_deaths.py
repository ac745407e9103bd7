"""Whoever dies, hangs or loses an answer, at whatever moment: nothing is left behind, and nothing wrong is told."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import docker
import pytest

from swe_sdk.errors import CreateFailed, ProviderUnavailable, SandboxError, SandboxLost
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.leases import LABEL_LEASE, LABEL_OWNER, LeaseBook
from swe_sdk.sandbox.owner import parse_owner
from swe_sdk.sandbox.providers.docker import probing
from swe_sdk.sandbox.providers.docker.engine import Engine
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.sandbox.reaper import reap
from tests.sandbox.docker.conftest import MakeBox
from tests.sandbox.docker.images import debian_image
from tests.sandbox.docker.private_engine import LossyDoor, PrivateEngine

pytestmark = pytest.mark.anyio
KILL_POINTS = int(os.environ.get("SWE_SDK_KILL_POINTS", "8"))
GONE_S = 120.0
"""The reaper gives an engine half a minute for what it may still be making."""
LIFE = """
    import os, sys, anyio
    from swe_sdk.sandbox.contract import SandboxSpec
    from swe_sdk.sandbox.providers.docker.provider import DockerProvider

    async def live(provider):
        while True:
            box = await provider.create(SandboxSpec(image=sys.argv[2]))
            await box.exec("echo x > /tmp/f; (sleep 60 &) ; sleep 0.02; kill -9 $(pgrep -f 'sleep 60')")
            print("beat", flush=True)
            snapshot = await provider.snapshot(box)
            await provider.delete_snapshot(snapshot.id)
            await box.close()

    async def main():
        provider = DockerProvider(state=sys.argv[1])
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(live, provider)

    anyio.run(main)
"""


@pytest.fixture
def api() -> Iterator[docker.APIClient]:
    with closing(docker.APIClient(version="auto")) as found:
        yield found


def left_by(api: docker.APIClient, pid: int) -> list[str]:
    """Containers and images of ours that a process has made."""
    found: list[Any] = api.containers(all=True, filters={"label": LABEL_LEASE})
    found += api.images(filters={"label": LABEL_LEASE})
    owners = [(each, parse_owner(each["Labels"].get(LABEL_OWNER, ""))) for each in found]
    return [each["Id"] for each, owner in owners if owner is not None and owner.pid == pid]


@pytest.mark.timeout(900)
async def test_a_killed_process_leaves_nothing_after_the_reaper(
    docker_state: Path, api: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At random moments: a create, a command, a snapshot, a removal may be under way in the engine just then."""
    monkeypatch.setattr("swe_sdk.sandbox.reaper._SETTLE_S", 3.0)  # this engine is near, and idle
    chance = random.Random(4)
    for _ in range(KILL_POINTS):
        program = [sys.executable, "-c", textwrap.dedent(LIFE), docker_state, debian_image()]
        with subprocess.Popen(program, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            await anyio.sleep(chance.uniform(0.0, 0.7))
            process.kill()
        provider = DockerProvider(state=docker_state)
        with anyio.fail_after(GONE_S):
            while await _is_something_left(provider, api, process.pid):
                await anyio.sleep(0.2)
        await provider.aclose()


async def _is_something_left(
    provider: DockerProvider, api: docker.APIClient, pid: int, before: Sequence[str] = ()
) -> bool:
    """Whether a process owns something that it did not own ``before``."""
    report = await reap(provider.leases, [provider])
    assert report.of("failed") == ()
    await provider.collect()
    leases = [lease.id for lease in provider.leases.leases() if lease.owner.pid == pid]
    return bool({*leases, *left_by(api, pid)} - set(before))


async def test_the_reaper_leaves_boxes_of_the_living_alone(make_box: MakeBox, docker_state: Path) -> None:
    box = await make_box()
    other = DockerProvider(state=docker_state)
    report = await reap(other.leases, [other])
    assert report.items == ()
    assert report.live >= 1
    assert (await box.exec(["/bin/echo", "alive"])).stdout == "alive\n"
    await other.aclose()


async def test_boxes_go_with_a_process_that_is_killed_even_without_a_reaper(
    docker_state: Path, api: docker.APIClient
) -> None:
    program = [sys.executable, "-c", textwrap.dedent(LIFE), docker_state, debian_image()]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    with anyio.fail_after(20):
        while any(found["State"] == "running" for found in _containers_of(api, process.pid)):
            await anyio.sleep(0.1)
    provider = DockerProvider(state=docker_state)
    with anyio.fail_after(GONE_S):
        while await _is_something_left(provider, api, process.pid):
            await anyio.sleep(0.2)
    await provider.aclose()


def _containers_of(api: docker.APIClient, pid: int) -> list[Any]:
    found = api.containers(all=True, filters={"label": LABEL_LEASE})
    return [each for each in found if (owner := parse_owner(each["Labels"].get(LABEL_OWNER, ""))) and owner.pid == pid]


async def test_a_container_killed_from_outside_is_a_lost_box(make_box: MakeBox, api: docker.APIClient) -> None:
    box = await make_box()
    results: list[ExecResult] = []

    async def long_command() -> None:
        results.append(await box.exec("echo began; sleep 60"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(long_command)
        await anyio.sleep(0.3)
        api.kill(box.container)
    assert [(r.status, r.exit_code, r.stdout) for r in results] == [("lost", None, "began\n")]
    assert await box.status() == "lost"
    with pytest.raises(SandboxLost):
        await box.read("/etc/hostname")
    await box.close()
    assert await box.status() == "stopped"


@pytest.mark.parametrize("path", ["/containers/create", "/start"])
async def test_a_lost_answer_makes_no_second_container(
    docker_state: Path, tmp_path: Path, api: docker.APIClient, path: str
) -> None:
    door = LossyDoor("unix:///var/run/docker.sock", tmp_path / "door", path)
    provider = DockerProvider(state=docker_state, base_url=door.url)
    try:
        box = await provider.create(SandboxSpec(image=debian_image()))
        assert door.lost == 1
        assert (await box.exec(["/bin/echo", "there"])).stdout == "there\n"
        mine = _containers_of(api, os.getpid())
        assert len(mine) == 1
        await box.close()
        assert _containers_of(api, os.getpid()) == []
    finally:
        await provider.aclose()
        door.close()


async def test_a_lost_answer_to_a_commit_is_reaped(docker_state: Path, tmp_path: Path, api: docker.APIClient) -> None:
    door = LossyDoor("unix:///var/run/docker.sock", tmp_path / "door", "/commit")
    provider = DockerProvider(state=docker_state, base_url=door.url)
    try:
        leases = [lease.id for lease in provider.leases.leases()]
        owned = [*leases, *left_by(api, os.getpid())]  # by other tests of this process
        box = await provider.create(SandboxSpec(image=debian_image()))
        lost = new_id("snap")
        with pytest.raises(SandboxError):
            await provider.snapshot(box, snapshot_id=lost)
        assert (await box.exec(["/bin/echo", "goes on"])).stdout == "goes on\n"
        assert lost not in {snapshot.id for snapshot in await provider.snapshots()}
        await box.close()
        with anyio.fail_after(GONE_S):
            while await _is_something_left(provider, api, os.getpid(), owned):
                await anyio.sleep(0.2)
    finally:
        await provider.aclose()
        door.close()


async def test_what_others_make_of_our_snapshots_is_theirs(
    docker_provider: DockerProvider, make_box: MakeBox, api: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their containers and images have our labels, by inheritance."""
    snapshot = await docker_provider.snapshot(await make_box())
    name = f"swe_sdk/snapshot:{snapshot.id}"
    theirs = api.create_container(name, ["/bin/true"], network_disabled=True)["Id"]
    monkeypatch.setattr("swe_sdk.sandbox.providers.docker.reaping.SLOW_TIMEOUT_S", 0.5)
    await anyio.sleep(1.5)
    image = api.commit(theirs)["Id"]
    try:
        assert LABEL_LEASE in api.inspect_image(image)["Config"]["Labels"]
        owned = {found.handle for found in await docker_provider.owned()}
        assert not owned & {theirs, f"image:{image}"}
    finally:
        api.remove_container(theirs)
        api.remove_image(image)
        await docker_provider.delete_snapshot(snapshot.id)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[PrivateEngine]:
    found = PrivateEngine(Path("/dev/shm") / f"swe_sdk-engine-{os.getpid()}")
    try:
        found.start()
        yield found
    finally:
        found.close()


async def test_an_engine_that_dies_and_comes_back(engine: PrivateEngine, tmp_path: Path) -> None:
    """A command goes on while the engine is dead: it needs none. What the engine's return ends is lost."""
    book = LeaseBook(tmp_path / "leases")
    provider = DockerProvider(state=tmp_path / "state", base_url=engine.url, leases=book)
    spec = await _spec(provider)
    box = await provider.create(spec)
    results: list[ExecResult] = []

    async def long_command() -> None:
        results.append(await box.exec([*_python(provider), "import time; print('began', flush=True); time.sleep(60)"]))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(long_command)
        await anyio.sleep(0.5)
        engine.signal(signal.SIGKILL)
        told = await box.exec([*_python(provider), "print('no engine')"])
        assert told.stdout == "no engine\n"
        assert await box.status() == "running"
        with anyio.fail_after(30), pytest.raises((CreateFailed, ProviderUnavailable)):
            await provider.create(spec)
        await anyio.to_thread.run_sync(engine.start)
    assert [(result.status, result.stdout) for result in results] == [("lost", "began\n")]
    with pytest.raises(SandboxLost):
        await box.exec([*_python(provider), "print('gone')"])
    await box.close()
    fresh = await provider.create(spec)
    await fresh.close()
    await reap(book, [provider])
    await provider.aclose()
    assert book.leases() == []
    assert engine.containers() == []


async def test_closing_while_the_engine_is_dead_leaves_it_to_the_reaper(engine: PrivateEngine, tmp_path: Path) -> None:
    book = LeaseBook(tmp_path / "leases")
    provider = DockerProvider(state=tmp_path / "state", base_url=engine.url, leases=book)
    box = await provider.create(await _spec(provider))
    engine.signal(signal.SIGKILL)
    with anyio.fail_after(30):
        await box.close()
    assert await box.status() == "stopped"
    assert [lease.state for lease in book.leases()] == ["closing_failed"]
    engine.start()
    await reap(book, [provider])
    assert book.leases() == []
    assert engine.containers() == []
    await provider.aclose()


async def test_an_engine_that_hangs_holds_nobody_up(
    engine: PrivateEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands need no engine; whoever does is told after its time, and what could not be removed is reaped later."""
    monkeypatch.setattr("swe_sdk.sandbox.closing._CLOSE_CAP_S", 3.0)
    book = LeaseBook(tmp_path / "leases")
    provider = DockerProvider(state=tmp_path / "state", base_url=engine.url, leases=book)
    provider.engine = provider.images._engine = Engine(engine.url, call_timeout_s=1.0)
    spec = await _spec(provider)
    box = await provider.create(spec)
    engine.signal(signal.SIGSTOP)
    try:
        assert (await box.exec([*_python(provider), "print('goes on')"])).stdout == "goes on\n"
        with anyio.fail_after(20):
            with pytest.raises(CreateFailed):
                await provider.create(spec)
            await box.close()
        assert await box.status() == "stopped"
        assert [lease.state for lease in book.mine()] == ["closing_failed"]
    finally:
        engine.signal(signal.SIGCONT)
    with anyio.fail_after(30):
        while book.mine() or engine.containers():
            await reap(book, [provider])
    await provider.aclose()


async def _spec(provider: DockerProvider) -> SandboxSpec:
    await probing.ensure_empty_image(provider.engine)
    return SandboxSpec(image=probing.EMPTY_IMAGE, workdir="/")


def _python(provider: DockerProvider) -> list[str]:
    return [*provider.runtime().interpreter(), "-c"]
