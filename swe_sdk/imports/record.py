"""What an import knows of a rollout, whatever it came from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from swe_sdk.model.outcome import Outcome
from swe_sdk.store.events import ArtifactRole, StepKind

_SUMMARY_CHARACTERS = 200
_DATA_CHARACTERS = 2000


class ImportedStep(NamedTuple):
    """One step of an agent."""

    kind: StepKind
    summary: str
    data: dict[str, Any]
    at: float | None = None
    """Unix seconds, where they are known."""
    tokens_in: int = 0
    tokens_out: int = 0


class ImportedFile(NamedTuple):
    """A file that belongs to a rollout: its bytes, or where they are."""

    name: str
    role: ArtifactRole
    content: bytes | Path


class Imported(NamedTuple):
    """One rollout. Without an ``outcome`` nobody has graded it."""

    instance_id: str
    outcome: Outcome | None
    sample: int | None = None
    """None = the next one of this instance."""
    agent: str = ""
    agent_version: str = ""
    model: str = ""
    end_reason: str = "done"
    steps: tuple[ImportedStep, ...] = ()
    files: tuple[ImportedFile, ...] = ()
    stages_s: tuple[tuple[str, float], ...] = ()
    started_at: float | None = None
    ended_at: float | None = None
    tags: tuple[tuple[str, str], ...] = ()


class Skipped(NamedTuple):
    """Something that could not be imported, and why."""

    place: str
    problem: str


Found = Iterator[Imported | Skipped]


def one_line(text: str) -> str:
    """The first line that says something, cut to what fits a table."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _SUMMARY_CHARACTERS else f"{line[: _SUMMARY_CHARACTERS - 3]}..."


def shortened(text: str) -> str:
    """Text for a journal; all of it is in the transcript."""
    return text if len(text) <= _DATA_CHARACTERS else f"{text[:_DATA_CHARACTERS]} ... ({len(text)} characters)"


def as_text(value: object) -> str:
    """What is text in a record of somebody else's; nothing for all else."""
    return value if isinstance(value, str) else ""


def as_name(value: object) -> str:
    """The same for what names something: halves of characters, which no journal can hold, are replaced."""
    return as_text(value).encode("utf-8", "replace").decode()


def as_count(value: object) -> int:
    """What is a count in a record of somebody else's; 0 for all else."""
    return value if isinstance(value, int) and value >= 0 else 0


def as_time(value: object) -> float | None:
    """What is a time in a record of somebody else's; None for all else."""
    return float(value) if isinstance(value, int | float) and 0 < value < 1e11 else None


def mapping(value: object) -> dict[str, Any]:
    """What is an object in a record of somebody else's; an empty one for all else."""
    return value if isinstance(value, dict) else {}
