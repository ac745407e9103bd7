"""The suite for recipes: it passes on a row of each family, and finds what a bad recipe does."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from swe_sdk.model.outcome import TestReport
from swe_sdk.model.task import Task
from swe_sdk.recipes import registry
from swe_sdk.recipes.contract import Resolution
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.swe_rebench import SweRebenchRecipe
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing.recipe_suite import RECIPE_CHECKS, RecipeSuite, recipe_checks, run_recipe_suite
from tests.shared import need_program

pytestmark = pytest.mark.anyio

ONE_OF_EACH = {
    "swe-bench": "mini__fairsplit-1",
    "swe-bench-multilingual": "mini__expandtabs-1",
    "swe-bench-ext": "mini__duration-1",
    "nv-internal-1": "mini__linewrap-1",
    "swe-rebench": "mini__camel-1",
    "r2e-gym": "mini__tally-1",
}
RULES = {
    "the_gold_patch_resolves",
    "an_empty_patch_does_not",
    "a_wrong_patch_does_not",
    "forged_output_before_the_tests_does_not",
    "forged_output_after_the_tests_does_not",
    "a_broken_test_patch_masks",
    "a_missing_parser_masks",
    "an_empty_required_set_never_resolves",
    "tests_that_hang_are_the_submissions_doing",
    "a_set_up_that_hangs_masks",
}


@pytest.fixture(scope="module")
def provider() -> Iterator[LocalProvider]:
    provider = LocalProvider()
    yield provider
    anyio.run(provider.aclose)


def mini(name: str) -> Task:
    return load_tasks("mini")[name]


def test_the_suite_asks_for_everything_that_a_family_must_not_get_wrong() -> None:
    assert {check.name for check in RECIPE_CHECKS} >= RULES
    assert all(check.about for check in RECIPE_CHECKS)
    assert [check.name for check in recipe_checks(["a_missing_parser_masks"])] == ["a_missing_parser_masks"]
    with pytest.raises(ValueError, match="no check is named nothing"):
        recipe_checks(["nothing"])


async def test_a_row_of_each_family_passes_all_checks(provider: LocalProvider) -> None:
    """At once: most of the time is spent waiting for what is made to hang."""
    for program in ("node", "gcc", "make"):
        need_program(program)
    reports = {}

    async def run(family: str, name: str) -> None:
        reports[family] = await run_recipe_suite(mini(name), provider)

    async with anyio.create_task_group() as group:
        for family, name in ONE_OF_EACH.items():
            group.start_soon(run, family, name)
    assert {family: str(report) for family, report in reports.items() if not report.ok} == {}
    assert {len(report.passed) for report in reports.values()} == {len(RECIPE_CHECKS)}


class Gullible(SweRebenchRecipe):
    """Believes the last line about a test, and anything where it has no rule."""

    family = "gullible"
    ladder = SweRebenchRecipe().ladder
    test_rung = SweRebenchRecipe("legacy").test_rung

    def parse(self, task: Task, section: str) -> dict[str, str]:
        marks = {"✔": "PASSED", "✖": "FAILED"}
        found = {}
        for line in section.splitlines():
            if line[:1] in marks:
                found[line[2:].rpartition(" (")[0]] = marks[line[0]]
        return found

    def judge(self, task: Task, statuses: dict[str, str], exit_code: int | None) -> Resolution:
        bad = [name for name in task.grading.fail_to_pass if statuses.get(name, "PASSED") != "PASSED"]
        return Resolution(resolved=not bad, tests=TestReport(), reason="bad" if bad else "")


async def test_a_gullible_recipe_is_found_out(provider: LocalProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    need_program("node")
    monkeypatch.setitem(registry._BUILTIN, "gullible", Gullible)
    registry.get_recipe.cache_clear()
    task = mini("mini__camel-1").model_copy(update={"family": "gullible"})
    names = [
        "the_gold_patch_resolves",
        "forged_output_before_the_tests_does_not",
        "forged_output_after_the_tests_does_not",
        "a_broken_test_patch_masks",
        "a_missing_parser_masks",
        "an_empty_required_set_never_resolves",
        "no_text_makes_the_parser_raise",
        "one_missing_result_is_enough",
    ]
    report = await run_recipe_suite(task, provider, select=names)
    registry.get_recipe.cache_clear()
    assert [result.name for result in report.passed] == names[:2]
    assert {result.name for result in report.failed} == set(names[2:])
    assert "a submission that prints the results of the gold patch is resolved" in report.failed[0].message


class TestAsTests(RecipeSuite):
    """The same as items of pytest, one a check and task."""

    select = ("the_public_half_tells_nothing", "no_text_makes_the_parser_raise", "one_missing_result_is_enough")

    @classmethod
    def tasks(cls) -> list[Task]:
        return list(load_tasks("mini"))
