"""What a grader says of a patch, in one form for all graders."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Case = tuple[str, str]
"""An instance id and a name for its patch: "gold", "wrong", "empty"."""


@dataclass(frozen=True)
class Grade:
    """One verdict, with the status of each required test where tests were run."""

    verdict: str
    """resolved or unresolved; "empty" where the harness left an empty patch alone; else why there is no verdict."""
    statuses: Mapping[str, str] = field(default_factory=dict)
    wall_s: float = 0.0
    eval_s: float = 0.0
    """Of these, the seconds of the evaluation script, or of what stands in it."""
    note: str = ""

    @property
    def resolved(self) -> bool | None:
        """None where there is no verdict."""
        return {"resolved": True, "unresolved": False, "empty": False}.get(self.verdict)

    @property
    def overhead_s(self) -> float:
        """What the grader itself takes."""
        return self.wall_s - self.eval_s


@dataclass(frozen=True)
class Grader:
    """All that one grader said."""

    name: str
    grades: Mapping[Case, Grade]
    walls_s: Mapping[str, float]
    """The wall clock of its commands, from start to end: one for each kind of patches."""
    load: tuple[float, float] = (0.0, 0.0)
    """Load average of the last minute, before and after."""

    def median_overhead_s(self, cases: Iterable[Case]) -> float:
        """Over ``cases``."""
        return statistics.median(self.grades[case].overhead_s for case in cases)


def differences(reference: Grader, other: Grader) -> list[str]:
    """A line on each case that the two do not grade alike, and on each test whose status differs."""
    found = []
    for case, ours in other.grades.items():
        theirs = reference.grades.get(case)
        if theirs is not None:
            found += [f"{case[0]}, {case[1]}: {line}" for line in _different(reference.name, theirs, other.name, ours)]
    return found


def _different(reference: str, theirs: Grade, other: str, ours: Grade) -> list[str]:
    if theirs.resolved is None or theirs.resolved != ours.resolved:
        notes = "; ".join(note for note in (theirs.note, ours.note) if note)
        return [f"{reference} says {theirs.verdict}, {other} {ours.verdict}{f' ({notes})' if notes else ''}"]
    if theirs.verdict == "empty":  # its tests were not run
        return []
    tests = sorted(theirs.statuses.keys() | ours.statuses.keys())
    pairs = [(test, theirs.statuses.get(test), ours.statuses.get(test)) for test in tests]
    return [
        f"{test} is {first} by {reference}, {second} by {other}" for test, first, second in pairs if first != second
    ]
