"""What tests of the OpenSandbox provider share, beside their fixtures: conftest is a module twice over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

import anyio

from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.opensandbox.provider import OpenSandboxProvider
from swe_sdk.sandbox.providers.remote.box import RemoteBox
from tests.sandbox.docker.images import debian_image
from tests.sandbox.opensandbox.server import SNAPSHOT_IMAGES, Server, provider_settings, shared_server

MakeBox = Callable[..., Awaitable[RemoteBox]]
_connected: list[Any] = []
sys.addaudithook(lambda event, arguments: _connected.append(arguments[1]) if event == "socket.connect" else None)


def forget_connections() -> None:
    """Begin to look anew."""
    _connected.clear()


def make_provider(**settings: Any) -> OpenSandboxProvider:
    """One that shares its state with all others here."""
    made_of = {"state": shared_server().home / "state", "base_image": debian_image(), **provider_settings()}
    return OpenSandboxProvider(**{**made_of, **settings})


@cache
def ground() -> str:
    """A snapshot that most boxes stand on: our supervisor is brought once, and not into each of them."""

    async def freeze() -> str:
        provider = make_provider()
        try:
            box = await provider.create(SandboxSpec())
            return (await provider.snapshot(box)).id
        finally:
            await provider.aclose()

    return anyio.run(freeze)


async def delete_snapshot(snapshot: str) -> None:
    provider = make_provider()
    await provider.delete_snapshot(snapshot)
    await provider.aclose()


def connections() -> list[tuple[str, int]]:
    """Whereto this process has connected over the network since the beginning of the test."""
    return [(str(address[0]), address[1]) for address in _connected if isinstance(address, tuple)]


def left_over(server: Server) -> dict[str, list[str]]:
    """What there is of ours; a list for each kind. Other tests may run on the same engine at the same time."""
    log = (server.home / "log").read_text()
    return {
        "containers": [line for line in _containers() if _is_ours(line)],
        "images": [tag for tag in docker_lines("images", "--format", "{{.Tag}}", SNAPSHOT_IMAGES) if tag in log],
        "metadata": [name for name in server.metadata_files() if name.partition(".")[0] in log],
    }


def _containers() -> list[str]:
    found = '{{.ID}}={{.Label "swe_sdk.process"}}'
    return docker_lines("ps", "-a", "--filter", "label=opensandbox.io/id", "--format", found)


def _is_ours(line: str) -> bool:
    """Of this process, or of one that is dead."""
    pid = line.partition("=")[2].partition(".")[0]
    return pid == str(os.getpid()) or not Path(f"/proc/{pid or 'none'}").exists()


def docker_lines(*arguments: str) -> list[str]:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True, timeout=60)
    return sorted(done.stdout.split())


def inspected(name: str) -> Any:
    """What the engine says of a container or image, whole."""
    done = subprocess.run(["docker", "inspect", name], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)[0]


def container_of(box: RemoteBox) -> str:
    """The id of its container."""
    (container,) = docker_lines("ps", "-aq", "--filter", f"label=opensandbox.io/id={box.handle}")
    return container


def is_loopback(host: str) -> bool:
    return host.startswith("127.") or host in ("::1", "localhost")
