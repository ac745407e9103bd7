from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.docker_kill_points import Place
from tests.sandbox.docker.images import debian_image
from tests.sandbox.docker.private_engine import PrivateEngine


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    image = debian_image()
    engine = PrivateEngine(tmp_path / "engine")
    try:
        engine.start()
        archive = tmp_path / "image.tar"
        subprocess.run(["docker", "save", "--output", archive, image], check=True)
        subprocess.run(["docker", "--host", engine.url, "load", "--input", archive], check=True, capture_output=True)
        archive.unlink()
        yield Place(engine, image, tmp_path / "state", tmp_path)
    finally:
        engine.close()
