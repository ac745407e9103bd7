"""On a node where one is an ordinary user: no root, no range of ids, no daemon."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.leaks import memory_folder, processes_of, traces_of
from tests.sandbox.apptainer.images import apptainer, busybox_sif, debian_sif
from tests.sandbox.test_ordinary_user import SYSTEM_PYTHON, packages_for_everybody
from tests.shared import lacking

USER = "games"
"""An account that every system has and that nobody uses. Apptainer wants one that has a name."""
_PROGRAM = """
import anyio, os, sys
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings
from swe_sdk.testing.provider_suite import ProviderSettings, run_provider_suite

state, program, debian, foreign = sys.argv[1:]
assert os.geteuid() != 0

def make():
    return ApptainerProvider(state, options=ApptainerSettings(program=program, build_attempts=1, free_bytes=1 << 20))

async def main():
    provider = make()
    health = await provider.probe()
    assert health.works, health
    assert health.limits["pids"] == "enforced", health
    assert health.limits["memory_mib"] in ("enforced", "watched"), health
    box = await provider.create(SandboxSpec(image=foreign, workdir="/home/worker"))
    changed = await box.exec("cat file; echo mine > file; mkdir closed; chmod 000 closed; id -u; cat file")
    assert changed.stdout == "theirs\\n0\\nmine\\n", changed
    snapshot = await provider.snapshot(box)
    await box.close()
    fork = await provider.create(SandboxSpec(snapshot=snapshot.id, workdir="/home/worker"))
    assert (await fork.exec("cat file")).stdout == "mine\\n"
    await provider.delete_snapshot(snapshot.id)
    topics = ["isolation", "snapshots", "limits", "environment", "pause", "network", "lifecycle"]
    report = await run_provider_suite(
        provider, settings=ProviderSettings(spec=SandboxSpec(image=debian)), select=topics, fresh=make
    )
    await provider.aclose()
    print(report)
    assert report.ok

anyio.run(main)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Somewhere that the user may enter and write."""
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-tests-", dir=memory_folder()))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; all other tests are this one then")
def test_a_user_without_powers_can_do_all_of_it(folder: Path) -> None:
    version = subprocess.run(
        [SYSTEM_PYTHON, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=False
    ).stdout.split()
    if version != [str(part) for part in sys.version_info[:2]] or not shutil.which("setpriv"):
        lacking("it takes setpriv, and a Python for everybody of the version that runs this")
    user = pwd.getpwnam(USER)
    become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--inh-caps=-all", "--"]
    if subprocess.run([*become, "test", "-x", apptainer()]).returncode != 0:
        lacking(f"{USER} may not start {apptainer()}: install it where others may enter")
    packages_for_everybody(folder / "packages")
    for name in ("home", "state"):
        (folder / name).mkdir()
        os.chown(folder / name, user.pw_uid, user.pw_gid)
    images = (apptainer(), debian_sif(), busybox_sif())
    done = subprocess.run(
        [*become, SYSTEM_PYTHON, "-W", "error", "-c", _PROGRAM, folder / "state", *images],
        env={"PATH": os.defpath, "HOME": str(folder / "home"), "PYTHONPATH": str(folder / "packages")},
        cwd=folder, capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-3000:]
    assert list(processes_of(str(folder))) == []
    assert traces_of(folder / "state") == {}
