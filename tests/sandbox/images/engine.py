"""A real container engine, to push images and to say what is in them."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager

from swe_sdk.model.ids import new_id


def docker(*arguments: str, stdin: bytes | None = None) -> bytes:
    done = subprocess.run(["docker", *arguments], input=stdin, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def pushed(image: str, host: str, name: str) -> str:
    """An image of the engine, pushed to the registry at ``host``; its name there."""
    target = f"{host}/{name}:latest"
    docker("tag", image, target)
    try:
        docker("push", "--quiet", target)
    finally:
        docker("rmi", target)
    return target


@contextmanager
def changed(image: str, *scripts: str) -> Iterator[str]:
    """The name of an image with a layer more for each script; it is gone afterwards."""
    name = f"swe-sdk-test:{new_id('made')}"
    docker("tag", image, name)
    try:
        for script in scripts:
            container = docker("create", "--network", "none", name, "sh", "-ec", script).decode().strip()
            try:
                docker("start", "--attach", container)
                docker("commit", container, name)
            finally:
                docker("rm", container)
        yield name
    finally:
        docker("rmi", name)


def exported(image: str) -> tarfile.TarFile:
    """All files of an image, as the engine puts them together."""
    container = docker("create", image, "true").decode().strip()
    try:
        return tarfile.open(fileobj=io.BytesIO(docker("export", container)), encoding="utf-8", errors="surrogateescape")
    finally:
        docker("rm", container)
