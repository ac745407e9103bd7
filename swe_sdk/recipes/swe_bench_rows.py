"""Rows of the swe-bench family to tasks, in the three layouts that they come in.

* *5.x*: ``eval_script``, ``log_parser``, ``eval_type`` and ``image`` say everything;
* *classic* (4.x): the preparation and the test command come from a table of the twelve Verified repositories;
* *source*: ``sdist``, ``git`` or ``directory``, with Python, pins, install steps and a test command.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from swe_sdk.errors import did_you_mean
from swe_sdk.model.environment import Environment, ImageEnvironment
from swe_sdk.model.patch import EMPTY_PATCH, Patch
from swe_sdk.model.task import EvalType, GradingSpec, Task
from swe_sdk.recipes.parsers import parser_for_repository
from swe_sdk.recipes.parsers.registry import PREFIX, traced
from swe_sdk.recipes.row import Row
from swe_sdk.recipes.sources import SOURCES, source_environment
from swe_sdk.recipes.swe_bench_fields import KNOWN_FIELDS, METADATA
from swe_sdk.recipes.swe_bench_scripts import EvalScript, ScriptError, split_eval_script
from swe_sdk.recipes.swe_bench_specs import directives, find_spec, known_repositories, known_versions

_EVAL_TYPES: dict[str, EvalType] = {name: name for name in get_args(EvalType)}

_Parts = tuple[Environment, GradingSpec]


def row_to_task(family: str, data: Mapping[str, Any], where: str, root: Path) -> Task:
    """The task of a row; raises RowError."""
    row = Row(data, where)
    row.require_known(KNOWN_FIELDS)
    try:
        return _task(family, row, root)
    except ValidationError as error:  # the model has the last word on what a value may be
        first = error.errors(include_input=False, include_url=False)[0]
        raise row.error(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _task(family: str, row: Row, root: Path) -> Task:
    environment, grading = _parts(row, root)
    return Task(
        instance_id=row.id,
        family=family,
        repo=row.optional_text("repo") or row.id,
        problem_statement=row.optional_text("problem_statement") or "",
        hints=row.optional_text("hints_text") or "",
        base_commit=row.optional_text("base_commit"),
        version=row.optional_text("version"),
        created_at=row.optional_text("created_at"),
        environment=environment,
        metadata={**row.plain(METADATA), **_pictures(row)},
        grading=grading,
    )


def _parts(row: Row, root: Path) -> _Parts:
    """By the layout of the row; one with several sources is refused."""
    layouts = ("eval_script", *SOURCES)
    layout = row.one_of(*layouts) if any(name in row for name in layouts) else "classic"
    if layout == "classic":
        return _from_table(row)
    return _from_eval_script(row) if layout == "eval_script" else _from_source(row, root)


def _from_eval_script(row: Row) -> _Parts:
    assets = _assets(row)
    script = _split(row, frozenset((*_touched(row), *assets)))
    grading = _grading(
        row,
        parser=row.text("log_parser"),
        prelude=script.prelude,
        test_command=traced(row.text("log_parser"), script.test_command),
        test_patch=_applied_patch(row, script),
        test_assets=assets,
    )
    return ImageEnvironment(image=row.text("image")), grading


def _split(row: Row, test_files: frozenset[str]) -> EvalScript:
    remedy = "the script must have the form of a SWE-bench 5.x eval_script"
    try:
        script = split_eval_script(
            row.text("eval_script"), base_commit=row.optional_text("base_commit"), test_files=test_files
        )
    except ScriptError as error:
        raise row.error(f"'eval_script' cannot be split: {error}", remedy) from None
    if script.test_patch is None and b"\n@@ " in _test_patch(row).data:
        problem = "'eval_script' cannot be split: there is no here-document for `git apply` before the start marker"
        raise row.error(problem, remedy)
    return script


def _applied_patch(row: Row, script: EvalScript) -> Patch:
    """The row's test patch, or what its script applies where that differs by more than final newlines.

    The scripts of multimodal rows leave out the binary files of the row's patch, which no text patch can carry.
    """
    given, applied = _test_patch(row), Patch.of(script.test_patch)
    return given if given.data.rstrip(b"\n") == applied.data.rstrip(b"\n") else applied


def _from_table(row: Row) -> _Parts:
    repo, version, test_patch = row.text("repo"), row.text("version"), _test_patch(row)
    parser, spec = parser_for_repository(repo), find_spec(repo, version)
    if spec is None or parser is None:
        raise row.error(*_not_in_table(repo, version))
    grading = _grading(
        row,
        parser=row.optional_text("log_parser") or PREFIX + parser,
        prelude=spec.prelude(),
        test_command=spec.test_command(directives(repo, test_patch.data.decode("utf-8", "surrogateescape"))),
        test_patch=test_patch,
    )
    return ImageEnvironment(image=row.optional_text("image") or official_image(row.id)), grading


def _not_in_table(repo: str, version: str) -> tuple[str, str]:
    versions = known_versions(repo)
    if versions:
        return f"version {version!r} of {repo} has no known test command", did_you_mean(version, versions)
    return (
        f"nothing is known about how to test {repo!r}",
        "give the row an eval_script, log_parser and image (SWE-bench 5.x), or a source (sdist, git or directory) with"
        f" test_command and log_parser; a bare row works for {', '.join(known_repositories())}",
    )


def _from_source(row: Row, root: Path) -> _Parts:
    grading = _grading(
        row,
        parser=row.text("log_parser"),
        prelude="",
        test_command=row.text("test_command"),
        test_patch=row.patch("test_patch") or EMPTY_PATCH,
    )
    return source_environment(row, root), grading


def _grading(row: Row, **rest: Any) -> GradingSpec:
    return GradingSpec(
        fail_to_pass=row.ids("FAIL_TO_PASS", "fail_to_pass"),
        pass_to_pass=row.ids("PASS_TO_PASS", "pass_to_pass"),
        eval_type=_eval_type(row),
        gold_patch=row.patch("patch"),
        wrong_patch=row.patch("wrong_patch"),
        **rest,
    )


def _eval_type(row: Row) -> EvalType:
    name = row.optional_text("eval_type") or "pass_and_fail"
    if name not in _EVAL_TYPES:
        raise row.error(f"unknown eval_type {name!r}", f"known: {', '.join(_EVAL_TYPES)}")
    return _EVAL_TYPES[name]


def official_image(instance_id: str) -> str:
    """The published image of an instance (amd64 only)."""
    return f"swebench/sweb.eval.x86_64.{instance_id.lower()}:latest".replace("__", "_1776_")


def _test_patch(row: Row) -> Patch:
    patch = row.patch("test_patch")
    if patch is None:
        raise row.error("the field 'test_patch' is missing", "add 'test_patch' to the row")
    return patch


def _touched(row: Row) -> list[str]:
    return [path.decode("utf-8", "surrogateescape") for file in _test_patch(row).files for path in file.paths]


def _pictures(row: Row) -> dict[str, Any]:
    """The images of the problem statement, which an agent may see; those of the patches it may not."""
    shown = row.mapping("image_assets").plain(("problem_statement",)) if "image_assets" in row else {}
    return {"image_assets": shown} if any(shown.values()) else {}


def _assets(row: Row) -> dict[str, str]:
    """Path to URL of the binary files that a text patch cannot carry; the official harness stages those of both."""
    if "image_assets" not in row:
        return {}
    images = row.mapping("image_assets")
    listed = (*images.mappings("test_patch"), *images.mappings("patch"))
    return {asset.text("path"): asset.text("url") for asset in listed}
