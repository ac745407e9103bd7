"""The recipe of nv-internal-1, whose rows have the shape of SWE-bench Pro: each brings its own runner and parser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swe_sdk.errors import UnknownParser
from swe_sdk.model.environment import Environment
from swe_sdk.model.patch import EMPTY_PATCH
from swe_sdk.model.task import GradingSpec, Task
from swe_sdk.recipes import compat as compats
from swe_sdk.recipes.contract import Resolution, Rung
from swe_sdk.recipes.lenient_apply import NV_LEGACY, NV_STRICT
from swe_sdk.recipes.nv_internal_scripts import environment_lines, last_line, takes_tests_from_git, test_command
from swe_sdk.recipes.parsers.status import STATUSES, combine
from swe_sdk.recipes.required import require_all
from swe_sdk.recipes.row import Row
from swe_sdk.recipes.shared_rows import build_task, environment_of, image_field, optional_list, read_row

_WORKDIR = "/app"
_OUTPUT = "output.json"
_PARSER = "parsing_script"
_NO_PARSER = "parsing_script (the row has none)"
_REPOSITORY = "jefzda/sweap-images"
_FIELDS = (
    "base_dockerfile",
    "instance_dockerfile",
    "before_repo_set_cmd",
    "selected_test_files_to_run",
    "run_script",
    "run_script.sh",
    "parser_script",
    "parsing_script",
    "parsing_script.py",
    "fail_to_pass_select",
    "fail_to_pass",
    "FAIL_TO_PASS",
    "pass_to_pass_select",
    "pass_to_pass",
    "PASS_TO_PASS",
    "dockerhub_tag",
    "image_name",
    "docker_image",
    "image",
    "image_digest",
    "evaluator_commit",
    "dataset_revision",
    "requirements",
    "interface",
    "issue_specificity",
    "issue_categories",
)


class NvInternalRecipe:
    """Rows, commands and verdicts of nv-internal-1; see :class:`swe_sdk.recipes.contract.Recipe`.

    Our rules: the hidden tests come from the row's test patch where it has one, a name that is reported twice and fails
    once has failed. ``compat="legacy"`` is NeMo Gym's harness: failures to apply a patch are ignored, the tests are
    checked out by the last line of ``before_repo_set_cmd`` alone, a name that passed once has passed.
    """

    def __init__(self, compat: str = "") -> None:
        self.compat = compats.checked(compat, ("legacy",), "nv-internal-1")

    @property
    def family(self) -> str:
        """``nv-internal-1``, or with the rules that hold, ``nv-internal-1@legacy``."""
        return compats.named("nv-internal-1", self.compat)

    @property
    def version(self) -> str:
        """Changes whenever the same input may get another verdict."""
        return f"{self.family}/1"

    @property
    def ladder(self) -> tuple[Rung, ...]:
        """The ways to apply a model patch."""
        return NV_LEGACY if self.compat else NV_STRICT

    @property
    def test_rung(self) -> Rung:
        """How the hidden tests are applied."""
        return self.ladder[-1]

    def recognizes(self, row: Mapping[str, Any]) -> bool:
        """Whether the row says which test files to run."""
        return row.get("selected_test_files_to_run") is not None

    def to_task(self, row: Mapping[str, Any], *, where: str, root: Path) -> Task:
        """A task from a row; raises ``RowError``. A row without its scripts is a task whose grades are masked."""
        parts = read_row(row, where, _FIELDS, lambda fields: self._parts(fields, root))
        return build_task(self.family, *parts)

    def _parts(self, row: Row, root: Path) -> tuple[Environment, GradingSpec]:
        test_patch = row.patch("test_patch") or EMPTY_PATCH
        last = last_line(row.optional_text("before_repo_set_cmd") or "")
        from_patch = test_patch.exists and not self.compat
        runner = row.first_text("run_script", "run_script.sh")
        parser = row.first_text("parser_script", "parsing_script", "parsing_script.py")
        grading = GradingSpec(
            test_patch=test_patch if from_patch else EMPTY_PATCH,
            fail_to_pass=row.listed("fail_to_pass_select", "fail_to_pass", "FAIL_TO_PASS"),
            pass_to_pass=optional_list(row, "pass_to_pass_select", "pass_to_pass", "PASS_TO_PASS"),
            prelude=_prelude(row, "" if from_patch and takes_tests_from_git(last) else last),
            test_command=test_command(runner or "", parser or "", row.listed("selected_test_files_to_run")),
            parser=_PARSER if runner and parser else _NO_PARSER,
            result_files=(_OUTPUT,),
            gold_patch=row.patch("patch"),
            wrong_patch=row.patch("wrong_patch"),
        )
        return environment_of(row, root, lambda: _image(row), _WORKDIR, row.optional_text("base_commit")), grading

    def parse(self, task: Task, section: str) -> dict[str, str]:
        """Nothing: results are in a file, never in the log. Raises ``UnknownParser`` where the row has no scripts."""
        if task.grading.parser != _PARSER:
            raise UnknownParser(task.grading.parser, (_PARSER,))
        return {}

    def parse_results(self, task: Task, section: str, files: Mapping[str, bytes]) -> dict[str, str]:
        """``{name: status}`` of ``output.json``: ``{"tests": [{"name", "status"}]}``."""
        self.parse(task, section)
        found: dict[str, str] = {}
        for name, status in _tests(files.get(_OUTPUT, b"")):
            kept = self.compat and "PASSED" in (status, found.get(name))
            found[name] = "PASSED" if kept else combine(found.get(name), status)
        return found

    def judge(self, task: Task, statuses: Mapping[str, str], exit_code: int | None) -> Resolution:
        """Whether all required tests passed, of which there is at least one (for our rules, one to be repaired)."""
        resolution = require_all(task.grading, statuses, None)
        required = {**resolution.tests.fail_to_pass, **resolution.tests.pass_to_pass}
        if not self.compat or task.grading.fail_to_pass:
            return resolution
        resolved = bool(required) and all(status == "PASSED" for status in required.values())
        return resolution.model_copy(update={"resolved": resolved, "reason": "" if resolved else resolution.reason})


def _prelude(row: Row, before: str) -> str:
    dockerfiles = (row.optional_text("base_dockerfile"), row.optional_text("instance_dockerfile"))
    lines = [*environment_lines("\n".join(text for text in dockerfiles if text)), *([before] if before else [])]
    return "\n".join(lines) + "\n" if lines else ""


def _image(row: Row) -> str:
    if any(name in row for name in ("image_name", "docker_image", "image")):
        return image_field(row, "image_name", "docker_image", "image")
    return f"{_REPOSITORY}:{image_field(row, 'dockerhub_tag')}"


def _tests(data: bytes) -> list[tuple[str, str]]:
    """The named tests of the parsing script's output; other things in it are left out."""
    try:
        report = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return []
    tests = report.get("tests") if isinstance(report, dict) else None
    named = [test for test in tests if isinstance(test, dict)] if isinstance(tests, list) else []
    pairs = [(test.get("name"), test.get("status")) for test in named]
    return [(name, status) for name, status in pairs if isinstance(name, str) and status in STATUSES]
