"""An ordinary user who may use the engine has boxes like root's."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.leaks import memory_folder
from tests.sandbox.docker.images import busybox_image, need_engine
from tests.sandbox.docker.private_engine import LossyDoor
from tests.sandbox.test_ordinary_user import packages_for_everybody, run_as_user

PROGRAM = """
import json, os, sys
import anyio
from swe_sdk.sandbox.contract import Limits, SandboxSpec
from swe_sdk.sandbox.providers.docker.provider import DockerProvider

async def main():
    provider = DockerProvider(state=sys.argv[1], base_url=sys.argv[2])
    told = {"uid": os.geteuid(), "works": (await provider.probe()).works}
    box = await provider.create(SandboxSpec(image=sys.argv[3], limits=Limits(memory_mib=64)))
    told["who"] = (await box.exec("id -u; echo to > /dev/stdout; echo from > kept; cat /dev/stdin", stdin=b"in")).stdout
    told["root"] = (await box.exec("id -u", user="root")).stdout
    told["oom"] = (await box.exec("head -c 300000000 /dev/zero | tail > /dev/null")).status
    told["file"] = (await box.read("kept")).decode()
    snapshot = await provider.snapshot(box)
    fork = await provider.create(SandboxSpec(snapshot=snapshot.id))
    told["fork"] = (await fork.exec("cat kept")).stdout
    told["status"] = await fork.status()
    await provider.delete_snapshot(snapshot.id)
    await provider.aclose()
    told["left"] = len(provider.leases.mine())
    print(json.dumps(told))

anyio.run(main)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where everybody may look."""
    found = Path(tempfile.mkdtemp(prefix="swe_sdk-docker-user-", dir=memory_folder()))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; all other tests are this one then")
def test_a_user_without_powers_can_do_all_of_it(folder: Path) -> None:
    need_engine()
    packages_for_everybody(folder / "packages", "docker")
    door = LossyDoor("unix:///var/run/docker.sock", folder / "door", "/none", lose=0)
    (folder / "door").chmod(0o666)  # what membership in the engine's group does
    try:
        told = json.loads(run_as_user(folder, PROGRAM, door.url, busybox_image()))
    finally:
        door.close()
    assert told.pop("uid") != 0
    assert told == {
        "works": True,
        "who": "1234\nto\nin",
        "root": "0\n",
        "oom": "oom",
        "file": "from\n",
        "fork": "from\n",
        "status": "running",
        "left": 0,
    }
