"""The conformance suite for recipes: what a harness family must never get wrong, tried on real rows in real boxes.

In a test suite of pytest, one test item a check and task::

    from swe_sdk.testing.recipe_suite import RecipeSuite

    class TestMyFamily(RecipeSuite):
        @classmethod
        def tasks(cls) -> Iterable[Task]:
            return load_tasks("rows.jsonl", family="my-family")

Anywhere else::

    report = await run_recipe_suite(task, "docker")
    print(report)

A check that needs what the task has not (a gold patch, a wrong one) is *not applicable* and says so. A family that
follows another harness's rules (``swe-rebench@legacy``) fails those checks that the harness fails; that is what they
are for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import anyio

from swe_sdk.model.task import Task
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.registry import get_provider
from swe_sdk.testing.expect import NotApplicable, describe
from swe_sdk.testing.recipe_checks import RECIPE_CHECKS, RecipeCheck
from swe_sdk.testing.recipe_lab import RecipeLab
from swe_sdk.testing.report import CheckOutcome, CheckResult, SuiteReport

__all__ = ["RECIPE_CHECKS", "RecipeCheck", "RecipeSuite", "recipe_checks", "run_recipe_suite"]

_LIMIT_S = 300.0


def recipe_checks(select: Iterable[str] = ()) -> tuple[RecipeCheck, ...]:
    """The checks of these names; all of them by default. Raises ``ValueError`` for a name that selects nothing."""
    names = set(select)
    unknown = names - {check.name for check in RECIPE_CHECKS}
    if unknown:
        raise ValueError(f"no check is named {', '.join(sorted(unknown))}")
    return tuple(check for check in RECIPE_CHECKS if not names or check.name in names)


async def run_recipe_suite(
    task: Task,
    provider: SandboxProvider | str = "auto",
    *,
    select: Iterable[str] = (),
    on_result: Callable[[CheckResult], None] | None = None,
) -> SuiteReport:
    """Make the checks on one task, one after the other, and report. Nothing that a recipe does is raised.

    ``select`` names checks; ``on_result`` is called after each one. The provider is not closed.
    """
    lab = RecipeLab(task, await get_provider(provider))
    results: list[CheckResult] = []
    for check in recipe_checks(select):
        results.append(await _result(check, lab))
        if on_result:
            on_result(results[-1])
    return SuiteReport(subject=f"{task.family} on {task.instance_id}", results=tuple(results))


async def _result(check: RecipeCheck, lab: RecipeLab) -> CheckResult:
    begin = anyio.current_time()
    outcome, message = await _outcome(check, lab)
    took_s = anyio.current_time() - begin
    return CheckResult(topic="recipe", name=check.name, outcome=outcome, message=message, duration_s=took_s)


async def _outcome(check: RecipeCheck, lab: RecipeLab) -> tuple[CheckOutcome, str]:
    try:
        with anyio.fail_after(_LIMIT_S):
            await check.run(lab)
    except NotApplicable as reason:
        return "not_applicable", str(reason)
    except Exception as error:  # noqa: BLE001  # whatever a recipe under test raises is a finding of the suite
        return "failed", describe(error)
    return "passed", ""


class RecipeSuite:
    """Base class of a pytest class: one item a check and task. Override :meth:`tasks`."""

    provider: ClassVar[str] = "local"
    select: ClassVar[tuple[str, ...]] = ()
    """Checks to make; all by default."""
    _runner: ClassVar[asyncio.Runner]
    _labs: ClassVar[dict[str, RecipeLab]]

    @classmethod
    def tasks(cls) -> Iterable[Task]:
        """The tasks to try, of any families."""
        raise NotImplementedError("override tasks() to return the tasks under test")

    @classmethod
    def make_provider(cls) -> SandboxProvider | str:
        """The provider, or its name; one that is made here is closed after the last check."""
        return cls.provider

    @classmethod
    def setup_class(cls) -> None:
        """Start the event loop and make the provider."""
        cls._runner = asyncio.Runner()
        provider = cls._runner.run(get_provider(cls.make_provider()))
        cls._labs = {task.instance_id: RecipeLab(task, provider) for task in cls.tasks()}

    @classmethod
    def teardown_class(cls) -> None:
        """Close the provider and the loop."""
        provider = next(iter(cls._labs.values())).provider if cls._labs else None
        with cls._runner:
            if provider is not None and not isinstance(cls.make_provider(), str):
                cls._runner.run(_close(provider))

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Called by pytest: one item a check and task."""
        if "check" in metafunc.fixturenames:
            ids = [task.instance_id for task in self.tasks()]
            pairs = [(check, name) for name in ids for check in recipe_checks(self.select)]
            metafunc.parametrize(("check", "task_id"), pairs, ids=[f"{name}-{check.name}" for check, name in pairs])

    def test_recipe(self, check: RecipeCheck, task_id: str) -> None:
        """Make one check on one task."""
        import pytest

        try:
            self._runner.run(check.run(self._labs[task_id]))
        except NotApplicable as reason:
            pytest.skip(f"not applicable: {reason}")


async def _close(provider: SandboxProvider) -> None:
    await provider.aclose()
