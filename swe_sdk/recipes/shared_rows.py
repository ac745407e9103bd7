"""What the rows of all families have in common: an environment, public fields, a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from swe_sdk.model.environment import WORKDIR, Environment, ImageEnvironment
from swe_sdk.model.task import GradingSpec, Task
from swe_sdk.recipes.images import formatted_image
from swe_sdk.recipes.row import Fields, Row
from swe_sdk.recipes.sources import ENVIRONMENT_FIELDS, SOURCES, source_environment

T = TypeVar("T")

TASK_FIELDS = (
    "family",
    "instance_id",
    "repo",
    "base_commit",
    "version",
    "created_at",
    "problem_statement",
    "hints_text",
    "patch",
    "patch_base64",
    "test_patch",
    "test_patch_base64",
    "wrong_patch",
    "wrong_patch_base64",
    *ENVIRONMENT_FIELDS,
)
METADATA = (
    "difficulty",
    "environment_setup_commit",
    "split",
    "subset",
    "dataset_name",
    "language",
    "repo_language",
    "repo_name",
    "tags",
    "title",
)
"""Public fields that become ``Task.metadata``; every other field of a row stays out of it."""

_IMAGE = ("container_formatter", "workdir")

DROPPED = (
    "image_assets",
    "wrong_patch_note",
    "wrong_patch_fails",
    "responses_create_params",
    "agent_ref",
    "task_source",
    "notes",
)
"""Fields that tell about the hidden tests, or hold the whole row once more."""

COMMON_FIELDS = (*TASK_FIELDS, *METADATA, *DROPPED, *_IMAGE)


def read_row(
    data: Mapping[str, Any], where: str, known: tuple[str, ...], build: Callable[[Row], tuple[Environment, GradingSpec]]
) -> tuple[Row, Environment, GradingSpec]:
    """The row, and what ``build`` makes of it; raises ``RowError`` and nothing else."""
    row = Row(data, where)
    row.require_known((*COMMON_FIELDS, *known))
    return row, *refused(row, lambda: build(row))


def refused(row: Fields, make: Callable[[], T]) -> T:
    """What ``make`` gives; where the model refuses a value, a ``RowError`` that names it."""
    try:
        return make()
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise row.error(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def build_task(family: str, row: Row, environment: Environment, grading: GradingSpec, repo: str | None = None) -> Task:
    """The task of a row; nothing of its private half gets into the public one."""
    return refused(
        row,
        lambda: Task(
            instance_id=row.id,
            family=family,
            repo=row.optional_text("repo") or repo or row.id,
            problem_statement=row.optional_text("problem_statement") or "",
            hints=row.optional_text("hints_text") or "",
            base_commit=row.optional_text("base_commit"),
            version=row.optional_text("version"),
            created_at=_time(row),
            environment=environment,
            metadata=row.plain(METADATA),
            grading=grading,
        ),
    )


def environment_of(
    row: Row, root: Path, image: Callable[[], str], workdir: str, base: str | None = None
) -> Environment:
    """The row's sources, or an image with the repository at ``workdir``, which is to be reset to ``base``.

    The image is what the row's ``container_formatter`` leads to (:mod:`swe_sdk.recipes.images`), else what ``image``
    names.
    """
    if any(name in row for name in SOURCES):
        environment = source_environment(row, root)
        return environment.model_copy(update={"workdir": row.optional_text("workdir") or WORKDIR})
    return ImageEnvironment(
        image=formatted_image(row.texts("container_formatter"), row.id) or image(),
        workdir=row.optional_text("workdir") or workdir,
        env=row.text_map("env"),
        base=base,
    )


def image_field(row: Row, *names: str) -> str:
    """The image that the first of those fields which is there names."""
    found = next((name for name in names if name in row), None)
    if found is None:
        listed = " or ".join(map(repr, names))
        raise row.error("nothing says in which image the task runs", f"add {listed}, or a source such as sdist")
    return row.text(found)


def optional_list(row: Row, *names: str) -> tuple[str, ...]:
    """The list under the first of ``names`` that is there; an empty one where none is."""
    return row.listed(*names) if any(name in row for name in names) else ()


def _time(row: Row) -> str | None:
    """When the task was made: a text, or the milliseconds that some dumps hold."""
    value = row.plain(("created_at",)).get("created_at")
    return str(value) if isinstance(value, int | float) else row.optional_text("created_at")
