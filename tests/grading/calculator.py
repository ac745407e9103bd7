"""A small Python project whose hidden tests run under pytest or unittest, to be attacked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from swe_sdk.model.environment import DirectorySource, SourceEnvironment
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import GradingSpec, Task
from tests.grading.tiny import diff, write_files

PINS = ("pytest==8.3.4", "pluggy==1.5.0", "iniconfig==2.0.0", "packaging==24.2")
WRONG = "def answer():\n    return 41\n"
RIGHT = "def answer():\n    return 42\n"
SEEN = "import calc\n\n\ndef test_runs():\n    assert calc.answer() > 0\n"
HIDDEN = SEEN + "\n\ndef test_answer():\n    assert calc.answer() == 42\n"
FILES = {"calc.py": WRONG, "tests/test_calc.py": SEEN}
NAMES = ("tests/test_calc.py::test_answer", "tests/test_calc.py::test_runs")
CLAIM = "".join(f"PASSED {name}\n" for name in NAMES)

UNITTEST = """\
import unittest
import calc


class T(unittest.TestCase):
    def test_runs(self):
        self.assertGreater(calc.answer(), 0)
"""
UNITTEST_HIDDEN = UNITTEST + "\n    def test_answer(self):\n        self.assertEqual(calc.answer(), 42)\n"
UNITTEST_NAMES = tuple(f"{name} (tests.test_calc.T.{name})" for name in ("test_answer", "test_runs"))
UNITTEST_CLAIM = "".join(f"{name} ... ok\n" for name in UNITTEST_NAMES)

MAKE_PASS = """\
import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
CLAIM_IT = f"""\
import os
real = os.open("/proc/%d/fd/1" % os.getppid(), os.O_WRONLY)  # whatever pytest has made of ours
claim = lambda: os.write(real, {chr(10) + CLAIM!r}.encode())
"""
LEAVE = CLAIM_IT + "claim()\nos._exit(0)\n"
"""Building bricks of attacks on pytest: a hook, a function that claims success, and what ends the process with it."""

Files = dict[str, str | bytes | None]


def pytest_task(root: Path, *, files: Files | None = None, hidden: Files | None = None, **changes: Any) -> Task:
    """Hidden pytest tests; ``changes`` are fields of the environment or of the grading half."""
    before: Files = {**FILES, **(files or {})}
    after: Files = {
        "tests/test_calc.py": HIDDEN,
        "tests/test_more.py": "def test_more():\n    pass\n",
        **(hidden or {}),
    }
    spec = {"test_command": "python -m pytest -rA -p no:cacheprovider tests/test_calc.py", "parser": "pytest"}
    names = {"fail_to_pass": NAMES[:1], "pass_to_pass": NAMES[1:]}
    return _task(root, before, after, {"python": ">=3.11", "pip": PINS, **spec, **names, **changes})


def unittest_task(root: Path, *, hidden: str = UNITTEST_HIDDEN, **changes: Any) -> Task:
    """The same for the runner of the standard library, which needs no environment."""
    before: Files = {"calc.py": WRONG, "tests/test_calc.py": UNITTEST}
    spec = {"test_command": "python3 -m unittest -v tests.test_calc", "parser": "unittest"}
    names = {"fail_to_pass": UNITTEST_NAMES[:1], "pass_to_pass": UNITTEST_NAMES[1:]}
    return _task(root, before, {"tests/test_calc.py": hidden}, {**spec, **names, **changes})


def _task(root: Path, before: Files, after: Files, fields: dict[str, Any]) -> Task:
    write_files(root, before)
    environment = {name: fields.pop(name) for name in SourceEnvironment.model_fields if name in fields}
    hidden = Patch.of(diff({name: before.get(name) for name in after if name in before}, after))
    return Task(
        instance_id="calc__answer-1",
        family="swe-bench",
        repo="calc/answer",
        environment=SourceEnvironment(source=DirectorySource(path=str(root)), **environment),
        grading=GradingSpec(**{"test_patch": hidden, "gold_patch": Patch.of(submission({"calc.py": RIGHT})), **fields}),
    )


def submission(files: Files, before: Files | None = None) -> bytes:
    """A submission that writes ``files``; those of ``before`` (by default the task's own) are there in that state."""
    known = FILES if before is None else before
    return diff({name: known[name] for name in files if name in known}, files)
