"""What a harness family decides: how its rows become tasks, how a patch is applied, how a log becomes a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from swe_sdk.model.outcome import TestReport
from swe_sdk.model.record import Record
from swe_sdk.model.task import Task


class Rung(Record):
    """One way to apply a patch. ``command`` is a shell line run in the repository; ``$PATCH`` is the patch file."""

    name: str
    command: str
    tolerant: bool = False
    """Whether what it has applied counts even where it fails: the ``|| true`` of harnesses that ignore failures."""


class Resolution(Record):
    """The verdict on the statuses of one run."""

    resolved: bool
    tests: TestReport
    reason: str = ""
    flags: tuple[str, ...] = ()


@runtime_checkable
class Recipe(Protocol):
    """One harness family. Pure: no recipe touches a sandbox."""

    @property
    def family(self) -> str:
        """Its name, such as "swe-bench"."""

    @property
    def version(self) -> str:
        """Changes whenever the same input may get another verdict; part of the content key."""

    @property
    def ladder(self) -> tuple[Rung, ...]:
        """The ways to apply a model patch, tried in order until one exits with code 0."""

    def recognizes(self, row: Mapping[str, Any]) -> bool:
        """Whether a row without a ``family`` field looks like one of this family."""

    def to_task(self, row: Mapping[str, Any], *, where: str, root: Path) -> Task:
        """A task from a row. ``where`` names the row in errors; relative paths in it start at ``root``.

        Raises :class:`~swe_sdk.errors.RowError`.
        """

    def parse(self, task: Task, section: str) -> dict[str, str]:
        """The statuses in a test section, by test id."""

    def judge(self, task: Task, statuses: Mapping[str, str], exit_code: int | None) -> Resolution:
        """Whether those statuses resolve the task."""


@runtime_checkable
class AppliesTests(Protocol):
    """A recipe whose hidden test patch needs another command than plain ``git apply``."""

    @property
    def test_rung(self) -> Rung:
        """How the test patch is applied; where it fails and is not ``tolerant``, nothing is measured."""


@runtime_checkable
class ReadsResults(Protocol):
    """A recipe that reads files which the tests left behind, see :attr:`GradingSpec.result_files`."""

    def parse_results(self, task: Task, section: str, files: Mapping[str, bytes]) -> dict[str, str]:
        """The statuses by test id, from the files by name (and from the test section where the family says so).

        Raises :class:`~swe_sdk.errors.GradingError` where the files say that nothing was measured.
        """


@runtime_checkable
class NeedsFiles(Protocol):
    """A recipe that needs more in the box than the task's environment has."""

    @property
    def remedy(self) -> str:
        """What a reader can do where something is missing."""

    def brings(self, task: Task) -> tuple[tuple[str, str], ...]:
        """Folders of this machine to be mounted read-only, each with its path in the box; absent ones are left out."""

    def needs(self, task: Task) -> tuple[tuple[str, ...], ...]:
        """Groups of paths in the box; one of each group must be there before anything is measured, else a mask."""
