"""A real registry on the loopback interface, and small images in it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.sandbox.images.oci import LiveRegistry
from tests.shared import need_program

_CONFIG = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {root}}}, delete: {{enabled: true}}}}
http: {{addr: "{host}"}}
{more}
"""


@contextmanager
def running_registry(folder: Path, more: str = "", auth: tuple[str, str] | None = None) -> Iterator[LiveRegistry]:
    """Debian's docker-registry, on a free port."""
    need_program("docker-registry")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{probe.getsockname()[1]}"
    config = folder / "config.yml"
    config.write_text(_CONFIG.format(root=folder / "data", host=host, more=more))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["docker-registry", "serve", config], stdout=log, stderr=log)
    try:
        _await_answer(host, process, folder / "log")
        yield LiveRegistry(host, auth)
    finally:
        process.terminate()
        process.wait(10)


def _await_answer(host: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _attempt in range(600):
        assert process.poll() is None, log.read_text()
        try:
            requests.get(f"http://{host}/v2/", timeout=1)
            return
        except requests.ConnectionError:
            time.sleep(0.05)
    raise AssertionError("the registry does not answer")


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as live:
        yield live


@pytest.fixture
def provider(provider: LocalProvider) -> Iterator[LocalProvider]:
    """Images are kept for ever, on purpose; those of tests are not."""
    yield provider
    for image in provider.store.records.images():
        provider.store.delete_snapshot(image.id)


@pytest.fixture(scope="session")
def busybox() -> bytes:
    """A program that is a shell and much else, and needs no library."""
    path = shutil.which("busybox")
    if path is None:
        need_program("busybox")
    assert path is not None
    return Path(path).read_bytes()
