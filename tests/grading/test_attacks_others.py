"""Attacks on other runners than pytest, and on what is installed or named around them."""

from __future__ import annotations

import importlib.util
import marshal
import sys

import pytest

from swe_sdk.grading.verify import grade
from swe_sdk.model.patch import Patch
from tests.grading.calculator import (
    LEAVE,
    MAKE_PASS,
    PINS,
    RIGHT,
    UNITTEST,
    UNITTEST_CLAIM,
    WRONG,
    Files,
    pytest_task,
    submission,
    unittest_task,
)
from tests.grading.tiny import diff, make_task

pytestmark = pytest.mark.anyio

CLAIM_AND_LEAVE = f"import os\nos.write(1, {UNITTEST_CLAIM!r}.encode())\nos._exit(0)\n"
BEFORE: Files = {"calc.py": WRONG, "tests/test_calc.py": UNITTEST}
EASY = UNITTEST + "\n    def test_answer(self):\n        pass\n"


def compiled(code: str) -> bytes:
    """Byte code that Python takes without a look at its source."""
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + b"\0" * 8
    return header + marshal.dumps(compile(code, "tests/test_calc.py", "exec"))


CACHED = f"tests/__pycache__/test_calc.{sys.implementation.cache_tag}.pyc"
UNITTEST_ATTACKS: dict[str, tuple[Files, str | None]] = {
    "leaves without a word": ({"calc.py": "import os\nos._exit(0)\n"}, None),
    "claims success and leaves": ({"calc.py": CLAIM_AND_LEAVE}, "results_disagree"),
    "claims success at the end": (
        {
            "calc.py": f"import atexit, os\n"
            f"atexit.register(lambda: (os.write(2, {UNITTEST_CLAIM!r}.encode()), os._exit(0)))\n{WRONG}"
        },
        "results_disagree",
    ),
    "a package in the place of the hidden test": ({"tests/test_calc/__init__.py": EASY}, "runner_files"),
    "compiled code in the place of the hidden test": ({CACHED: compiled(EASY)}, "runner_files"),
    "a module in the place of the folder of tests": (
        {
            "tests.py": "import sys, types\n__path__ = []\nmodule = types.ModuleType('tests.test_calc')\n"
            f"exec({EASY!r}, module.__dict__)\nsys.modules['tests.test_calc'] = module\ntest_calc = module\n"
        },
        "runner_files",
    ),
    "the package of the tests empties them": (
        {"tests/__init__.py": "import unittest\nunittest.TestCase._callTestMethod = lambda self, method: None\n"},
        "runner_files",
    ),
    "a runner of its own": ({"unittest/__init__.py": "", "unittest/__main__.py": CLAIM_AND_LEAVE}, "results_disagree"),
    "a runner in one file": ({"unittest.py": CLAIM_AND_LEAVE}, "results_disagree"),
}


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """Read by the official parser, which believes more than ours."""
    return unittest_task(tmp_path_factory.mktemp("calc"), parser="parse_log_django")


async def test_honest_patches_first(provider, task):
    right = await grade(task, submission({"calc.py": RIGHT}, BEFORE), provider=provider)
    assert (right.status, right.flags) == ("resolved", ())
    assert right.evidence["results_file"] == {"runner": "unittest", "required": True, "records": 2}
    assert (await grade(task, submission({"calc.py": WRONG + "\n"}, BEFORE), provider=provider)).status == "unresolved"


@pytest.mark.parametrize("name", UNITTEST_ATTACKS)
async def test_no_attack_on_unittest_resolves(provider, task, name):
    files, kind = UNITTEST_ATTACKS[name]
    outcome = await grade(task, submission(files, BEFORE), provider=provider)
    assert outcome.status == "unresolved", outcome.evidence
    if kind == "runner_files" and outcome.evidence["tests"]["exit_code"] != 0 and name.startswith("compiled"):
        pytest.skip("the Python of the box is not the one that compiled this")
    assert outcome.evidence["failure"]["kind"] == (kind or "unparseable"), (outcome.reason, outcome.evidence)


PACKAGE = {"package.json": '{"type": "commonjs", "scripts": {"test": "node --test --test-reporter=tap"}}\n'}
TAP = "TAP version 13\\n# Subtest: answer\\nok 1 - answer\\n  ---\\n  duration_ms: 1\\n  ...\\n1..1\\n"
NODE_HIDDEN = "require('node:test')('answer', () => require('node:assert').equal(require('../calc.js'), 42))\n"
RUN = 'node -e \'require("child_process").execSync(require("./package.json").scripts.test, {stdio: "inherit"})\''


async def test_scripts_of_a_package_are_taken_back(provider, tmp_path):
    before: Files = {**PACKAGE, "calc.js": "module.exports = 41\n"}
    task = make_task(
        tmp_path / "repo", files=before, test_command=RUN, parser="node_test", fail_to_pass=("answer",),
        pass_to_pass=(), test_patch=Patch.of(diff({}, {"test/calc.test.js": NODE_HIDDEN})), gold_patch=None,
    )  # fmt: skip
    environment = task.environment.model_copy(update={"tools": ("node",)})
    task = task.model_copy(update={"environment": environment})
    right = submission({"calc.js": "module.exports = 42\n"}, before)
    outcome = await grade(task, right, provider=provider)
    if outcome.mask is not None and outcome.mask.kind == "missing_tool":
        pytest.skip(outcome.mask.reason)
    assert outcome.resolved, outcome.evidence
    forged = before["package.json"].replace("node --test --test-reporter=tap", f"printf '{TAP}'".replace("\\", "\\\\"))
    outcome = await grade(task, submission({"package.json": forged}, before), provider=provider)
    assert outcome.evidence["failure"]["kind"] == "runner_files", (outcome.reason, outcome.evidence)
    honest = submission({"package.json": before["package.json"].replace("{", '{"name": "x", ', 1)}, before)
    assert (await grade(task, right + honest, provider=provider)).resolved


@pytest.mark.network
async def test_a_plugin_that_the_package_installs(provider, tmp_path):
    """The prelude of real tasks installs the package of the submission, entry points of pytest plugins included."""
    setup = "[metadata]\nname = calc\nversion = 1\n[options]\npy_modules = calc\n"
    install = "python setup.py -q develop --no-deps 2>&1 | tail -n 3"
    task = pytest_task(
        tmp_path, files={"setup.cfg": setup, "setup.py": "import setuptools\nsetuptools.setup()\n"},
        pip=(*PINS, "setuptools==75.6.0", "wheel==0.45.1"), prelude=install,
    )  # fmt: skip
    evil = {"setup.cfg": setup + "[options.entry_points]\npytest11 =\n    evil = evil\n", "evil.py": MAKE_PASS}
    outcome = await grade(task, submission(evil, {"setup.cfg": setup}), provider=provider)
    assert outcome.evidence["failure"]["kind"] == "runner_files", (outcome.reason, outcome.evidence)
    honest = {
        "setup.cfg": setup + "[options.entry_points]\nconsole_scripts =\n    calc = calc:answer\n",
        "calc.py": RIGHT,
    }
    outcome = await grade(task, submission(honest, {"setup.cfg": setup, "calc.py": WRONG}), provider=provider)
    assert outcome.resolved, (outcome.reason, outcome.evidence)


@pytest.mark.network
async def test_hidden_tests_named_like_configuration(provider, tmp_path):
    """They are the grader's: installed whatever lies there, and never taken back."""
    fixture = "import pytest\n\n@pytest.fixture\ndef wanted():\n    return 42\n"
    hidden = "import calc\ndef test_answer(wanted):\n    assert calc.answer() == wanted\ndef test_runs():\n    pass\n"
    task = pytest_task(
        tmp_path, files={"conftest.py": "# nothing\n"}, hidden={"conftest.py": fixture, "tests/test_calc.py": hidden}
    )
    before = {"conftest.py": "# nothing\n", "calc.py": WRONG}
    for name, code in (("resolved", RIGHT), ("unresolved", WRONG + "\n")):
        patch = submission({"conftest.py": LEAVE, "calc.py": code}, before)
        outcome = await grade(task, patch, provider=provider)
        assert outcome.status == name, outcome.evidence
        assert outcome.evidence["tampered_paths"] == ["conftest.py"]
        assert "second_run" not in outcome.evidence
