"""An engine that cannot be used says why, and what to do."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import anyio
import pytest

from swe_sdk.errors import ProviderUnavailable
from swe_sdk.sandbox.contract import Limits, SandboxSpec
from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.sandbox.providers.docker.engine import Engine
from swe_sdk.sandbox.providers.docker.failures import EngineSilent
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from tests.sandbox.docker.images import need_engine
from tests.sandbox.docker.private_engine import LossyDoor

pytestmark = pytest.mark.anyio
GOOD = {"Api": "1.41", "OSType": "linux", "OperatingSystem": "Debian", "DockerRootDir": "/nowhere"}


async def why(provider: DockerProvider) -> tuple[str, str]:
    """Reason and remedy of a provider that does not work; the same is told to who wants a box."""
    health = await provider.probe()
    assert not health.works
    assert health.provider == "docker"
    with pytest.raises(ProviderUnavailable) as refused:
        await provider.create(SandboxSpec(image="x"))
    assert refused.value.message == health.reason
    await provider.aclose()
    return health.reason, health.remedy


@contextmanager
def serving(path: Path, answer: str) -> Iterator[None]:
    """A server that answers every request alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_what: object) -> None:
            pass

    with ThreadingUnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield
        server.shutdown()
        thread.join()


async def test_no_engine(tmp_path: Path) -> None:
    reason, remedy = await why(DockerProvider(state=tmp_path, base_url=f"unix://{tmp_path}/none.sock"))
    assert reason == f"no Docker engine answers at unix://{tmp_path}/none.sock"
    assert "systemctl start docker" in remedy


async def test_an_engine_that_has_died(tmp_path: Path) -> None:
    need_engine()
    door = LossyDoor("unix:///var/run/docker.sock", tmp_path / "door", "/none")
    door.close()
    reason, _remedy = await why(DockerProvider(state=tmp_path, base_url=door.url))
    assert reason == f"no Docker engine answers at {door.url}"


async def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_base_url: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("swe_sdk.sandbox.providers.docker.engine._knock", refuse)
    reason, remedy = await why(DockerProvider(state=tmp_path))
    assert "this user may not use" in reason
    assert "usermod -aG docker" in remedy


@pytest.mark.parametrize("answer", ["{}", "[]", '{"ApiVersion": "x.y"}', '{"ApiVersion": "1.41", "OSType": "linux"}'])
async def test_something_else_that_answers(tmp_path: Path, answer: str) -> None:
    url = f"unix://{tmp_path}/other.sock"
    with serving(tmp_path / "other.sock", answer):
        reason, remedy = await why(DockerProvider(state=tmp_path, base_url=url))
    assert reason == f"what answers at {url} is no Docker engine"
    assert "DOCKER_HOST" in remedy


@pytest.mark.parametrize("url", ["tcp://10.0.0.1:2375", "ssh://build@host", "https://host:2376"])
async def test_an_engine_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", url)
    reason, remedy = await why(DockerProvider(state=tmp_path))
    assert url in reason
    assert "another machine" in reason
    assert "DOCKER_HOST" in remedy


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"Api": "1.39"}, "version 1.39 of its API"),
        ({"OperatingSystem": "Docker Desktop"}, "virtual machine"),
        ({"OSType": "windows"}, "virtual machine"),
    ],
)
async def test_engines_of_the_wrong_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, info: dict[str, str], expected: str
) -> None:
    async def answer(_engine: Engine, _what: str, _work: Any, **_options: Any) -> dict[str, str]:
        return {**GOOD, **info}

    monkeypatch.setattr(Engine, "call", answer)
    reason, remedy = await why(DockerProvider(state=tmp_path))
    assert expected in reason
    assert "install Docker" in remedy


async def test_a_state_directory_that_cannot_be_used(tmp_path: Path) -> None:
    need_engine()
    (tmp_path / "file").touch()
    provider = DockerProvider(state=tmp_path / "file/state", leases=LeaseBook(tmp_path / "leases"))
    reason, remedy = await why(provider)
    assert f"{tmp_path}/file/state cannot be used" in reason
    assert "SWE_SDK_STATE" in remedy


async def test_an_engine_that_works(docker_provider: DockerProvider) -> None:
    """It is tried with an image without a single file, made for it: nothing is pulled."""
    health = await docker_provider.probe()
    assert health.works, health
    assert {"version", "api", "storage", "control groups"} <= set(health.details)
    assert set(health.limits) == set(Limits.model_fields)
    assert docker_provider.boxes == {}


async def test_a_fork_of_this_process_has_none_of_its_boxes(docker_provider: DockerProvider) -> None:
    await docker_provider.probe()
    box = await docker_provider.create(SandboxSpec(image="swe_sdk/empty:1", workdir="/"))
    child = os.fork()
    if child == 0:
        os._exit(0 if docker_provider.boxes == {} and box.is_closed else 1)  # type: ignore[attr-defined]
    assert os.waitpid(child, 0)[1] == 0
    program = [*docker_provider.runtime().interpreter(), "-c", "print('still here')"]
    assert (await box.exec(program)).stdout == "still here\n"
    await box.close()


async def test_an_engine_that_says_nothing_is_given_up_within_the_time_of_a_call(tmp_path: Path) -> None:
    """Also by what may take half an hour once it is connected: everybody else waits for that connection."""
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent.sock"))
        silent.listen()
        engine = Engine(f"unix://{tmp_path}/silent.sock", call_timeout_s=0.5)
        with anyio.fail_after(20), pytest.raises(EngineSilent):
            await engine.call("pull an image", lambda api: api.ping(), timeout_s=1800)
        engine.close()
