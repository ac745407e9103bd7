"""Whether tasks measure what they should."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from swe_sdk.grading.health import KINDS, Health, TaskHealth
from swe_sdk.notebook.amounts import many, seconds, size
from swe_sdk.notebook.blocks import SHOWN_ROWS, Badge, Bar, Cell, Facts, Note, Segment, Table, View, Word
from swe_sdk.notebook.palette import HEALTH, VERDICT, style_of

_HEAD = ("health", "task", *KINDS, "one grade", "build", "disk", "what is wrong")
_SHOWN_FLAKY = 3


def health_view(health: Health) -> View:
    """Counts, what is missing on this machine, a row a task."""
    counts: Counter[str] = Counter(task.status for task in health)
    bar = Bar(tuple(Segment(style, counts[name], f"{counts[name]:,}") for name, style in HEALTH.items()))
    tools = ", ".join(f"{tool} ({many(len(names), 'task')})" for tool, names in health.missing_tools.items())
    path = None if health.path is None else Word(str(health.path), "code")
    facts = Facts((("programs that are missing here", tools), ("path", path)))
    rows = [_row(task) for task in health[:SHOWN_ROWS]]
    title = (Word("Health", "strong"), f" {many(len(health), 'task')}")
    return View(title, (facts, bar if len(health) else None, Table(_HEAD, rows, len(health))))


def task_health_view(task: TaskHealth) -> View:
    """One task: its control runs, and each problem."""
    facts = Facts(tuple((kind, _badges(task.runs.get(kind, ()))) for kind in KINDS))
    notes = [Note(HEALTH["unhealthy"], problem) for problem in task.problems]
    masked = Note(HEALTH["unknown"], task.mask) if task.mask else None
    rows = [(Word(name, "code"),) for name in task.flaky]
    flaky = Table(("flaky test",), rows) if rows else None
    title = (Badge(style_of(HEALTH, task.status)), " ", Word(task.instance_id, "strong"))
    return View(title, (facts, *notes[:SHOWN_ROWS], masked, flaky))


def _badges(statuses: Sequence[str]) -> Cell:
    return tuple(part for status in statuses for part in (Badge(style_of(VERDICT, status)), " "))


def _row(task: TaskHealth) -> tuple[Cell, ...]:
    wrong = "; ".join(task.problems) or task.mask or ""
    flaky = f" flaky: {', '.join(task.flaky[:_SHOWN_FLAKY])}" if task.flaky and not task.problems else ""
    disk = "" if task.disk_mib is None else size(task.disk_mib * (1 << 20))
    runs = (task.passed(kind) for kind in KINDS)
    times = (seconds(task.seconds), seconds(task.build_s))
    return Badge(style_of(HEALTH, task.status)), Word(task.instance_id, "code"), *runs, *times, disk, wrong + flaky
