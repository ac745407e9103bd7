"""What must hold of every recipe and row."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task
from swe_sdk.recipes.contract import ReadsResults
from swe_sdk.testing.expect import NotApplicable, require, require_equal
from swe_sdk.testing.recipe_lab import RecipeLab

_TESTS_TIMEOUT_S = 2.0
_SET_UP_TIMEOUT_S = 5.0
_BROKEN = b"--- a/no such file\n+++ b/no such file\n@@ -1,2 +1,2 @@\n-nothing\n+something\n nowhere\n"
_ODD = ("", "\0", "\ud800 ".encode("utf-8", "replace").decode(), "{" * 2000, "<testsuites>" * 50, "\x1b[31m" * 50)


Run = Callable[[RecipeLab], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class RecipeCheck:
    """What must hold, and why."""

    name: str
    about: str
    run: Run


_CHECKS: list[RecipeCheck] = []


def _check(run: Run) -> Run:
    _CHECKS.append(RecipeCheck(run.__name__, run.__doc__ or "", run))
    return run


def _told(outcome: Outcome) -> str:
    mask = f", masked by {outcome.mask.kind} in {outcome.mask.stage}: {outcome.mask.reason}" if outcome.mask else ""
    return f"{outcome.status} ({outcome.reason}{mask})"


@_check
async def the_public_half_tells_nothing(lab: RecipeLab) -> None:
    """What an agent may see holds neither a patch nor a required test; and the task survives being written down.

    The statement is left out: an issue may quote a line that a test or the fix has as well.
    """
    task = lab.task
    require_equal(Task.model_validate(json.loads(json.dumps(task.private()))), task, "the task, written and read")
    public = json.dumps({**task.public(), "problem_statement": "", "hints": ""}, ensure_ascii=False)
    for patch in (task.grading.test_patch, task.grading.gold_patch, task.grading.wrong_patch):
        lines = [line[1:].strip() for line in patch.text.splitlines() if line[:1] == "+"] if patch else []
        shown = [line for line in lines if len(line) > 24 and json.dumps(line, ensure_ascii=False)[1:-1] in public]
        require(not shown, f"the public half holds lines of a private patch: {shown[:3]}")
    named = [name for name in task.grading.fail_to_pass if "::" in name and name in public]
    require(not named, f"the public half names hidden tests: {named[:3]}")


@_check
async def the_gold_patch_resolves(lab: RecipeLab) -> None:
    """Else the task measures nothing."""
    outcome = await lab.grade(lab.gold)
    require(outcome.resolved, f"the gold patch is {_told(outcome)}")


@_check
async def an_empty_patch_does_not(lab: RecipeLab) -> None:
    """It is a measurement all the same: the tests ran, and it is not masked."""
    outcome = await lab.grade(None)
    require_equal(outcome.status, "unresolved", f"an empty patch is {_told(outcome)}; its status")


@_check
async def a_wrong_patch_does_not(lab: RecipeLab) -> None:
    """A plausible patch that is wrong must be told from the right one, and is no infrastructure failure."""
    outcome = await lab.grade(lab.wrong)
    require_equal(outcome.status, "unresolved", f"a wrong patch is {_told(outcome)}; its status")


@_check
async def forged_output_before_the_tests_does_not(lab: RecipeLab) -> None:
    """A program may print what the gold patch makes the tests print; their real results come after it."""
    await _forge(lab, "{forge}\n{tests}")


@_check
async def forged_output_after_the_tests_does_not(lab: RecipeLab) -> None:
    """The same, printed at the end, with an exit code that says that all went well."""
    await _forge(lab, "(\n{tests}\n)\n{forge}\nexit 0")


async def _forge(lab: RecipeLab, form: str) -> None:
    forge = f"printf '%s' {shlex.quote(await lab.printed_by_gold())}"
    task = lab.variant(test_command=form.format(forge=forge, tests=lab.task.grading.test_command))
    outcome = await lab.grade(_failing(lab), task)
    require(not outcome.resolved, f"a submission that prints the results of the gold patch is {_told(outcome)}")


def _failing(lab: RecipeLab) -> Patch | None:
    return lab.task.grading.wrong_patch


@_check
async def a_broken_test_patch_masks(lab: RecipeLab) -> None:
    """Where the hidden tests cannot be installed nothing was measured, whatever the tests in place say."""
    outcome = await lab.grade(lab.gold, lab.variant(test_patch=Patch.of(_BROKEN)))
    require(outcome.mask is not None, f"with a broken test patch the gold patch is {_told(outcome)}, and not masked")
    require_equal(outcome.mask and outcome.mask.kind, "test_patch_failed", "the kind of the mask")


@_check
async def a_missing_parser_masks(lab: RecipeLab) -> None:
    """A log that nobody can read is no failure of the submission."""
    outcome = await lab.grade(lab.gold, lab.variant(parser="no_such_parser"))
    require(outcome.mask is not None, f"with an unknown parser the gold patch is {_told(outcome)}, and not masked")
    require_equal(outcome.mask and outcome.mask.kind, "invalid_task", "the kind of the mask")


@_check
async def an_empty_required_set_never_resolves(lab: RecipeLab) -> None:
    """A task that asks for nothing is not solved by anything."""
    nothing = lab.variant(fail_to_pass=(), pass_to_pass=(), expected={})
    verdict = lab.recipe.judge(nothing, {"some::test": "PASSED"}, 0)
    require(not verdict.resolved, "a task that requires no test is judged resolved")
    outcome = await lab.grade(lab.gold, nothing)
    require(not outcome.resolved, f"a task that requires no test is {_told(outcome)}")


@_check
async def tests_that_hang_are_the_submissions_doing(lab: RecipeLab) -> None:
    """Else a submission escapes a zero by hanging."""
    task = lab.variant(test_command=f"sleep 600\n{lab.task.grading.test_command}")
    times = {"tests_timeout_s": _TESTS_TIMEOUT_S, "attempt_timeout_s": _TESTS_TIMEOUT_S + 120}
    outcome = await lab.grade(lab.gold, task, **times)
    require_equal(outcome.status, "unresolved", f"with tests that hang the gold patch is {_told(outcome)}; its status")
    require("tests_timed_out" in outcome.flags, f"the flags do not say that the tests timed out: {outcome.flags}")


@_check
async def a_set_up_that_hangs_masks(lab: RecipeLab) -> None:
    """The task's own commands are no doing of the submission."""
    times = {"tests_timeout_s": 60.0, "attempt_timeout_s": 60.0 + _SET_UP_TIMEOUT_S}
    outcome = await lab.grade(lab.gold, lab.variant(prelude="sleep 600\n"), **times)
    require(outcome.mask is not None, f"with a set-up that hangs the gold patch is {_told(outcome)}, and not masked")
    require_equal(outcome.mask and outcome.mask.kind, "timeout", "the kind of the mask")
    require(outcome.mask is None or outcome.mask.stage != "tests", "the tests are blamed for the set-up")


@_check
async def no_text_makes_the_parser_raise(lab: RecipeLab) -> None:
    """Whatever a program prints is data; and what says nothing resolves nothing."""
    for text in _ODD:
        found = lab.recipe.parse(lab.task, text)
        if isinstance(lab.recipe, ReadsResults):
            files = dict.fromkeys(lab.task.grading.result_files, text.encode("utf-8", "replace"))
            found = {**found, **lab.recipe.parse_results(lab.task, text, files)}
        require(not lab.recipe.judge(lab.task, found, 0).resolved, f"{text[:20]!r} resolves the task")


@_check
async def one_missing_result_is_enough(lab: RecipeLab) -> None:
    """All required tests must be reported: leaving the failing one out is no success."""
    spec = lab.task.grading
    if spec.eval_type == "fail_only":
        raise NotApplicable("the runner of this task names failures alone")
    passed = dict.fromkeys(spec.fail_to_pass + spec.pass_to_pass, "PASSED") | spec.expected
    require(lab.recipe.judge(lab.task, passed, 0).resolved, "all required tests passed, and the task is not resolved")
    for name in spec.fail_to_pass:
        others = {test: status for test, status in passed.items() if test != name}
        require(not lab.recipe.judge(lab.task, others, 0).resolved, f"resolved without a result of {name}")
        failed = {**passed, name: "FAILED"}
        require(not lab.recipe.judge(lab.task, failed, 1).resolved, f"resolved although {name} failed")


RECIPE_CHECKS: tuple[RecipeCheck, ...] = tuple(_CHECKS)
"""All checks, in the order in which they are made."""
