"""The 24 frameworks of swe-bench-ext: with which flags they write results for machines, where, and who reads them.

Flags follow NeMo Gym's table of frameworks (the facts, not its code); its fixed ``/workspace/test-results`` is a folder
that the grader makes anew for each run. Two flags differ: busted's JUnit report is written to a file, and a task of
``unittest`` gets flags only where it is run by pytest, as unittest has none.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

RESULTS = "$SWE_SDK_RESULTS"
LEGACY_RESULTS = "/workspace/test-results"

_MAVEN = "*/target/surefire-reports*/TEST-*.xml"
_GRADLE = "*/build/test-results*/TEST-*.xml"
_SCRIPT = re.compile(r".*\.sh")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "make", "tox", "nox", "just", "npm", "yarn", "pnpm"})
_OPERATORS = frozenset({";", "&&", "||", "|", "&", ")", "\n"})


@dataclass(frozen=True)
class Framework:
    """``flag`` (``{dir}`` is the results folder) makes the runner write ``file`` there; without one its output is read.

    ``reports`` are files that the runner leaves in the repository whatever its flags are, to be collected from there.
    """

    lines: str
    """The parser of its printed output."""
    flag: str = ""
    file: str = ""
    reports: str = ""
    report: str = "junit_xml"
    """The parser of its results files."""


_PYTEST = Framework("pytest_lines", '--junitxml="{dir}/output.xml"', "output.xml")
_JVM = Framework("junit_xml", reports=_MAVEN)
_TESTING = Framework("swift_lines", '--disable-xctest --parallel --xunit-output "{dir}/output.xml"', "output*.xml")
_TAP = Framework("tap_points")

FRAMEWORKS: dict[str, Framework] = {
    "pytest": _PYTEST,
    "unittest": Framework("unittest", _PYTEST.flag, _PYTEST.file),
    "go": Framework("go_test_json", "-json"),
    "jest": Framework("jest_report", '--json --outputFile="{dir}/output.json"', "output.json", report="jest_report"),
    "vitest": Framework(
        "jest_report", '--reporter=json --outputFile="{dir}/output.json"', "output.json", report="jest_report"
    ),
    "mocha": Framework(
        "mocha_marks",
        '--reporter json --reporter-options output="{dir}/output.json"',
        "output.json",
        report="mocha_report",
    ),
    "bun": Framework("bun_lines"),
    "junit": _JVM,
    "maven": _JVM,
    "gtest": Framework("gtest_console", '--gtest_output=json:"{dir}/output.json"', "output.json", report="gtest_json"),
    "cargo-nextest": Framework("nextest_lines"),
    "ctest": Framework("junit_xml", '--output-on-failure --output-junit "{dir}/output.xml"', "output.xml"),
    "xctest": Framework("swift_lines", '--parallel --num-workers=1 --xunit-output "{dir}/output.xml"', "output*.xml"),
    "testing": _TESTING,
    "cppunit": Framework("cppunit_lines"),
    "busted": Framework("junit_xml", '--output=junit -Xoutput "{dir}/output.xml"', "output.xml"),
    "luaunit": Framework("junit_xml", '-o junit -n "{dir}/output.xml"', "output.xml"),
    "telescope": Framework("telescope_lines"),
    "lust": Framework("lust_lines"),
    "minitest": Framework("mini_test_lines"),
    "bespoke_libgeos": Framework("geos_lines"),
    "tap": _TAP,
    "tape": _TAP,
    "hardhat": Framework("mocha_marks"),
}
ALIASES = {"cargo_nextest": "cargo-nextest", "bespoke": "bespoke_libgeos"}


def framework_of(name: str, command: str) -> Framework | None:
    """The framework of that name as ``command`` runs it, or None where it is unknown."""
    framework = FRAMEWORKS.get(ALIASES.get(name, name))
    if framework is _JVM and ("gradlew" in command or "gradle " in command):
        return Framework("junit_xml", reports=_GRADLE)
    return _TESTING if name == "xctest" and "--disable-xctest" in command else framework


def reads_files(name: str, command: str) -> bool:
    """Whether results come from files: the framework has some, and this command hands its flags on to the runner.

    Decided by the command alone, never by what a run printed or left out.
    """
    framework = framework_of(name, command)
    if framework is None or not framework.file:
        return framework is not None and bool(framework.reports)
    words = _last_command(command)
    if name == "unittest" and not {"pytest", "py.test"} & set(words):
        return False
    return bool(words) and words[0] not in _SHELLS and not _SCRIPT.fullmatch(words[0])


def with_flags(name: str, command: str, folder: str = RESULTS) -> str:
    """The command with the flags that make it write results for machines, and what collects those it writes anyway."""
    framework = framework_of(name, command)
    if framework is None or (framework.file and not reads_files(name, command)):
        return command
    if framework.reports:
        return _collected(command, framework.reports)
    return f"{command.rstrip()} {framework.flag.format(dir=folder)}" if framework.flag else command


def _collected(command: str, reports: str) -> str:
    """Reports that are older than the run are left: they were in the image, or in the patch."""
    return (
        f'touch "{RESULTS}/started"\n{command.rstrip()}\ntest_exit_code=$?\n'
        f'find . -type f -path {shlex.quote(reports)} -newer "{RESULTS}/started" | sort | '
        f'{{ n=0; while IFS= read -r report; do n=$((n + 1)); cp -- "$report" "{RESULTS}/report-$n.xml"; done; }}\n'
        "(exit $test_exit_code)"
    )


def _last_command(command: str) -> list[str]:
    """The words of the last simple command, without the variables set before it."""
    lexer = shlex.shlex(command.strip().splitlines()[-1] if command.strip() else "", posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for word in lexer:
            words = [] if word in _OPERATORS else [*words, word]
    except ValueError:  # a quote without an end: the shell will say so
        return []
    while words and (_is_assignment(words[0]) or words[0] in ("env", "time", "exec")):
        words = words[1:]
    return words


def _is_assignment(word: str) -> bool:
    return "=" in word and not word.startswith("-")
