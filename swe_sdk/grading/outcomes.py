"""Many outcomes: counts that keep masks apart, and frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from swe_sdk.grading.frames import OUTCOMES
from swe_sdk.model.columns import frame_of
from swe_sdk.model.outcome import Outcome
from swe_sdk.shown import Shown, from_notebook

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


class Outcomes(Shown, Sequence[Outcome]):
    """Outcomes in the order of their tasks.

    Masked outcomes are no measurements: they are in no mean. ``skipped`` names tasks that were not graded, because
    there was no patch for them; ``path`` is the results directory that holds everything.
    """

    def __init__(self, outcomes: Iterable[Outcome], *, path: Path | None = None, skipped: Iterable[str] = ()) -> None:
        self._outcomes = tuple(outcomes)
        self.path = path
        self.skipped = tuple(skipped)

    @overload
    def __getitem__(self, key: int | str) -> Outcome: ...
    @overload
    def __getitem__(self, key: slice) -> Outcomes: ...
    def __getitem__(self, key: int | str | slice) -> Outcome | Outcomes:
        """By position or by instance id (``KeyError`` where there is none); a slice gives Outcomes."""
        if isinstance(key, str):
            found = next((o for o in self._outcomes if o.instance_id == key), None)
            if found is None:
                raise KeyError(key)
            return found
        if isinstance(key, slice):
            return Outcomes(self._outcomes[key], path=self.path)
        return self._outcomes[key]

    def __len__(self) -> int:
        return len(self._outcomes)

    def __repr__(self) -> str:
        return f"<Outcomes: {self.summary}>"

    @property
    def resolved(self) -> list[Outcome]:
        """Patches that solved their task."""
        return [o for o in self._outcomes if o.status == "resolved"]

    @property
    def unresolved(self) -> list[Outcome]:
        """Patches that did not."""
        return [o for o in self._outcomes if o.status == "unresolved"]

    @property
    def masked(self) -> list[Outcome]:
        """What could not be measured."""
        return [o for o in self._outcomes if o.status == "masked"]

    @property
    def mean_reward(self) -> float | None:
        """Over what was measured; None where nothing was."""
        measured = [o.reward for o in self._outcomes if not o.masked]
        return sum(measured) / len(measured) if measured else None

    @property
    def masked_rate(self) -> float | None:
        """The part of all outcomes that is masked; None where there is no outcome."""
        return len(self.masked) / len(self) if self._outcomes else None

    @property
    def summary(self) -> str:
        """One line."""
        counts = f"{len(self.resolved)} resolved, {len(self.unresolved)} unresolved, {len(self.masked)} masked"
        mean = "" if self.mean_reward is None else f"; mean reward {self.mean_reward:.3f} over what was measured"
        skipped = f"; {len(self.skipped)} without a patch" if self.skipped else ""
        return f"{counts} of {len(self)}{mean}{skipped}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data: counts and all outcomes."""
        return {
            "resolved": len(self.resolved),
            "unresolved": len(self.unresolved),
            "masked": len(self.masked),
            "mean_reward": self.mean_reward,
            "masked_rate": self.masked_rate,
            "skipped": list(self.skipped),
            "path": None if self.path is None else str(self.path),
            "outcomes": [o.model_dump(mode="json") for o in self._outcomes],
        }

    def to_frame(self) -> pd.DataFrame:
        """A row for each outcome; the reward of a masked one is missing, so that means leave it out."""
        return frame_of(OUTCOMES, map(_row, self._outcomes), index="instance_id")

    def plot_outcomes(self, *, ax: Axes | None = None) -> Axes:
        """A bar a family: resolved, unresolved, masked; the rate at its end is over what was measured."""
        drawn: Axes = from_notebook("plots.sources").outcomes_of_outcomes(self, ax)
        return drawn

    def plot_masks(self, *, ax: Axes | None = None) -> Axes:
        """How many masks of which kind happened in which stage."""
        drawn: Axes = from_notebook("plots.sources").masks_of_outcomes(self, ax)
        return drawn


def _row(outcome: Outcome) -> dict[str, Any]:
    tests, mask = outcome.tests, outcome.mask
    return {
        "instance_id": outcome.instance_id,
        "family": outcome.family,
        "status": outcome.status,
        "reward": None if mask else outcome.reward,
        "reason": outcome.reason,
        "mask_kind": mask and mask.kind,
        "mask_stage": mask and mask.stage,
        "f2p_passed": _passed(tests.fail_to_pass),
        "f2p": len(tests.fail_to_pass),
        "p2p_passed": _passed(tests.pass_to_pass),
        "p2p": len(tests.pass_to_pass),
        "patch_applied": outcome.patch.applied,
        "rung": outcome.patch.rung,
        "seconds": outcome.timings_s.get("total"),
        "flags": ", ".join(outcome.flags),
        "provider": outcome.provider,
        "key": outcome.key,
    }


def _passed(tests: dict[str, str]) -> int:
    return sum(status in ("PASSED", "XFAIL") for status in tests.values())
