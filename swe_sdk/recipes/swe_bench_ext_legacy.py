"""How NeMo Gym's swe-bench-ext reads results and decides, for ``compat="legacy"``. Pure.

Behaviour (not code) follows the harness: the first results block in the log wins, whoever printed it; ids are
normalized and then matched ever more loosely; ids of build steps that nothing reports are taken for passed. Its
inventions of results from bare counts, and its reading of results that a CTest program printed, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from swe_sdk.model.outcome import MISSING, TestReport
from swe_sdk.model.task import GradingSpec
from swe_sdk.recipes.contract import Resolution
from swe_sdk.recipes.parsers.structured import normalized
from swe_sdk.recipes.required import shortcomings
from swe_sdk.recipes.swe_bench_ext_frameworks import LEGACY_RESULTS, framework_of

_OUTPUT = ("<<<SWE_BENCH_EXT_TEST_OUTPUT_START>>>", "<<<SWE_BENCH_EXT_TEST_OUTPUT_END>>>")
_RESULT = ("<<<SWE_BENCH_EXT_RESULT_FILE_START>>>", "<<<SWE_BENCH_EXT_RESULT_FILE_END>>>")
_SYNTHETIC = ("::build", "::compile")
_COLLAPSED = {"ERROR": "FAILED", "XFAIL": "SKIPPED"}

CD_LADDER = "cd /testbed 2>/dev/null || cd /workspace/repo 2>/dev/null || cd /app 2>/dev/null || true\n"


def legacy_command(name: str, command: str) -> str:
    """The whole test script: markers around the output, and the results file between markers of its own."""
    framework = framework_of(name, command)
    flag = framework.flag.format(dir=LEGACY_RESULTS).replace('"', "") if framework is not None else ""
    if name == "busted":
        flag = "--output=junit"
    lines = [
        f"mkdir -p {LEGACY_RESULTS}",
        f'echo "{_OUTPUT[0]}"',
        f"{command.rstrip()} {flag}".rstrip(),
        "test_exit_code=$?",
        *(_results_block(framework.file, framework.reports) if framework is not None else ()),
        f'echo "{_OUTPUT[1]}"',
        "(exit $test_exit_code)",
    ]
    return "\n".join(lines)


def _results_block(file: str, reports: str) -> list[str]:
    if reports:
        shown = f"find . -type f -path '{reports}' -exec cat {{}} +"
    elif file:
        path = f"{LEGACY_RESULTS}/{file.replace('*', '')}"
        shown = f"if [ -f {path} ]; then cat {path}; fi"
    else:
        return []
    return [f'echo "{_RESULT[0]}"', shown, f'echo "{_RESULT[1]}"']


def results_block(log: str) -> str:
    """The text between the first markers of a results file, or nothing."""
    start, end = log.find(_RESULT[0]), log.find(_RESULT[1])
    return log[start + len(_RESULT[0]) : end].strip() if 0 <= start < end else ""


def legacy_statuses(statuses: Mapping[str, str]) -> dict[str, str]:
    """Statuses under normalized ids; of two that become one, the later stands."""
    return {normalized(name): _COLLAPSED.get(status, status) for name, status in statuses.items()}


def legacy_verdict(spec: GradingSpec, statuses: Mapping[str, str]) -> Resolution:
    """All required tests PASSED after loose matching, and at least one to be repaired."""
    parsed = dict(statuses)
    required = [normalized(name) for name in spec.fail_to_pass + spec.pass_to_pass]
    parsed |= {name: "PASSED" for name in required if name.endswith(_SYNTHETIC) and name not in parsed}
    broken = tuple(name for name, status in parsed.items() if status == "FAILED" and "::" not in name)
    report = TestReport(
        fail_to_pass={name: _loosely(normalized(name), parsed, broken) for name in spec.fail_to_pass},
        pass_to_pass={name: _loosely(normalized(name), parsed, broken) for name in spec.pass_to_pass},
    )
    reason = shortcomings(report) if spec.fail_to_pass else "the task lists no fail_to_pass test"
    return Resolution(resolved=not reason, tests=report, reason=reason, flags=("fuzzy_ids",))


def _loosely(test: str, parsed: Mapping[str, str], broken: tuple[str, ...]) -> str:
    """Directly, by a package that failed, as a part of another id or the other way round, by the last part."""
    if test in parsed:
        return parsed[test]
    if test.startswith(broken):
        return "FAILED"
    for name, status in parsed.items():
        if test in name or name in test:
            return status
    last = test.rpartition("::")[2] if "::" in test else None
    alike = (status for name, status in parsed.items() if "::" in name and name.rpartition("::")[2] == last)
    return next(alike, MISSING)
