"""The recipe of swe-bench-ext: tasks in many languages, each with one of 24 test frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swe_sdk.errors import UnknownParser
from swe_sdk.model.environment import Environment
from swe_sdk.model.patch import EMPTY_PATCH
from swe_sdk.model.task import GradingSpec, Task
from swe_sdk.recipes import compat as compats
from swe_sdk.recipes.contract import Resolution, Rung
from swe_sdk.recipes.lenient_apply import EXT_LEGACY, EXT_STRICT
from swe_sdk.recipes.parsers import parse_log
from swe_sdk.recipes.parsers.status import combine
from swe_sdk.recipes.parsers.structured import STRUCTURED, by_normalized, normalized
from swe_sdk.recipes.required import require_all
from swe_sdk.recipes.row import Row
from swe_sdk.recipes.shared_rows import build_task, environment_of, image_field, optional_list, read_row
from swe_sdk.recipes.swe_bench_ext_commands import reads_files, with_flags
from swe_sdk.recipes.swe_bench_ext_frameworks import (
    ALIASES,
    FRAMEWORKS,
    Framework,
    framework_of,
)
from swe_sdk.recipes.swe_bench_ext_legacy import (
    CD_LADDER,
    legacy_command,
    legacy_statuses,
    legacy_verdict,
    results_block,
)

_WORKDIR = "/workspace/repo"
_FIELDS = (
    "test_command",
    "test_framework",
    "FAIL_TO_PASS",
    "fail_to_pass",
    "PASS_TO_PASS",
    "pass_to_pass",
    "image",
    "image_name",
    "docker_image",
    "golden_patch",
    "repo_workdir",
    "benchmark",
)


class SweBenchExtRecipe:
    """Rows, commands and verdicts of swe-bench-ext; see :class:`swe_sdk.recipes.contract.Recipe`.

    Our rules: results come from files that the runner was told to write, ids must agree exactly or in their
    :func:`~swe_sdk.recipes.parsers.structured.normalized` form, nothing is invented. ``compat="legacy"`` is NeMo Gym's
    harness: results from the log, loose matching, failures to apply a patch ignored.
    """

    def __init__(self, compat: str = "") -> None:
        self.compat = compats.checked(compat, ("legacy",), "swe-bench-ext")

    @property
    def family(self) -> str:
        """``swe-bench-ext``, or with the rules that hold, ``swe-bench-ext@legacy``."""
        return compats.named("swe-bench-ext", self.compat)

    @property
    def version(self) -> str:
        """Changes whenever the same input may get another verdict."""
        return f"{self.family}/1"

    @property
    def ladder(self) -> tuple[Rung, ...]:
        """The ways to apply a model patch."""
        return EXT_LEGACY if self.compat else EXT_STRICT

    @property
    def test_rung(self) -> Rung:
        """How the hidden tests are applied."""
        return self.ladder[-1]

    def recognizes(self, row: Mapping[str, Any]) -> bool:
        """Whether the row names a test framework."""
        return row.get("test_framework") is not None

    def to_task(self, row: Mapping[str, Any], *, where: str, root: Path) -> Task:
        """A task from a row; raises ``RowError``. An unknown framework is no error here: grading masks it."""
        parts = read_row(row, where, _FIELDS, lambda fields: self._parts(fields, root))
        return build_task(self.family, *parts)

    def _parts(self, row: Row, root: Path) -> tuple[Environment, GradingSpec]:
        command, name = row.text("test_command"), row.text("test_framework")
        workdir = row.optional_text("repo_workdir") or _WORKDIR
        images = ("image", "image_name", "docker_image")
        environment = environment_of(
            row, root, lambda: image_field(row, *images), workdir, row.optional_text("base_commit")
        )
        from_files = not self.compat and reads_files(name, command)
        grading = GradingSpec(
            test_patch=row.patch("test_patch") or EMPTY_PATCH,
            fail_to_pass=row.listed("FAIL_TO_PASS", "fail_to_pass"),
            pass_to_pass=optional_list(row, "PASS_TO_PASS", "pass_to_pass"),
            prelude=CD_LADDER if self.compat else "",
            test_command=legacy_command(name, command) if self.compat else with_flags(name, command),
            parser=ALIASES.get(name, name),
            result_files=_patterns(framework_of(name, command)) if from_files else (),
            gold_patch=row.patch("patch") or row.patch("golden_patch"),
            wrong_patch=row.patch("wrong_patch"),
        )
        return environment, grading

    def parse(self, task: Task, section: str) -> dict[str, str]:
        """The statuses in the test section; raises ``UnknownParser`` for an unknown framework."""
        framework = _framework(task)
        if not self.compat:
            return _by_lines(framework, section)
        block = results_block(section)
        return legacy_statuses((STRUCTURED[framework.report](block) if block else {}) or _by_lines(framework, section))

    def parse_results(self, task: Task, section: str, files: Mapping[str, bytes]) -> dict[str, str]:
        """The statuses in the results files where the task has some, else those in the section."""
        if not task.grading.result_files:
            return self.parse(task, section)
        read = STRUCTURED[_framework(task).report]
        found: dict[str, str] = {}
        for name in sorted(files):
            for test, status in read(files[name].decode("utf-8", "replace")).items():
                found[test] = combine(found.get(test), status)
        return found

    def judge(self, task: Task, statuses: Mapping[str, str], exit_code: int | None) -> Resolution:
        """Whether those statuses resolve the task."""
        if self.compat:
            return legacy_verdict(task.grading, statuses)
        normal = by_normalized(statuses)
        spec = task.grading
        loose = any(
            name not in statuses and normalized(name) in normal for name in spec.fail_to_pass + spec.pass_to_pass
        )
        flags = ("normalized_ids",) if loose else ()
        return require_all(spec, statuses, exit_code, lambda id: statuses.get(id) or normal.get(normalized(id)), flags)


def _framework(task: Task) -> Framework:
    framework = FRAMEWORKS.get(task.grading.parser)
    if framework is None:
        raise UnknownParser(task.grading.parser, tuple(FRAMEWORKS))
    return framework


def _by_lines(framework: Framework, section: str) -> dict[str, str]:
    own = STRUCTURED.get(framework.lines)
    return own(section) if own is not None else parse_log(framework.lines, section)


def _patterns(framework: Framework | None) -> tuple[str, ...]:
    if framework is None:
        return ()
    return ("report-*.xml",) if framework.reports else (framework.file,)
