"""Hold the log of a test run against the runner's own records. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from swe_sdk.grading.classify import Failure
from swe_sdk.grading.witness import Record, Watch, as_log
from swe_sdk.model.outcome import TestReport
from swe_sdk.model.task import Task
from swe_sdk.recipes.contract import Recipe, Resolution

_PASSING = ("PASSED", "XFAIL")
_SHOWN = 20


def cross_check(
    task: Task, recipe: Recipe, resolution: Resolution, watch: Watch, records: list[Record], exit_code: int | None
) -> Failure | None:
    """Why a log that resolves the task is not to be believed, or None.

    Each required test that passed in the log must have passed in the records. They are put into the form of a log and
    read by the same parser and rules, so that ids which it cuts or changes are cut and changed alike. A log that
    resolves nothing needs no second opinion: what the records know better cannot raise it.
    """
    if not resolution.resolved or not (records or watch.required):
        return None
    if not records:
        return _disagree("the test runner left no results", {})
    recorded = recipe.judge(task, recipe.parse(task, as_log(watch.runner, records)), exit_code)
    disputed = {
        name: {"log": log, "results": result}
        for name, log, result in _disputed(resolution.tests, recorded.tests)
        if watch.can_record(name)
    }
    if not disputed:
        return None
    name, first = next(iter(disputed.items()))
    more = f" and {len(disputed) - 1} more" if len(disputed) > 1 else ""
    return _disagree(f"{name} is {first['log']} in the log and {first['results']} in the results{more}", disputed)


def _disputed(log: TestReport, results: TestReport) -> Iterator[tuple[str, str, str]]:
    """Required tests that the log puts in a better light than the results do."""
    for name, status in chain(log.fail_to_pass.items(), log.pass_to_pass.items()):
        result = results.fail_to_pass.get(name) or results.pass_to_pass[name]
        if result != status and result not in _PASSING:
            yield name, status, result


def _disagree(how: str, disputed: dict[str, dict[str, str]]) -> Failure:
    evidence = {"disputed": dict(list(disputed.items())[:_SHOWN])} if disputed else {}
    return Failure("results_disagree", "parse", f"the log and the results file disagree: {how}", evidence)
