"""Builds that fail, are cancelled or lose what they made: it is said why, nothing is left, and the next one works."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import BuildFailed, MissingTool, SandboxLost
from swe_sdk.model.environment import DirectorySource, GitSource, SourceEnvironment
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import processes_of, unused_layers
from tests.sandbox.boxes import init_of

pytestmark = pytest.mark.anyio


@contextmanager
def no_new_layers(state: Path) -> Iterator[None]:
    """Whatever happens meanwhile leaves no box, snapshot, layer or record behind."""

    def inventory() -> list[str]:
        folders = ("layers", "snapshots", "boxes/*", "trash")
        found = [str(path) for folder in folders for path in state.glob(f"{folder}/*")]
        return sorted([*found, *(str(path) for path in (state / "environments").glob("*.json"))])

    before = inventory()
    yield
    assert inventory() == before
    assert unused_layers(state) == []


async def test_a_failing_step_shows_its_output_and_leaves_nothing(
    local_provider: LocalProvider, source: DirectorySource
) -> None:
    steps = ("echo fine", "echo to stdout; echo to stderr >&2; sleep 300 & exit 7", "touch never")
    environment = SourceEnvironment(source=source, install=steps)
    for _attempt in (1, 2):
        with no_new_layers(local_provider.state):
            with pytest.raises(BuildFailed) as caught:
                await prepare(local_provider, environment)
        assert caught.value.step.startswith("install step 2")
        assert "to stdout\nto stderr" in caught.value.output
        assert "code 7" in caught.value.output


async def test_passwords_of_an_index_are_not_part_of_an_error(
    local_provider: LocalProvider, source: DirectorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://a.example https://me:p%40ss-w0rd@index.example/simple")
    with pytest.raises(BuildFailed) as caught:
        await prepare(local_provider, SourceEnvironment(source=source, install=("env; false",)))
    assert "https://me:****@index.example/simple" in caught.value.output
    assert "p%40ss-w0rd" not in str(caught.value) + caught.value.output


async def test_a_build_box_that_dies_is_lost_and_not_a_failed_step(
    local_provider: LocalProvider, source: DirectorySource
) -> None:
    def kill(said: str) -> None:
        if "install" in said:
            (box,) = local_provider.boxes.values()
            os.kill(init_of(box), signal.SIGKILL)

    with no_new_layers(local_provider.state), pytest.raises(SandboxLost):
        await prepare(local_provider, SourceEnvironment(source=source, install=("sleep 60",)), on_progress=kill)


async def test_a_cancelled_build_leaves_nothing_and_can_be_repeated(
    local_provider: LocalProvider, source: DirectorySource
) -> None:
    environment = SourceEnvironment(source=source, install=("sleep 0.7",))
    with no_new_layers(local_provider.state):
        with anyio.CancelScope() as scope:
            await prepare(
                local_provider, environment, on_progress=lambda said: scope.cancel() if "install" in said else None
            )
        assert scope.cancelled_caught
    assert (await prepare(local_provider, environment)).build_s > 0


async def test_waiting_for_a_server_that_says_nothing_can_be_cancelled(local_provider: LocalProvider) -> None:
    """A deadline holds for git too, which has none of its own; the process goes with the wait."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"git://127.0.0.1:{silent.getsockname()[1]}/repository"
        started = time.monotonic()
        with anyio.move_on_after(0.5) as scope:
            await prepare(local_provider, SourceEnvironment(source=GitSource(url=url, commit="main")))
        assert scope.cancelled_caught
        assert time.monotonic() - started < 5
        assert list(processes_of(url)) == []


async def test_a_missing_program_is_told_before_anything_is_built(
    local_provider: LocalProvider, source: DirectorySource
) -> None:
    environment = SourceEnvironment(source=source, tools=("no-such-tool",))
    with no_new_layers(local_provider.state), pytest.raises(MissingTool, match="no-such-tool"):
        await prepare(local_provider, environment, on_progress=lambda said: pytest.fail(said))


async def test_a_deleted_snapshot_is_built_again(local_provider: LocalProvider, source: DirectorySource) -> None:
    environment = SourceEnvironment(source=source)
    first = await prepare(local_provider, environment)
    assert first.snapshot is not None
    await local_provider.delete_snapshot(first.snapshot)
    second = await prepare(local_provider, environment)
    assert second.build_s > 0
    assert second.snapshot != first.snapshot
    assert second.base_commit == first.base_commit, "the same content is the same commit"


@pytest.mark.parametrize("record", ["", "{", "[]", "null", '{"key": 1}', '{"key": "k", "field_of_a_later_version": 1}'])
async def test_a_record_that_cannot_be_read_is_built_again(
    local_provider: LocalProvider, source: DirectorySource, record: str
) -> None:
    environment = SourceEnvironment(source=source)
    first = await prepare(local_provider, environment)
    assert first.snapshot is not None
    (local_provider.state / "environments" / f"{first.key}.json").write_text(record)
    assert (await prepare(local_provider, environment)).build_s > 0
    await local_provider.delete_snapshot(first.snapshot)
