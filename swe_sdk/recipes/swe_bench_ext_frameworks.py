"""The 24 frameworks of swe-bench-ext: with which flags they write results for machines, where, and who reads them.

Flags follow NeMo Gym's table of frameworks (the facts, not its code); its fixed ``/workspace/test-results`` is a folder
that the grader makes anew for each run. Two flags differ: busted's JUnit report is written to a file, and a task of
``unittest`` gets flags only where it is run by pytest, as unittest has none.
"""

from __future__ import annotations

from dataclasses import dataclass

RESULTS = "$SWE_SDK_REPORTS"
LEGACY_RESULTS = "/workspace/test-results"

_MAVEN = "*/target/surefire-reports*/TEST-*.xml"
_GRADLE = "*/build/test-results*/TEST-*.xml"


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
