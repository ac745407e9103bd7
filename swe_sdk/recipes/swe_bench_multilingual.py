"""The recipe of SWE-bench Multilingual: C, C++, Go, Java, JavaScript, TypeScript, PHP, Ruby and Rust.

Rows have a layout of swe-bench, 5.x or source (see :mod:`swe_sdk.recipes.swe_bench_rows`), or one of these:

* *classic*: ``repo`` and ``version``; the commands come from a table of the 300 tasks;
* *commands*: ``test_command`` and ``image``, with the rest as in a classic row or within ``swe_bench_instance``.

A row that holds no more than the hash of its command is a task for agents; to grade it is a mask that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swe_sdk.errors import did_you_mean
from swe_sdk.model.environment import WORKDIR, Environment
from swe_sdk.model.patch import EMPTY_PATCH
from swe_sdk.model.task import GradingSpec, Task
from swe_sdk.recipes import compat as compats
from swe_sdk.recipes.contract import Rung
from swe_sdk.recipes.parsers import parse_log, parser_for_repository
from swe_sdk.recipes.parsers.registry import PREFIX, STRICT, traced
from swe_sdk.recipes.parsers.status import FAILED, FAILING, PASSED
from swe_sdk.recipes.row import Row
from swe_sdk.recipes.shared_rows import build_task, environment_of, image_field, read_row
from swe_sdk.recipes.sources import SOURCES
from swe_sdk.recipes.swe_bench import SweBenchRecipe
from swe_sdk.recipes.swe_bench_fields import is_swe_bench
from swe_sdk.recipes.swe_bench_multilingual_commands import Commands, find_commands, known_repositories, known_versions
from swe_sdk.recipes.swe_bench_rows import official_image, row_to_task

_LADDER_4 = (
    Rung(name="git-apply", command='git apply --verbose "$PATCH"'),
    Rung(name="git-apply-reject", command='git apply --verbose --reject "$PATCH"'),
    Rung(name="patch-fuzz", command='patch --batch --fuzz=5 -p1 -i "$PATCH"'),
)
"""The commands of swebench 4.1.0, in its order."""

_TESTS = Rung(name="git-apply", command='git apply --verbose "$PATCH"')
_TESTS_4 = Rung(name="git-apply-reject", command='git apply --verbose --reject "$PATCH"', tolerant=True)
_INNER = (
    *("repo", "base_commit", "version", "created_at", "problem_statement", "hints_text", "patch", "test_patch"),
    *("FAIL_TO_PASS", "PASS_TO_PASS"),
)
_HASH = "test_command_sha256"
_FIELDS = (
    *("FAIL_TO_PASS", "fail_to_pass", "PASS_TO_PASS", "pass_to_pass", "image", "test_command", "log_parser"),
    *("workdir", "env", "datasets", _HASH),
)
_BY_LANGUAGE = {
    "c": "gtest",
    "cpp": "gtest",
    "go": "go_test",
    "java": "maven",
    "ts": "vitest_verbose",
    "typescript": "vitest_verbose",
}
"""Strict parsers for rows that name neither a parser nor a repository of the official set."""


class SweBenchMultilingualRecipe(SweBenchRecipe):
    """Rows, commands and verdicts of the family; see :class:`swe_sdk.recipes.contract.Recipe`.

    Parsers and the rules of a verdict are those of swebench 5.x with our own strictness (``resolve``); ids must be the
    same to the letter, and a test that failed once in a run has failed. A hidden test patch that does not apply masks
    the grade.

    ``compat="4.1.0"`` follows the harness that the dataset was published with: three ways to apply a model's patch,
    hunks of the test patch that do not apply are left out and the tests run all the same, skipped tests are overlooked,
    and any exit code is trusted.
    """

    def __init__(self, compat: str = "") -> None:
        old = compats.checked(compat, ("4.1.0",), "swe-bench-multilingual")
        super().__init__("4.1.0" if old else "5.x")

    @property
    def family(self) -> str:
        """``swe-bench-multilingual``, or with older rules, ``swe-bench-multilingual@4.1.0``."""
        return compats.named("swe-bench-multilingual", "4.1.0" if self._old else "")

    @property
    def version(self) -> str:
        """Changes whenever the same input may get another verdict."""
        return f"swe-bench-multilingual/1 ({self.compat})"

    @property
    def ladder(self) -> tuple[Rung, ...]:  # type: ignore[override]  # a constant of the parent class
        """The ways to apply a model patch."""
        return _LADDER_4 if self._old else SweBenchRecipe.ladder

    @property
    def test_rung(self) -> Rung:
        """How the hidden tests are applied, after the model's patch."""
        return _TESTS_4 if self._old else _TESTS

    @property
    def _old(self) -> bool:
        return self.compat == "4.1.0"

    def recognizes(self, row: Mapping[str, Any]) -> bool:
        """Whether the row is of a repository of the official set, or wraps a row of swe-bench in a language."""
        if isinstance(row.get("swe_bench_instance"), Mapping):
            return isinstance(row.get("language"), str)
        return is_swe_bench(row) and row.get("repo") in known_repositories()

    def parse(self, task: Task, section: str) -> dict[str, str]:
        """The statuses in a test section, by test id; raises ``UnknownParser``.

        A test that passed by the official parser, which believes the last report about it, and failed by the strict one
        for the same output is FAILED: another test of that name failed, or a report was printed by the program.
        """
        statuses = super().parse(task, section)
        strict = None if self._old else STRICT.get(task.grading.parser.removeprefix(PREFIX))
        if strict is None:
            return statuses
        failed = {name for name, status in parse_log(strict, section).items() if status in FAILING}
        return {name: FAILED if status == PASSED and name in failed else status for name, status in statuses.items()}

    def to_task(self, row: Mapping[str, Any], *, where: str, root: Path) -> Task:
        """A task from a row; raises ``RowError`` (``UnknownFields`` for fields that the family does not have)."""
        if any(row.get(name) is not None for name in ("eval_script", *SOURCES)):
            return row_to_task(self.family, row, where, root)
        parts = read_row(_flat(row), where, _FIELDS, lambda fields: _parts(fields, root))
        return build_task(self.family, *parts)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row without its wrapping; what the outer row says goes before what the inner one says."""
    inner = row.get("swe_bench_instance")
    if not isinstance(inner, Mapping):
        return dict(row)
    outer = {name: value for name, value in row.items() if name not in ("swe_bench_instance", "environment_image")}
    image = {} if row.get("environment_image") is None else {"image": row["environment_image"]}
    return {**{name: inner[name] for name in _INNER if name in inner}, **image, **outer}


def _parts(row: Row, root: Path) -> tuple[Environment, GradingSpec]:
    commands, parser = _commands(row), _parser(row)
    workdir = row.optional_text("workdir") or WORKDIR
    environment = environment_of(row, root, lambda: _image(row), workdir)
    grading = GradingSpec(
        test_patch=row.patch("test_patch") or EMPTY_PATCH,
        fail_to_pass=row.ids("FAIL_TO_PASS", "fail_to_pass"),
        pass_to_pass=row.ids("PASS_TO_PASS", "pass_to_pass"),
        prelude=commands.prelude() if commands.test and "test_command" not in row else "",
        test_command=traced(parser, "\n".join(commands.test)) if commands.test else "",
        parser=parser,
        gold_patch=row.patch("patch"),
        wrong_patch=row.patch("wrong_patch"),
    )
    return environment, grading


def _commands(row: Row) -> Commands:
    if "test_command" in row:
        return Commands((), (row.text("test_command"),))
    repo, version = row.text("repo"), row.text("version")
    found = find_commands(repo, version)
    if found is None and _HASH not in row:
        raise row.error(*_not_in_table(repo, version))
    return found or Commands((), ())


def _not_in_table(repo: str, version: str) -> tuple[str, str]:
    versions = known_versions(repo)
    if versions:
        return f"version {version!r} of {repo} has no known test command", did_you_mean(version, versions)
    return (
        f"nothing is known about how to test {repo!r}",
        "give the row a test_command and an image, or an eval_script, log_parser and image (SWE-bench 5.x)",
    )


def _parser(row: Row) -> str:
    if "log_parser" in row:
        return row.text("log_parser")
    official = parser_for_repository(row.optional_text("repo") or "")
    if official is not None:
        return PREFIX + official
    parser = _BY_LANGUAGE.get(row.optional_text("language") or "")
    if parser is None:
        raise row.error("nothing says how the test output is read", "add 'log_parser'")
    return parser


def _image(row: Row) -> str:
    return image_field(row, "image") if "image" in row else official_image(row.id)
