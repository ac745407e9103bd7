"""Everything works for an ordinary user too, who has one id, no password entry and no powers."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.leaks import memory_folder, processes_of
from tests.shared import lacking

USER = 54_321
"""An id that no account has."""
SYSTEM_PYTHON = "/usr/bin/python3"
PROGRAM = """
import os, sys
import swe_sdk as swe
from swe_sdk.sandbox.providers.local.provider import LocalProvider

assert os.getuid() == os.geteuid() == 54321
state, project = sys.argv[1:]
provider = LocalProvider(state)
environment = swe.SourceEnvironment(source=swe.DirectorySource(path=project), install=("echo built > built.txt",))
said = []
with swe.Sandbox(environment, provider=provider, on_progress=said.append) as box:
    assert box.exec("id -u; id -un; cat built.txt").stdout == "1000\\nagent\\nbuilt\\n"
    assert box.exec("touch /etc/x /usr/x").exit_code == 1, "neither system files nor the host's are its to change"
    assert "Permission denied" in box.exec("cat /proc/1/environ").stderr
    assert box.exec("ls /root /home").stdout.split() == ["/home:", "agent", "/root:"]
    assert "unreachable" in box.exec("exec 3<>/dev/tcp/10.0.0.1/80").stderr
    box.exec("setsid sleep 600 > /dev/null 2>&1 &")
    timed = box.exec("setsid sleep 600 & trap '' TERM; while :; do :; done", timeout_s=0.3)
    assert timed.status == "timeout", timed
    box.pause()
    box.resume()
    assert box.exec("kill -9 -1; true").status == "exited"
    box.write_bytes("bin/tool", b"#!/bin/sh\\necho tool\\n", mode=0o755)
    assert box.exec("./bin/tool; mkdir -m 0 closed; touch readable; chmod 000 readable").stdout == "tool\\n"
    with box.fork() as twin:
        assert twin.exec("./bin/tool && rm -rf bin && ls").ok
    box.exec("chmod 644 readable").check()
    assert [file.new for file in box.diff().files] == [b"bin/tool", b"readable"]
    try:
        box.exec("true", user="root")
    except swe.errors.CapabilityMissing as error:
        assert error.remedy
    else:
        raise AssertionError("there is no root user in it")
    port, listener = box.listen()
    listener.close()
assert said
again = []
with swe.Sandbox(environment, provider=provider, on_progress=again.append) as box:
    assert not box.diff()
assert again == []
print(provider.store.owner)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Somewhere that the user may enter and write."""
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-tests-", dir=memory_folder()))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def copy_distribution(distribution: importlib.metadata.Distribution, target: Path) -> list[str]:
    """Copy an installed package; the names of those that it needs."""
    for file in distribution.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            destination = target / file
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(distribution.locate_file(file)), destination)
    needed = [Requirement(text) for text in distribution.requires or ()]
    return [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]


def packages_for_everybody(target: Path, *more: str) -> None:
    """The package and what it needs, outside of a home that others may not enter."""
    target.mkdir()
    wanted, seen = ["pydantic", "anyio", *more], set[str]()
    while wanted:
        name = wanted.pop()
        if name not in seen:
            seen.add(name)
            wanted += copy_distribution(importlib.metadata.distribution(name), target)
    package = importlib.util.find_spec("swe_sdk")
    assert package is not None
    assert package.origin is not None
    shutil.copytree(Path(package.origin).parent, target / "swe_sdk", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["chmod", "-R", "a+rX", target], check=True)


def run_as_user(folder: Path, program: str, *arguments: str) -> str:
    """What ``program`` prints, run by an ordinary user below ``folder``; its first argument is a state directory."""
    version = subprocess.run(
        [SYSTEM_PYTHON, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=False
    ).stdout.split()
    if version != [str(part) for part in sys.version_info[:2]] or not shutil.which("setpriv"):
        lacking("it takes setpriv, and a Python for everybody of the version that runs this")
    for path in (folder / "home", folder / "state"):
        path.mkdir()
        os.chown(path, USER, USER)
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all", "--",
         SYSTEM_PYTHON, "-W", "error", folder / "program.py", folder / "state", *arguments],
        env={"PATH": os.defpath, "HOME": str(folder / "home"), "PYTHONPATH": str(folder / "packages")},
        cwd=folder, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    if "ProviderUnavailable" in done.stderr and os.environ.get("CI") != "true":
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; all other tests are this one then")
def test_a_user_without_powers_can_do_all_of_it(folder: Path) -> None:
    packages_for_everybody(folder / "packages")
    (folder / "project").mkdir()
    (folder / "project/code.py").write_text("x = 1\n")
    owner = run_as_user(folder, PROGRAM, str(folder / "project"))
    assert owner.startswith("owner-")
    assert list(processes_of(owner)) == []
    left = {str(path.relative_to(folder / "state")) for path in (folder / "state").glob("*/*")}
    assert not [path for path in left if path.split("/")[0] in ("boxes", "owners", "trash")]
