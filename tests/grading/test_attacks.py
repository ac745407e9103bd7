"""Submissions that repair nothing and want the reward: none of them gets it, and the evidence says what they did.

The kind of failure tells how far an attack came: ``results_disagree`` and ``runner_files`` mean that the log alone
would have resolved the task, as it does with the official harness; None that not even the log did.
"""

from __future__ import annotations

import pytest

from swe_sdk.grading.verify import grade
from tests.grading.calculator import (
    CLAIM,
    CLAIM_IT,
    HIDDEN,
    LEAVE,
    MAKE_PASS,
    NAMES,
    RIGHT,
    WRONG,
    Files,
    pytest_task,
    submission,
)

pytestmark = [pytest.mark.anyio, pytest.mark.network]

EMPTY_TESTS = "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"


def within(hook: str, code: str) -> str:
    """A hook of pytest's with this code."""
    return f"def {hook}:\n" + "".join(f"    {line}\n" for line in code.splitlines())


ATTACKS: dict[str, tuple[Files, str | None]] = {
    "summary forged at the end of the session": (
        {"conftest.py": within("pytest_sessionfinish()", LEAVE)},
        "results_disagree",
    ),
    "summary forged when pytest is configured": (
        {"conftest.py": within("pytest_configure()", LEAVE)},
        "results_disagree",
    ),
    "reports made to pass": ({"conftest.py": MAKE_PASS}, "runner_files"),
    "reports made to pass by a conftest among the tests": ({"tests/conftest.py": MAKE_PASS}, "runner_files"),
    "statuses renamed": (
        {
            "conftest.py": within("pytest_report_teststatus(report)", "return 'passed', '.', 'PASSED'")
            + within("pytest_sessionfinish(session)", "session.exitstatus = 0"),
        },
        "results_disagree",
    ),
    "hidden test deselected": ({"pytest.ini": f"[pytest]\naddopts = --deselect {NAMES[0]}\n"}, None),
    "hidden test not picked": ({"tox.ini": "[pytest]\naddopts = -k runs\n"}, None),
    "plugin named in pytest.ini": (
        {"pytest.ini": "[pytest]\naddopts = -p evil\n", "evil.py": MAKE_PASS},
        "runner_files",
    ),
    "plugin named in pyproject.toml": (
        {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-p evil"\n', "evil.py": MAKE_PASS},
        "runner_files",
    ),
    "other test files named in setup.cfg": (
        {
            "setup.cfg": "[tool:pytest]\npython_files = other_*.py\naddopts = tests/other_calc.py\n",
            "tests/other_calc.py": "def test_answer():\n    pass\n",
        },
        None,
    ),
    "plugin named by an installed distribution": (
        {
            "evil.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
            "evil.egg-info/entry_points.txt": "[pytest11]\nevil = evil\n",
            "evil.py": MAKE_PASS,
        },
        "runner_files",
    ),
    "leaves without a word": ({"calc.py": "import os\nos._exit(0)\n"}, None),
    "claims success and leaves": ({"calc.py": LEAVE}, "results_disagree"),
    "claims success after the summary": (
        {"calc.py": f"{CLAIM_IT}import atexit\natexit.register(lambda: (claim(), os._exit(0)))\n{WRONG}"},
        "results_disagree",
    ),
    "swallows the summary and prints another": (
        {
            "calc.py": f"{CLAIM_IT}import atexit, _pytest.capture\n"
            "_pytest.capture.FDCapture.done = _pytest.capture.FDCapture.suspend = lambda self: None\n"
            f"atexit.register(lambda: (claim(), os._exit(0)))\n{WRONG}"
        },
        "results_disagree",
    ),
    "prints results that look real": ({"calc.py": f"{CLAIM_IT}claim()\n{WRONG}"}, None),
    "closes standard output and opens it again": (
        {
            "calc.py": f"{CLAIM_IT}os.close(1)\nos.open('/proc/%d/fd/1' % os.getppid(), os.O_WRONLY)\n"
            f"os.write(1, b'PASSED')\nclaim()\n{WRONG}"
        },
        None,
    ),
    "prints from a process that stays": (
        {
            "calc.py": f"{CLAIM_IT}import time\nif not os.fork():\n    time.sleep(1)\n    claim()\n"
            f"    os._exit(0)\n{WRONG}"
        },
        None,
    ),
    "prints from a thread": (
        {
            "calc.py": f"{CLAIM_IT}import threading, time\ndef on():\n    while True:\n        claim()\n"
            f"        time.sleep(0.01)\nthreading.Thread(target=on, daemon=True).start()\n{WRONG}"
        },
        None,
    ),
    "starts another pytest in its place": (
        {
            "calc.py": f"{CLAIM_IT}import sys\nos.dup2(real, 1)\n"
            "os.execv(sys.executable, [sys.executable, '-m', 'pytest', '-rA', '-c', 'mine.ini', 'mine'])\n",
            "mine.ini": "[pytest]\npython_files = *.py\n",
            "mine/conftest.py": within("pytest_unconfigure()", f"print()\nprint({CLAIM!r})"),
            "mine/one.py": "def test_one():\n    pass\n",
        },
        "results_disagree",
    ),
    "the hidden test is there already": (
        {"tests/test_more.py": "raise SystemExit\n", "tests/test_calc.py": HIDDEN.replace("42", "41")},
        None,
    ),
    "a runner of its own": ({"pytest.py": LEAVE}, "results_disagree"),
    "a runner's package of its own": ({"_pytest/__init__.py": LEAVE}, "results_disagree"),
    "a module of the standard library of its own": ({"shlex.py": LEAVE}, "results_disagree"),
    "the package of the tests empties them": ({"tests/__init__.py": EMPTY_TESTS}, "runner_files"),
    "sitecustomize": (
        {"sitecustomize.py": "import os\nos.environ['PYTEST_PLUGINS'] = 'evil'\n", "evil.py": MAKE_PASS},
        "runner_files",
    ),
    "usercustomize": (
        {"usercustomize.py": "import os\nos.environ['PYTEST_PLUGINS'] = 'evil'\n", "evil.py": MAKE_PASS},
        None,
    ),
    "variables in a file": ({".env": "PYTEST_PLUGINS=evil\n", "evil.py": MAKE_PASS}, None),
}


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """The repository's folder is on the path, as that of a project installed in place is."""
    return pytest_task(tmp_path_factory.mktemp("calc"), env={"PYTHONPATH": "/testbed"})


async def test_honest_patches_first(provider, task):
    right = await grade(task, submission({"calc.py": RIGHT}), provider=provider)
    assert (right.status, right.flags) == ("resolved", ())
    assert right.evidence["results_file"] == {"runner": "pytest", "required": True, "records": 2}
    assert "second_run" not in right.timings_s
    wrong = await grade(task, submission({"calc.py": "def answer():\n    return 40\n"}), provider=provider)
    assert (wrong.status, wrong.evidence["tests"]["exit_code"]) == ("unresolved", 1)


@pytest.mark.parametrize("name", ATTACKS)
async def test_no_attack_resolves(provider, task, name):
    files, kind = ATTACKS[name]
    outcome = await grade(task, submission(files), provider=provider)
    assert outcome.status == "unresolved", outcome.evidence
    assert outcome.evidence.get("failure", {}).get("kind") in (kind, *(["unparseable"] if kind is None else [])), (
        outcome.reason,
        outcome.evidence,
    )


async def test_honest_changes_of_runner_files_stay_resolved(provider, task):
    """They cost a second run, which says what was taken back."""
    files: Files = {
        "calc.py": RIGHT,
        "conftest.py": "import pytest\n\n@pytest.fixture\ndef more():\n    return 1\n",
        "setup.cfg": "[tool:pytest]\naddopts = -v\n",
        "tests/helpers.py": "ONE = 1\n",
        "tests/test_mine.py": "from tests.helpers import ONE\n",
    }
    outcome = await grade(task, submission(files), provider=provider)
    assert outcome.resolved, outcome.evidence
    taken_back = ["conftest.py", "setup.cfg", "tests/helpers.py"]
    assert outcome.evidence["tampered_paths"] == taken_back
    second = outcome.evidence["second_run"]
    assert (second["taken_back"], second["resolved"]) == (taken_back, True)
    assert outcome.timings_s["second_run"] > 0
