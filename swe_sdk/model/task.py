"""One problem: what an agent may see and, apart from it, what only the grader may."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from swe_sdk.model.environment import Environment
from swe_sdk.model.patch import EMPTY_PATCH, Patch
from swe_sdk.model.record import Record
from swe_sdk.shown import Shown, one_line

EvalType = Literal["pass_and_fail", "fail_only"]


class GradingSpec(Record):
    """The private half of a task: hidden tests, required ids, gold patch. Its repr shows counts alone."""

    test_patch: Patch = EMPTY_PATCH
    test_assets: dict[str, str] = Field(default_factory=dict)
    """Binary files that come with the test patch and that its text cannot carry: path in the repository to URL."""
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    prelude: str = ""
    """Shell lines run before the tests; the environment and directory that they leave are the tests' own."""
    test_command: str
    """Shell lines whose whole output is the test section."""
    parser: str
    """Name of the log parser."""
    result_files: tuple[str, ...] = ()
    """Names (``*`` and ``?`` stand for anything) of files that the test command leaves in ``$SWE_SDK_REPORTS``, a
    folder outside of the repository that the grader makes and reads; none of them comes through the log."""
    expected: dict[str, str] = Field(default_factory=dict)
    """The status of every test by id, for families that compare the whole of it."""
    eval_type: EvalType = "pass_and_fail"
    gold_patch: Patch | None = None
    wrong_patch: Patch | None = None
    """A plausible patch that must not resolve the task, where the dataset has one."""

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:  # for repr, str, and what rich and pprint show
        yield "fail_to_pass", len(self.fail_to_pass)
        yield "pass_to_pass", len(self.pass_to_pass)


class Task(Shown, Record):
    """One problem. ``repr``, ``model_dump`` and :meth:`public` leave :attr:`grading` out.

    :meth:`private` is the one way to write it all down, for a file or another machine.
    """

    instance_id: str = Field(min_length=1)
    family: str
    repo: str
    problem_statement: str = Field(default="", repr=False)
    hints: str = Field(default="", repr=False)
    base_commit: str | None = None
    version: str | None = None
    created_at: str | None = None
    environment: Environment
    metadata: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Further public fields of the row; nothing of the grading half may be put here."""
    grading: GradingSpec = Field(repr=False, exclude=True)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:  # one line: the whole of it is public()'s to show
        yield None, one_line(self.instance_id)
        for name in ("family", "repo", "version", "base_commit"):
            value = getattr(self, name)
            if value is not None:
                yield name, one_line(value)
        yield "environment", self.environment.kind

    def public(self) -> dict[str, Any]:
        """What an agent may see, as plain data."""
        return self.model_dump(mode="json")

    def private(self) -> dict[str, Any]:
        """Everything, hidden tests and gold patch included; ``Task.model_validate`` takes it back."""
        return {**self.model_dump(mode="json"), "grading": self.grading.model_dump(mode="json")}
