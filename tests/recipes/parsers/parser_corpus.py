"""Real logs that the parser tests read: where they lie, which parser reads them, and what was recorded for them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

CI = os.environ.get("CI") == "true"
_PREFIX = "parse_log_"
_NOT_PYTHON = frozenset({"parse_log_marked"})


class Log(NamedTuple):
    """One log; ``recorded`` is the status map made from it by swebench 5.0.2, where there is one."""

    path: Path
    parser: str
    layout: str
    recorded: Path | None

    def data(self) -> bytes:
        return self.path.read_bytes()

    def recorded_statuses(self) -> dict[str, str]:
        assert self.recorded is not None
        content = json.loads(self.recorded.read_text(encoding="utf-8"))
        return content.get("status", content) if isinstance(content.get("status"), dict) else content


def datasets() -> Path | None:
    """The folder of shared data: ``SWE_SDK_SHARED``, or ``shared`` beside the repository."""
    root = os.environ.get("SWE_SDK_SHARED")
    shared = Path(root) if root else Path(__file__).resolve().parents[4] / "shared"
    return shared / "datasets" if (shared / "datasets" / "logs" / "index.jsonl").is_file() else None


def need(present: object, what: str) -> None:
    """Skips the test where ``what`` is absent; on CI it fails."""
    if not present:
        (pytest.fail if CI else pytest.skip)(f"{what} is not there")


def all_logs() -> list[Log]:
    """Every shared log with an official Python parser."""
    root = datasets()
    return [*_indexed(root / "logs"), *_calibrated(root / "swebench_sdist")] if root else []


def as_params(logs: list[Log]) -> list[object]:
    """The logs as pytest parameters with readable ids."""
    return [pytest.param(log, id=f"{log.path.parent.name}/{log.path.name}") for log in logs]


def _rows(path: Path) -> Iterator[dict[str, object]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _indexed(folder: Path) -> Iterator[Log]:
    for row in _rows(folder / "index.jsonl"):
        parser = str(row["framework"])
        if parser.startswith(_PREFIX) and parser not in _NOT_PYTHON:
            recorded = row.get("status_map")
            yield Log(
                folder / str(row["file"]), parser, str(row["format"]), folder / str(recorded) if recorded else None
            )


def _calibrated(folder: Path) -> Iterator[Log]:
    files = (folder / "tasks.jsonl", folder / "tasks_py311.jsonl")
    parsers = {str(row["instance_id"]): str(row["log_parser"]) for file in files for row in _rows(file)}
    for path in sorted((folder / "logs").glob("*/*.log")):
        yield Log(path, parsers[path.parent.name], "calibrated", path.with_suffix(".status.json"))


def other_logs() -> list[Log]:
    """Every shared log that is not of an official Python parser; ``parser`` is empty where no official one fits."""
    root = datasets()
    if root is None:
        return []
    folder = root / "logs"
    rows = [row for row in _rows(folder / "index.jsonl") if not _is_python(str(row["framework"]))]
    return [Log(folder / str(row["file"]), _official_name(row), str(row["format"]), None) for row in rows]


def truths() -> list[dict[str, Any]]:
    """The rows of the index with statuses that are true by construction, and the path of their log as ``path``."""
    root = datasets()
    rows = _rows(root / "logs" / "index.jsonl") if root else ()
    return [{**row, "path": root / "logs" / str(row["file"])} for row in rows if root and row.get("expected_status")]


def counted() -> list[dict[str, Any]]:
    """The rows of the index with counts that somebody has written down, and the path of their log as ``path``."""
    root = datasets()
    rows = _rows(root / "logs" / "index.jsonl") if root else ()
    return [{**row, "path": root / "logs" / str(row["file"])} for row in rows if root and row.get("expected_counts")]


OTHERWISE_COUNTED: dict[str, dict[str, int]] = {
    "django_output_5.txt": {"total": 22},
    "syntax_error.txt": {"total": 0},
}
"""Logs of which the run itself, or the lack of one, says something else than those counts."""


def _is_python(framework: str) -> bool:
    return framework.startswith(_PREFIX) and framework not in _NOT_PYTHON


def _official_name(row: dict[str, object]) -> str:
    framework = str(row["framework"])
    return framework if framework.startswith(_PREFIX) else str(row.get("swebench_parser") or "")
