"""Verdicts that were given once more, beside what they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from swe_sdk.grading.frames import REGRADES
from swe_sdk.model.columns import frame_of
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.record import Record
from swe_sdk.shown import Shown

if TYPE_CHECKING:
    import pandas as pd


class Stored(NamedTuple):
    """A patch that was graded once, and what came of it. ``name``: of its rollout, or of its task."""

    name: str
    patch: Patch
    before: Outcome


class TestChange(NamedTuple):
    """A required test whose status is another one now."""

    name: str
    before: str
    after: str


class Regrade(Shown, Record):
    """One patch's two verdicts."""

    name: str
    before: Outcome
    after: Outcome

    @property
    def changed(self) -> bool:
        """Whether the verdict is another one: resolved, unresolved or masked."""
        return self.before.status != self.after.status

    @property
    def tests(self) -> tuple[TestChange, ...]:
        """Required tests whose status differs; nothing where one of the two measured nothing."""
        if self.before.masked or self.after.masked:
            return ()
        old, new = (each.tests.fail_to_pass | each.tests.pass_to_pass for each in (self.before, self.after))
        names = dict.fromkeys((*old, *new))
        changes = (TestChange(name, old.get(name, "MISSING"), new.get(name, "MISSING")) for name in names)
        return tuple(change for change in changes if change.before != change.after)

    @property
    def line(self) -> str:
        """One line: both verdicts, and the reason of the new one."""
        arrow = f"{self.before.status} -> {self.after.status}" if self.changed else f"still {self.after.status}"
        why = self.after.reason or (self.before.reason if self.changed else "")
        return f"{self.name}: {arrow}{f' ({why})' if why else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the verdicts side by side, and the tests that differ."""
        return {
            "name": self.name,
            "instance_id": self.after.instance_id,
            "changed": self.changed,
            "before": _verdict(self.before),
            "after": _verdict(self.after),
            "tests": {change.name: [change.before, change.after] for change in self.tests},
        }


def _verdict(outcome: Outcome) -> dict[str, Any]:
    parts = {"family", "status", "reward", "reason", "mask", "flags", "provider", "key"}
    return outcome.model_dump(mode="json", include=parts)


class Regrades(Shown, Sequence[Regrade]):
    """Verdicts given once more, in the order in which they were stored.

    ``skipped`` names what could not be graded again, and why. ``path`` is the directory of the new outcomes; the old
    ones stay where they were, as they were.
    """

    def __init__(
        self, regrades: Iterable[Regrade], *, path: Path | None = None, skipped: Mapping[str, str] | None = None
    ) -> None:
        self._regrades = tuple(regrades)
        self.path = path
        self.skipped = dict(skipped or {})

    @overload
    def __getitem__(self, key: int | str) -> Regrade: ...
    @overload
    def __getitem__(self, key: slice) -> Regrades: ...
    def __getitem__(self, key: int | str | slice) -> Regrade | Regrades:
        """By position or by name (``KeyError`` where there is none); a slice gives Regrades."""
        if isinstance(key, str):
            return {each.name: each for each in self._regrades}[key]
        return Regrades(self._regrades[key], path=self.path) if isinstance(key, slice) else self._regrades[key]

    def __len__(self) -> int:
        return len(self._regrades)

    def __repr__(self) -> str:
        return f"<Regrades: {self.summary}>"

    @property
    def changed(self) -> list[Regrade]:
        """Those whose verdict is another one."""
        return [each for each in self._regrades if each.changed]

    @property
    def summary(self) -> str:
        """One line: ``2 of 5 verdicts changed: 1 resolved -> unresolved, 1 masked -> resolved``."""
        kinds = Counter(f"{each.before.status} -> {each.after.status}" for each in self.changed)
        told = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
        skipped = f"; {len(self.skipped)} could not be graded again" if self.skipped else ""
        return f"{len(self.changed)} of {len(self)} verdicts changed{f': {told}' if told else ''}{skipped}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "summary": self.summary,
            "changed": len(self.changed),
            "skipped": self.skipped,
            "path": None if self.path is None else str(self.path),
            "regrades": [each.to_dict() for each in self._regrades],
        }

    def to_frame(self) -> pd.DataFrame:
        """A row for each, indexed by name."""
        return frame_of(REGRADES, map(_row, self._regrades), index="name")


def _row(regrade: Regrade) -> dict[str, Any]:
    return {
        "name": regrade.name,
        "instance_id": regrade.after.instance_id,
        "before": regrade.before.status,
        "after": regrade.after.status,
        "changed": regrade.changed,
        "tests": len(regrade.tests),
        "why": regrade.after.reason,
    }
