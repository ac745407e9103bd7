"""Whether tasks measure what they should: the verdict on a task's own control runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from pydantic import Field

from swe_sdk.grading.frames import HEALTH
from swe_sdk.model.columns import frame_of
from swe_sdk.model.outcome import Outcome, TestReport
from swe_sdk.model.record import Record
from swe_sdk.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

HealthStatus = Literal["healthy", "unhealthy", "unknown"]
Kind = Literal["gold", "empty", "wrong"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class TaskHealth(Shown, Record):
    """One task's control runs.

    ``healthy``: each gold run resolved, the empty and the wrong patch did not. ``unhealthy``: ``problems`` say why not.
    ``unknown``: some run was masked (``mask``), and nothing that was measured is wrong; ``missing_tool`` is the program
    that it was masked for, where it was for one. ``flaky`` names required tests whose status differed between equal
    runs. ``runs`` has the status of each run, by kind of patch.
    """

    instance_id: str
    status: HealthStatus
    problems: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    mask: str | None = None
    missing_tool: str | None = None
    runs: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    seconds: float | None = None
    """Of one grade of the gold patch, on average; without the building of its environment."""
    build_s: float = 0.0
    """Until the environment was there: what the run that built it waited; next to nothing where it was found ready."""
    disk_mib: float | None = None
    """What all files of the environment take up, those of its image included; None where it could not be looked at."""

    @property
    def healthy(self) -> bool:
        """Whether the task can be trusted."""
        return self.status == "healthy"

    def passed(self, kind: Kind) -> str:
        """How many runs of a patch resolved the task, such as ``3/3``; empty where there were none."""
        runs = self.runs.get(kind, ())
        return f"{runs.count('resolved')}/{len(runs)}" if runs else ""


def health_of(instance_id: str, runs: dict[Kind, list[Outcome]], disk_mib: float | None = None) -> TaskHealth:
    """The verdict on the control runs of one task. Pure."""
    problems = tuple(_problems(runs))
    masked = next((o.mask for o in _all(runs) if o.mask is not None), None)
    flaky = sorted({name for outcomes in runs.values() for name in flaky_tests(outcomes)})
    return TaskHealth(
        instance_id=instance_id,
        status="unhealthy" if problems else "unknown" if masked else "healthy",
        problems=problems,
        flaky=tuple(flaky),
        mask=None if masked is None else f"{masked.kind} in {masked.stage}: {masked.reason}",
        missing_tool=None if masked is None else masked.evidence.get("tool"),
        runs={kind: tuple(o.status for o in outcomes) for kind, outcomes in runs.items()},
        seconds=_mean_seconds(runs.get("gold", [])),
        build_s=max((o.timings_s.get("environment", 0.0) for o in _all(runs)), default=0.0),
        disk_mib=disk_mib,
    )


def _all(runs: dict[Kind, list[Outcome]]) -> Iterator[Outcome]:
    return (outcome for outcomes in runs.values() for outcome in outcomes)


def _mean_seconds(outcomes: Iterable[Outcome]) -> float | None:
    times = [o.timings_s.get("total", 0.0) - o.timings_s.get("environment", 0.0) for o in outcomes if not o.masked]
    return round(sum(times) / len(times), 3) if times else None


def flaky_tests(outcomes: Iterable[Outcome]) -> list[str]:
    """Required tests whose status differs between equal runs; masked runs say nothing about tests."""
    reports = [_statuses(o.tests) for o in outcomes if not o.masked]
    return [name for name in (reports[0] if reports else {}) if len({report.get(name) for report in reports}) > 1]


def _statuses(tests: TestReport) -> dict[str, str]:
    return {**tests.fail_to_pass, **tests.pass_to_pass}


def _problems(runs: dict[Kind, list[Outcome]]) -> Iterator[str]:
    gold = runs.get("gold", [])
    measured = [o for o in gold if not o.masked]
    failed = [o for o in measured if not o.resolved]
    if not gold:
        yield "it has no gold patch, so nothing shows that it can be solved"
    if failed:
        yield f"the gold patch failed in {len(failed)} of {len(measured)} runs: {failed[0].reason}"
    if any("passes_without_patch" in o.flags for o in runs.get("empty", [])):
        yield "its tests pass without a patch"
    if any(o.resolved for o in runs.get("wrong", [])):
        yield "its wrong patch resolves it"
    for kind, outcomes in runs.items():
        flaky = flaky_tests(outcomes)
        if flaky:
            yield f"{len(flaky)} flaky tests in equal {kind} runs: {', '.join(flaky[:3])}"


class Health(Shown, Sequence[TaskHealth]):
    """The health of a set of tasks, in their order."""

    def __init__(self, tasks: Iterable[TaskHealth], *, path: Path | None = None) -> None:
        self._tasks = tuple(tasks)
        self.path = path

    @overload
    def __getitem__(self, key: int | str) -> TaskHealth: ...
    @overload
    def __getitem__(self, key: slice) -> Health: ...
    def __getitem__(self, key: int | str | slice) -> TaskHealth | Health:
        """By position or by instance id (``KeyError`` where there is none); a slice gives Health."""
        if isinstance(key, str):
            return {task.instance_id: task for task in self._tasks}[key]
        return Health(self._tasks[key], path=self.path) if isinstance(key, slice) else self._tasks[key]

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        return f"<Health: {self.summary}>"

    @property
    def healthy(self) -> bool:
        """Whether every task is."""
        return all(task.healthy for task in self._tasks)

    @property
    def flaky(self) -> dict[str, tuple[str, ...]]:
        """Flaky tests by task."""
        return {task.instance_id: task.flaky for task in self._tasks if task.flaky}

    @property
    def missing_tools(self) -> dict[str, tuple[str, ...]]:
        """Programs that are not there, each with the tasks that could not be measured without it."""
        tools = dict.fromkeys(task.missing_tool for task in self._tasks if task.missing_tool is not None)
        return {tool: tuple(t.instance_id for t in self._tasks if t.missing_tool == tool) for tool in tools}

    @property
    def summary(self) -> str:
        """One line."""
        count = {status: sum(t.status == status for t in self._tasks) for status in ("healthy", "unhealthy", "unknown")}
        return ", ".join(f"{number} {status}" for status, number in count.items()) + f" of {len(self)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "healthy": self.healthy,
            "summary": self.summary,
            "path": None if self.path is None else str(self.path),
            "flaky": {name: list(tests) for name, tests in self.flaky.items()},
            "missing_tools": {tool: list(names) for tool, names in self.missing_tools.items()},
            "disk_mib": round(sum(task.disk_mib or 0.0 for task in self._tasks), 1),
            "tasks": [task.model_dump(mode="json") for task in self._tasks],
        }

    def to_frame(self) -> pd.DataFrame:
        """A row for each task."""
        return frame_of(HEALTH, map(_row, self._tasks), index="instance_id")


def _row(task: TaskHealth) -> dict[str, Any]:
    return {
        "instance_id": task.instance_id,
        "status": task.status,
        **{kind: task.passed(kind) for kind in KINDS},
        "flaky": ", ".join(task.flaky),
        "seconds": task.seconds,
        "build_s": round(task.build_s, 2),
        "disk_mib": task.disk_mib,
        "problems": "; ".join(task.problems),
        "mask": task.mask or "",
    }
