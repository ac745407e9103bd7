"""What a comparison has found, as text: tables of verdicts and of times, and lists of what differs."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.parity.floor import Pairs
from benchmarks.parity.grades import Case, Grader, differences
from benchmarks.parity.published import comparison
from benchmarks.report import grid, section_markdown
from benchmarks.rows import Row, Section, Target

_SHOWN_STEPS = 7


@dataclass
class Comparison:
    """Everything that was measured. ``others`` are the SDK's grades of the same tasks on the providers' own builds."""

    official: Grader
    ours: Grader
    workers: int
    engine: str = ""
    others: list[Grader] = field(default_factory=list)
    pairs: Pairs = field(default_factory=Pairs)
    load: tuple[float, float] = (0.0, 0.0)
    seconds: float = 0.0
    absent_providers: dict[str, str] = field(default_factory=dict)
    not_run: str = ""

    @property
    def graders(self) -> list[Grader]:
        """All, the official one first."""
        return [self.official, self.ours, *self.others]

    @property
    def timed(self) -> list[Case]:
        """The cases whose tests both have run."""
        return [case for case, grade in self.official.grades.items() if grade.verdict in ("resolved", "unresolved")]

    @property
    def differences(self) -> list[str]:
        """Between the official harness and ours, and between ours and the other providers."""
        return differences(self.official, self.ours) + [
            line for other in self.others for line in differences(self.ours, other)
        ]

    def figures(self) -> list[Row]:
        """What is aimed at, as ratios."""
        return [*self._against_official(), *self._against_floor()]

    def _against_official(self) -> Iterator[Row]:
        timed = self.timed
        if not timed:
            return
        official, ours = self.official, self.ours
        kinds = {kind for _name, kind in timed}
        all_s = [sum(grader.walls_s[kind] for kind in kinds) for grader in (official, ours)]
        loads = ["load average {:.1f} before and {:.1f} after".format(*grader.load) for grader in (official, ours)]
        grades = f"{len(timed)} grade{'s' if len(timed) > 1 else ''}"
        yield Row(f"{official.name}, wall clock of {grades}", all_s[0], "s", note=loads[0])
        label = f"{ours.name}, wall clock of them"
        yield _compared(label, all_s[1], all_s[0], official.name, Target(0.4), note=loads[1])
        theirs, own = official.median_overhead_s(timed), ours.median_overhead_s(timed)
        least = [min(grader.grades[case].overhead_s for case in timed) for grader in (official, ours)]
        yield Row(f"{official.name}, overhead of a grade", theirs, "s", least[0])
        yield _compared(f"{ours.name}, overhead of a grade", own, theirs, official.name, Target(0.08), least[1])

    def _against_floor(self) -> Iterator[Row]:
        floor, ours = (
            [s for all_s in by_case.values() for s in all_s] for by_case in (self.pairs.floor_s, self.pairs.ours_s)
        )
        if not floor:
            return
        name = "bare API calls"
        yield Row(f"{name}, overhead of a grade", statistics.median(floor), "s", min(floor))
        steps = {step: statistics.median(seconds) for step, seconds in self.pairs.steps_s.items()}
        longest = sorted(((s, step) for step, s in steps.items() if step not in ("total", "tests")), reverse=True)
        note = f"of which, in ms: {', '.join(f'{step} {s * 1e3:.0f}' for s, step in longest[:_SHOWN_STEPS])}"
        label = f"{self.ours.name}, overhead of a grade, in turns with them"
        yield _compared(label, statistics.median(ours), statistics.median(floor), name, Target(1.3), min(ours), note)

    def markdown(self) -> str:
        """All of it."""
        found = self.differences
        title = f"Times, with {self.workers} workers"
        blocks = [
            self.engine,
            "### Verdicts",
            _verdicts(self.graders),
            "\n".join(f"- not run here: provider {name}, {why}" for name, why in self.absent_providers.items()),
            "### Differences",
            "\n".join(f"- {line}" for line in found) or f"None, in {_counted(self.graders)}.",
            section_markdown(Section("parity", title, self.figures(), self.load, self.seconds)),
            _times(self) if self.timed else "",
            "### Beside published figures",
            comparison(self.graders),
            "### Not run here",
            self.not_run,
        ]
        return "\n\n".join(block for block in blocks if block)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "graders": [
                {
                    "name": grader.name,
                    "walls_s": dict(grader.walls_s),
                    "grades": [{"instance_id": c[0], "patch": c[1], **asdict(g)} for c, g in grader.grades.items()],
                }
                for grader in self.graders
            ],
            "differences": self.differences,
            "figures": [row.to_dict() for row in self.figures()],
            "engine": self.engine,
            "load": self.load,
            "workers": self.workers,
            "not_run": self.not_run,
        }


def _compared(
    name: str, value: float, base: float, to: str, target: Target, least: float | None = None, note: str = ""
) -> Row:
    return Row(name, value, "s", least, value / base, to, target, note)


def _counted(graders: Sequence[Grader]) -> str:
    tests = sum(len(grade.statuses) for grader in graders for grade in grader.grades.values())
    return f"{sum(len(grader.grades) for grader in graders)} grades and {tests:,} statuses of tests"


def _verdicts(graders: Sequence[Grader]) -> str:
    header = ("instance", "patch", *(grader.name for grader in graders), "tests")
    cases = list(dict.fromkeys(case for grader in graders for case in grader.grades))
    return grid(header, [(*case, *_said(case, graders)) for case in cases], (len(header) - 1,))


def _said(case: Case, graders: Sequence[Grader]) -> tuple[str, ...]:
    """The verdicts, and how many tests are required."""
    grades = [grader.grades.get(case) for grader in graders]
    tests = max((len(grade.statuses) for grade in grades if grade is not None), default=0)
    return (*("" if grade is None else grade.verdict for grade in grades), str(tests))


def _times(found: Comparison) -> str:
    header = (
        "instance (seconds)",
        "patch",
        "script, official",
        "script, ours",
        "overhead, official",
        "ours",
        "floor",
        "ours, in turns",
    )
    return grid(header, [(*case, *_seconds(case, found)) for case in found.timed], range(2, len(header)))


def _seconds(case: Case, found: Comparison) -> Iterator[str]:
    theirs, ours = found.official.grades[case], found.ours.grades[case]
    for seconds in (theirs.eval_s, ours.eval_s, theirs.overhead_s, ours.overhead_s):
        yield f"{seconds:.2f}"
    for measured in (found.pairs.floor_s.get(case), found.pairs.ours_s.get(case)):
        yield f"{statistics.median(measured):.2f}" if measured else ""
