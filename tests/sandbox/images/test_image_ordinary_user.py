"""Images for an ordinary user, who can own nothing but his own files, and make no device."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.leaks import memory_folder
from tests.sandbox.images.oci import LiveRegistry, MadeImage, digest_of, entry, hard_link, layer, link, system
from tests.sandbox.test_ordinary_user import packages_for_everybody, run_as_user

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; all tests are this then")
_PROGRAM = """
import os, sys, anyio
from pathlib import Path
from swe_sdk.errors import CreateFailed
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider

state, image, hostile, victim = sys.argv[1:]
Path(victim).write_text("precious")

async def main():
    provider = LocalProvider(Path(state))
    box = await provider.create(SandboxSpec(image=image, workdir="/tmp"))
    result = await box.exec("whoami; ls /data; cat /closed/file || chmod 700 /closed && cat /closed/file; ls /opaque")
    print(result.stdout.split(), result.stderr.strip())
    await box.exec("rm -r /data && mkdir -m 0 /shut")
    snapshot = await provider.snapshot(box)
    await box.close()
    fork = await provider.create(SandboxSpec(snapshot=snapshot.id, workdir="/tmp"))
    print((await fork.exec("ls -d /data /shut; id -u; stat -c %u%a /bin/busybox")).stdout.split())
    await fork.close()
    await provider.delete_snapshot(snapshot.id)
    try:
        await (await provider.create(SandboxSpec(image=hostile, workdir="/tmp"))).close()
    except CreateFailed as error:
        print(error)
    print(Path(victim).read_text())
    for record in provider.store.records.images():
        provider.store.delete_snapshot(record.id)
    await provider.aclose()
    print([str(path) for path in Path(state).glob("*/*") if path.parent.name not in ("locks", "skeletons")])

anyio.run(main)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Somewhere that the user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-tests-", dir=memory_folder()))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_an_ordinary_user_pulls_and_runs_images(registry: LiveRegistry, busybox: bytes, folder: Path) -> None:
    packages_for_everybody(folder / "packages", "requests")
    bottom = system(
        busybox, entry("data/"), entry("data/old", b""), entry("data/kept", b"", uid=0, gid=42), entry("opaque/"),
        entry("opaque/hidden", b""), entry("dev/"), entry("dev/sda", kind=tarfile.BLKTYPE, devmajor=8),
    )  # fmt: skip
    top = layer(
        entry("data/"), entry("data/.wh.old", b""), entry("closed/", mode=0), entry("closed/file", b"in\n", mode=0o400),
        entry("opaque/"), entry("opaque/.wh..wh..opq", b""), entry("opaque/seen", b""),
        hard_link("data/same", "closed/file"),
    )  # fmt: skip
    image = registry.push("user/ordinary", MadeImage([bottom, top]))
    victim = folder / "state/victim"
    through = layer(link("up", str(victim.parent)), entry("up/victim", b"evil"), hard_link("up/x", "up/victim"))
    hostile = registry.push("user/hostile", MadeImage([system(busybox), through]))
    assert run_as_user(folder, _PROGRAM, image, hostile, str(victim)).splitlines() == [
        "['agent', 'kept', 'same', 'in', 'seen'] cat: can't open '/closed/file': Permission denied",
        "['/shut', '1000', '1000755']",
        f"the layer {digest_of(through)} of an image cannot be unpacked:"
        " [Errno 2] No such file or directory: '/up/victim'",
        "precious",
        "[]",
    ]
