"""The second account of a run: whose runs leave one, how it is read, and that honest runs do not notice it."""

from __future__ import annotations

import ast
import difflib
import re
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import swe_sdk as swe
from swe_sdk.errors import MissingTool
from swe_sdk.grading import attempt
from swe_sdk.grading.evaluate import run_tests
from swe_sdk.grading.run_log import RunLog
from swe_sdk.grading.verify import grade
from swe_sdk.grading.witness import Record, Watch, Witness, as_log, install, read, watch_of
from swe_sdk.recipes.parsers import parse_log
from tests.grading.calculator import PINS, RIGHT, pytest_task, submission, unittest_task
from tests.shared import shared_rows

anyio_mark = pytest.mark.anyio

COMMANDS = {
    "pytest -rA tests/test_a.py": Watch("pytest", True),
    "/opt/venv/bin/py.test x": Watch("pytest", True),
    "python -X dev -m pytest -rA": Watch("pytest", True),
    "python manage.py migrate && coverage run -m pytest": Watch("pytest", True),
    "python -m unittest -v tests.test_a": Watch("unittest", True),
    "./tests/runtests.py --verbosity 2 --parallel 1 apps.tests": Watch("unittest", True),
    "python manage.py test": Watch("unittest", True),
    "PYTHONWARNINGS='ignore' bin/test -C --verbose sympy/a.py": Watch("sympy", True),
    "python -c 'import sympy; sympy.test(\"x\")' x": Watch("sympy", True),
    "PYTHONPATH=src pytest": Watch("pytest", False),
    "python -I -m pytest": Watch("pytest", False),
    "cd src; pytest; echo done": Watch("pytest", True),
    "(pytest&&true)|tee log # a comment": Watch("pytest", True),
    "sudo pytest": Watch("pytest", False),
    "env -i PATH=/usr/bin pytest": Watch("pytest", False),
    "env A=1 pytest": Watch("pytest", True),
    "tox --current-env -epy39 -v -- tests/test_a.py": Watch("pytest", False, through_tox=True),
    "python -m tox": Watch("pytest", False, through_tox=True),
    "pytest 'unbalanced": Watch("pytest", True),
    "node --test": None,
    "sh tests/check.sh": None,
    "./node_modules/.bin/jest --verbose": None,
    "npm install ; npm run test": None,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_tells_the_runner(command: str) -> None:
    assert watch_of(command) == COMMANDS[command]


PYTEST_RUN = [
    Record("PASSED", "t.py::a"),
    Record("FAILED", "t.py::p[x y]"),
    Record("PASSED", "t.py::p[x z]"),
    Record("SKIPPED", "t.py::s"),
    Record("XFAIL", "t.py::x"),
    Record("XPASS", "t.py::xp"),
    Record("PASSED", "t.py::torn"),
    Record("ERROR", "t.py::torn"),
]


def test_records_are_read_with_the_quirks_of_their_parser() -> None:
    """An id that the parser cuts in the log must be cut in the records as well."""
    plain = parse_log("pytest", as_log("pytest", PYTEST_RUN))
    expected = {"t.py::a": "PASSED", "t.py::p[x": "FAILED", "t.py::s": "SKIPPED", "t.py::x": "XFAIL"}
    assert plain == {**expected, "t.py::torn": "ERROR"}
    spaces = parse_log("pytest_v2", as_log("pytest", PYTEST_RUN))
    assert (spaces["t.py::p[x y]"], spaces["t.py::p[x z]"]) == ("FAILED", "PASSED")
    run = [Record("PASSED", "test_a (m.T)\nAbout it."), Record("FAILED", "test_b (m.T)"), Record("SKIPPED", "c (m.T)")]
    assert parse_log("django", as_log("unittest", run)) == {
        "About it.": "PASSED",
        "test_b (m.T)": "FAILED",
        "c (m.T)": "SKIPPED",
    }
    run = [Record("PASSED", "test_a"), Record("FAILED", "test_b"), Record("ERROR", "test_c"), Record("XFAIL", "test_d")]
    assert parse_log("sympy", as_log("sympy", run)) == {"test_a": "PASSED", "test_b": "FAILED", "test_c": "ERROR"}


def test_scraps_of_output_in_official_lists_are_no_tests() -> None:
    assert not Watch("pytest", True).can_record("[100%]")
    assert Watch("pytest", True).can_record("a.py::t[::]")
    assert Watch("unittest", True).can_record("A docstring.")


def test_the_recorder_is_understood_by_old_pythons() -> None:
    source = files("swe_sdk.grading.boxside").joinpath("witness.py").read_text()
    ast.parse(source, feature_version=(3, 5))
    assert not re.search(r"\bf[\"']|:=|\*\*\w+=|->.*\|(?!.*\")", source), "newer syntax that feature_version lets pass"


GOOD = b"PASSED 612e70793a3a74\n"


@anyio_mark
@pytest.mark.parametrize(
    ("make", "found"),
    [
        ("cat > records", [Record("PASSED", "a.py::t")]),
        ("cat > records; printf 'PASSED 61' >> records", [Record("PASSED", "a.py::t")]),
        ("cat > records; printf 'PASSED zz\\n\\377 61\\n\\n' >> records", [Record("PASSED", "a.py::t")]),
        ("rm records", []),
        ("rm records; mkdir records", []),
        ("rm records; mkfifo records", []),
        ("rm records; ln -s /dev/zero records", []),
        ("cat > /tmp/x; rm records; ln -s /tmp/x records", []),
        ("head -c 200000000 /dev/zero > records", []),
    ],
)
async def test_whatever_lies_in_the_place_of_the_records(git, make: str, found: list[Record]) -> None:
    folder = f"{git.private}/witness"
    await git.box.exec(["sh", "-c", f"mkdir -p {folder}; cd {folder}; : > records; {make}"], stdin=GOOD)
    assert await read(git, Witness(Watch("pytest", True), folder)) == found


LOOK = """\
import os, subprocess, sys
print(sorted(os.environ), os.environ.get("PYTHONPATH"), sys.path, sorted(sys.path_importer_cache), sys.flags)
print(sorted(set(sys.modules) - {"sitecustomize"}))
print([getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path])
if len(sys.argv) == 1:
    subprocess.run([sys.executable, __file__, "child"])
"""
WAITING = "['Finder', "


@anyio_mark
@pytest.mark.parametrize("runner", ["pytest", "unittest"])
@pytest.mark.parametrize("path", [None, "", "/a", "/a::/b", ":/tmp/own", "/tmp/own:"])
async def test_programs_and_their_children_see_nothing_of_it(
    git, tmp_path: Path, runner: str, path: str | None
) -> None:
    """The variables, the path and the modules are those that there would be without it.

    The one trace is in the process that the shell starts: somebody waits there for the runner to be imported.
    """
    await git.box.write("/tmp/own/sitecustomize.py", b"print('their own')\n")
    await git.box.write("/tmp/look.py", LOOK.encode())
    witness = await install(git, f"python3 -m {runner}")
    assert witness is not None
    seen = []
    for name, recorder in (("without", None), ("with", witness)):
        log = RunLog(tmp_path / name)
        env = {} if path is None else {"PYTHONPATH": path}
        await run_tests(git, "python3 /tmp/look.py", env, 60, log, recorder)
        log.close()
        seen.append(log.section())
    assert seen[1].count(WAITING) == 1
    assert seen[1].replace(WAITING, "[") == seen[0]
    assert seen[0].count("their own") == (2 if path and "own" in path else 0)
    assert await read(git, witness) == []


@anyio_mark
@pytest.mark.network
async def test_only_the_outermost_run_is_recorded(provider, tmp_path: Path) -> None:
    """Tests of test tools run tests of their own, in their process or in another."""
    inner = (
        "import pathlib, subprocess, sys, unittest\nimport pytest\n"
        "def test_answer(tmp_path):\n    (tmp_path / 'test_in.py').write_text('def test_in(): assert 0')\n"
        "    assert pytest.main([str(tmp_path), '-q', '-p', 'no:cacheprovider']) == 1\n"
        "    assert subprocess.run([sys.executable, '-m', 'pytest', str(tmp_path)]).returncode == 1\n"
        "def test_runs():\n    pass\n"
    )
    task = pytest_task(tmp_path, hidden={"tests/test_calc.py": inner})
    outcome = await grade(task, submission({"calc.py": RIGHT + "\n"}), provider=provider)
    assert outcome.resolved, outcome.evidence
    assert outcome.evidence["results_file"]["records"] == 2
    inner = (
        "import io, unittest\nclass T(unittest.TestCase):\n    def test_answer(self):\n"
        "        class In(unittest.TestCase):\n            def test_in(self):\n                self.fail()\n"
        "        suite = unittest.defaultTestLoader.loadTestsFromTestCase(In)\n"
        "        self.assertFalse(unittest.TextTestRunner(io.StringIO()).run(suite).wasSuccessful())\n"
        "    def test_runs(self):\n        with self.subTest(i=1):\n            pass\n"
    )
    task = unittest_task(tmp_path / "unittest", hidden=inner)
    outcome = await grade(task, submission({"calc.py": RIGHT + "\n"}), provider=provider)
    assert outcome.resolved, outcome.evidence
    assert outcome.evidence["results_file"]["records"] == 2


@anyio_mark
@pytest.mark.network
async def test_results_of_workers_come_from_the_process_that_collects_them(provider, tmp_path: Path) -> None:
    pip = (*PINS, "pytest-xdist==3.6.1", "execnet==2.1.1", "pytest-rerunfailures==15.0")
    hidden = (
        "import calc, pathlib\ndef test_answer(request):\n    mark = pathlib.Path('/tmp/mark')\n"
        "    again, _ = mark.exists(), mark.touch()\n    assert again and calc.answer() == 42\n"
        "def test_runs():\n    pass\n"
    )
    command = "python -m pytest -rA -n 2 --reruns 1 -p no:cacheprovider tests/test_calc.py"
    task = pytest_task(tmp_path, hidden={"tests/test_calc.py": hidden}, pip=pip, test_command=command)
    outcome = await grade(task, submission({"calc.py": RIGHT + "\n"}), provider=provider)
    assert outcome.resolved, outcome.evidence
    assert outcome.evidence["results_file"]["records"] == 2
    assert not (await grade(task, submission({"calc.py": "def answer():\n    return 1\n"}), provider=provider)).resolved


@anyio_mark
@pytest.mark.network
async def test_the_place_where_pytest_starts_matters_not(provider, tmp_path: Path) -> None:
    """It prints ids from where it was started, and keeps them from its root folder."""
    names = {"fail_to_pass": ("test_calc.py::test_answer",), "pass_to_pass": ("test_calc.py::test_runs",)}
    task = pytest_task(
        tmp_path, files={"pytest.ini": "[pytest]\n"}, test_command="cd tests\npython -m pytest -rA test_calc.py",
        env={"PYTHONPATH": "/testbed"}, **names,
    )  # fmt: skip
    assert (await grade(task, submission({"calc.py": RIGHT + "\n"}), provider=provider)).resolved


@anyio_mark
@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("tool", ["tox==3.28.0", "tox==4.23.2"])
async def test_tox_lets_the_recorder_through(provider, tmp_path: Path, tool: str) -> None:
    """It starts pytest with few of its own variables. Without the recorder the run would still count."""
    if sys.base_prefix == "/usr":
        pytest.skip("tox-current-env takes this Python past the virtual environment")
    pip = (
        tool, "pytest==8.3.4", "pluggy==1.5.0", "iniconfig==2.0.0", "packaging==24.2", "virtualenv==20.27.1",
        "filelock==3.16.1", "platformdirs==4.3.6", "distlib==0.3.9", "six==1.16.0", "py==1.11.0",
        "pyproject-api==1.8.0", "cachetools==5.5.0", "chardet==5.2.0", "colorama==0.4.6",
        "tox-current-env==0.0.11" if tool.startswith("tox==3") else "tox-current-env==0.0.12",
    )  # fmt: skip
    ini = "[tox]\nskipsdist = true\nno_package = true\n[testenv]\ncommands = python -m pytest -rA {posargs}\n"
    task = pytest_task(
        tmp_path, files={"tox.ini": ini}, pip=pip,
        test_command="tox --current-env -epy311 -v -- tests/test_calc.py", env={"PYTHONPATH": ""},
    )  # fmt: skip
    outcome = await grade(task, submission({"calc.py": RIGHT + "\n"}), provider=provider)
    assert outcome.resolved, outcome.evidence
    assert outcome.evidence["results_file"] == {"runner": "pytest", "required": False, "records": 2}


SHORTER = {
    "pytest-dev__pytest-5262": "pytest -rA testing/test_capture.py -k TestCaptureManager",
    "pytest-dev__pytest-7432": "pytest -rA testing/test_skipping.py -k TestXFail",
    "pytest-dev__pytest-10051": "pytest -rA testing/logging/test_fixture.py",
    "pallets__flask-5014": "pytest -rA tests/test_blueprints.py",
    "django__django-11119": "./tests/runtests.py -v 2 --settings=test_sqlite --parallel 1 template_tests.test_engine",
}
"""Some real suites, pytest's own of three generations among them."""


@pytest.mark.shared
@pytest.mark.network
@pytest.mark.slow
@pytest.mark.timeout(600)
@anyio_mark
@pytest.mark.parametrize("row", [r for r in shared_rows("swebench_sdist/tasks.jsonl") if r["instance_id"] in SHORTER],
                         ids=lambda row: row["instance_id"])  # fmt: skip
async def test_honest_runs_print_the_same_with_it_and_without(row, results, monkeypatch) -> None:
    (task,) = swe.load_tasks([{**row, "test_command": SHORTER[row["instance_id"]]}])
    gold = task.grading.gold_patch
    assert gold is not None
    outcomes = [await grade(task, gold, provider="local", results=results, share=False)]
    if outcomes[0].mask is not None and outcomes[0].mask.kind == "missing_tool":
        pytest.skip(f"{MissingTool.__name__}: {outcomes[0].mask.reason}")

    async def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(attempt, "install", nothing)
    outcomes.append(await grade(task, gold, provider="local", results=results, share=False))
    assert outcomes[0].evidence["results_file"]["records"] > 0
    assert "results_file" not in outcomes[1].evidence
    assert outcomes[0].tests == outcomes[1].tests
    logs = [_without_times(Path(outcome.artifacts["log"]).read_text()) for outcome in outcomes]
    assert logs[0] == logs[1], "\n".join(difflib.unified_diff(*logs, lineterm=""))


def _without_times(log: str) -> list[str]:
    log = re.sub(r"\d+\.\d+ ?(s|seconds)\b|\b\d+:\d\d:\d\d\b", "<time>", log)
    log = re.sub(r"=+ (.*) =+", r"= \1 =", log)
    log = re.sub(r">>>>> [0-9a-f]{16}|0x[0-9a-f]+|/tmp/[\w./-]+|random seed: +\d+", "<random>", log)
    return log.splitlines()
