"""Files that no rule knew: packages above the tests, metadata in other letters, gutted helpers; a slow patch."""

from __future__ import annotations

import pytest

from swe_sdk.grading import box_git
from swe_sdk.grading.verify import grade
from tests.grading.calculator import HIDDEN, MAKE_PASS, RIGHT, SEEN, Files, pytest_task, submission
from tests.grading.tiny import make_task

pytestmark = [pytest.mark.anyio, pytest.mark.network]

EMPTY = "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"
LATE = """\
import sys
class F:
    def find_spec(self, name, path=None, target=None):
        if name != '_pytest.python': return None
        sys.meta_path.remove(self)
        import importlib.util
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        def run(module):
            load(module)
            module.Function.runtest = lambda self: None
        spec.loader.exec_module = run
        return spec
sys.meta_path.insert(0, F())
"""


def distribution(folder: str, metadata: str) -> Files:
    return {
        f"{folder}/{metadata}": "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
        f"{folder}/entry_points.txt": "[pytest11]\nevil = evil\n",
        "evil.py": MAKE_PASS,
    }


ATTACKS: dict[str, Files] = {
    "a package around the whole repository": {"__init__.py": EMPTY},
    "the same, and one of the tests": {"__init__.py": EMPTY, "tests/__init__.py": ""},
    "a distribution in capitals": distribution("evil-1.DIST-INFO", "METADATA"),
    "an egg in capitals": distribution("evil.Egg-Info", "PKG-INFO"),
    "what setuptools has every Python import": {"_distutils_hack/__init__.py": LATE + "def add_shim(): pass\n"},
}


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return pytest_task(tmp_path_factory.mktemp("calc"), env={"PYTHONPATH": "/testbed"})


@pytest.mark.parametrize("name", ATTACKS)
async def test_no_attack_resolves(provider, task, name):
    outcome = await grade(task, submission(ATTACKS[name]), provider=provider)
    assert outcome.status == "unresolved", outcome.evidence
    assert outcome.evidence["tampered_paths"]


async def test_a_package_around_the_tests(provider, tmp_path):
    files: Files = {"python/tests/__init__.py": "", "python/tests/test_calc.py": SEEN}
    names = tuple(f"python/tests/test_calc.py::{name}" for name in ("test_answer", "test_runs"))
    command = "python -m pytest -rA -p no:cacheprovider python/tests/test_calc.py"
    task = pytest_task(
        tmp_path, files=files, hidden={"python/tests/test_calc.py": HIDDEN},
        fail_to_pass=names[:1], pass_to_pass=names[1:], test_command=command,
    )  # fmt: skip
    assert (await grade(task, submission({"calc.py": RIGHT}), provider=provider)).resolved
    outcome = await grade(task, submission({"python/__init__.py": EMPTY}, files), provider=provider)
    assert outcome.evidence["failure"]["kind"] == "runner_files"


async def test_helpers_of_hidden_tests_that_are_named_like_tests(provider, tmp_path):
    base = "class Base:\n    def same(self, one, two):\n        assert one == two\n"
    files: Files = {"tests/__init__.py": "", "tests/test_base.py": base}
    hidden = (
        "import calc\nfrom tests.test_base import Base\n\n\nclass TestIt(Base):\n    def test_answer(self):\n"
        "        self.same(calc.answer(), 42)\n\n    def test_runs(self):\n        pass\n"
    )
    names = tuple(f"tests/test_calc.py::TestIt::{name}" for name in ("test_answer", "test_runs"))
    task = pytest_task(
        tmp_path, files=files, hidden={"tests/test_calc.py": hidden}, fail_to_pass=names[:1], pass_to_pass=names[1:]
    )
    assert (await grade(task, submission({"calc.py": RIGHT}), provider=provider)).resolved
    evil = submission({"tests/test_base.py": base.replace("assert one == two", "pass")}, files)
    assert (await grade(task, evil, provider=provider)).status == "unresolved"


def slow_patch(lines: int, context: int) -> bytes:
    """A place in a large file is looked for at each line, and each time is found to be another at the last moment.

    Forwards that file is the one that the patch makes, backwards (``--reverse``) the one that it deletes.
    """
    around, size = " a\n" * context, 2 * context + 1

    def body(sign: str) -> str:
        return f"{sign}a\n" * lines + f"{sign}b\n"

    def hunk(name: str, out: str, new: str) -> str:
        head = f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n"
        return f"{head}@@ -{context},{size} +{context},{size} @@\n{around}-{out}\n+{new}\n{around}"

    make = f"diff --git a/big b/big\nnew file mode 100644\n--- /dev/null\n+++ b/big\n@@ -0,0 +1,{lines + 1} @@\n"
    drop = f"diff --git a/old b/old\ndeleted file mode 100644\n--- a/old\n+++ /dev/null\n@@ -1,{lines + 1} +0,0 @@\n"
    return "".join((make, body("+"), hunk("big", "c", "d"), hunk("old", "d", "c"), drop, body("-"))).encode()


async def test_a_patch_that_takes_long_to_apply_earns_no_mask(provider, tmp_path, monkeypatch):
    """Here 2.5 MB against 2 s a rung and 9 s for all; with 120 s and 540 s, about 10 MB do it."""
    monkeypatch.setattr(box_git, "GIT_TIMEOUT_S", 2.0)
    task, patch = make_task(tmp_path / "repo"), slow_patch(300_000, 60_000)
    settings = {"tests_timeout_s": 30, "attempt_timeout_s": 40, "retries": 0}
    outcome = await grade(task, patch, provider=provider, **settings)
    assert outcome.status == "unresolved", outcome.mask
