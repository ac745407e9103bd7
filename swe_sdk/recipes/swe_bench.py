"""The recipe of SWE-bench: Verified, Lite, Multimodal and task sets in their layouts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swe_sdk.errors import InputError
from swe_sdk.model.record import Record
from swe_sdk.model.task import Task
from swe_sdk.recipes import compat as compats
from swe_sdk.recipes.contract import Resolution, Rung
from swe_sdk.recipes.parsers import official_section, parse_log, parse_official_log
from swe_sdk.recipes.parsers.section import suite_ran
from swe_sdk.recipes.resolve import SUITE_RAN, Compat, TestsStatus, official_status, officially_resolved, resolve
from swe_sdk.recipes.swe_bench_fields import is_swe_bench
from swe_sdk.recipes.swe_bench_rows import row_to_task

_LADDER = (
    Rung(name="git-apply", command='git apply --verbose "$PATCH"'),
    Rung(name="git-apply-3way", command='git apply --verbose --3way "$PATCH"'),
    Rung(name="git-apply-reject", command='git apply --verbose --reject "$PATCH"'),
    Rung(name="patch-fuzz", command='patch --batch --forward --fuzz=5 -p1 -i "$PATCH"'),
)
"""The commands of swebench 5.0.2, in its order."""


class OfficialReport(Record):
    """What the official ``report.json`` says of a log. ``found``: whether the log holds results that count."""

    found: bool
    resolved: bool
    tests_status: TestsStatus | None = None


class SweBenchRecipe:
    """Rows, commands and verdicts of the swe-bench family; see :class:`swe_sdk.recipes.contract.Recipe`.

    ``compat`` names the generation of the official harness whose rules decide: "5.x" or "4.1.0", which overlooks
    skipped tests, knows no cut test ids and trusts any exit code.
    """

    ladder = _LADDER

    def __init__(self, compat: Compat = "5.x") -> None:
        if compat not in ("5.x", "4.1.0"):
            raise InputError(f"unknown compat {compat!r}", remedy='use "5.x" or "4.1.0"')
        self.compat: Compat = compat

    @property
    def family(self) -> str:
        """``swe-bench``, or with older rules, ``swe-bench@4.1.0``."""
        return compats.named("swe-bench", "" if self.compat == "5.x" else self.compat)

    @property
    def version(self) -> str:
        """Changes whenever the same input may get another verdict."""
        return f"swe-bench/1 ({self.compat})"

    def recognizes(self, row: Mapping[str, Any]) -> bool:
        """Whether the row has one of the layouts of :mod:`swe_sdk.recipes.swe_bench_rows`."""
        return is_swe_bench(row)

    def to_task(self, row: Mapping[str, Any], *, where: str, root: Path) -> Task:
        """A task from a row; raises ``RowError`` (``UnknownFields`` for fields that the family does not have)."""
        return row_to_task(self.family, row, where, root)

    def parse(self, task: Task, section: str) -> dict[str, str]:
        """The statuses in a test section, by test id; raises ``UnknownParser``.

        Where a ``fail_only`` task's section names no failure but its runner counted tests, the only entry is
        ``SUITE_RAN``: such a run passed, and an empty one did not take place.
        """
        statuses = parse_log(task.grading.parser, section, task.instance_id, task.version)
        if not statuses and task.grading.eval_type == "fail_only" and suite_ran(section):
            return {SUITE_RAN: "PASSED"}
        return statuses

    def judge(self, task: Task, statuses: Mapping[str, str], exit_code: int | None) -> Resolution:
        """Whether those statuses, of a test command that ended with ``exit_code``, resolve the task."""
        return resolve(task.grading, statuses, exit_code, self.compat)

    def judge_log(self, task: Task, log: str) -> OfficialReport:
        """What the official harness reports for a whole log of its own; raises ``UnknownParser``."""
        statuses = self._official_statuses(task, log)
        if statuses is None:
            return OfficialReport(found=False, resolved=False)
        status = official_status(task.grading, statuses, self.compat)
        return OfficialReport(found=True, resolved=officially_resolved(status), tests_status=status)

    def _official_statuses(self, task: Task, log: str) -> dict[str, str] | None:
        parser, instance, version = task.grading.parser, task.instance_id, task.version
        if self.compat == "5.x":
            parsed = parse_official_log(parser, log, instance, version)
            return parsed.statuses if parsed.section.found else None
        section = official_section(log)
        if not section.found:
            return None
        return parse_log(parser, section.text, instance, version) or parse_log(parser, log, instance, version)
