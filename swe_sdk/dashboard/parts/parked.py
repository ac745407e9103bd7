"""Which rollouts are parked now: they stand, for a checkpoint, and no time is charged to them."""

from __future__ import annotations

from collections.abc import Iterable

from swe_sdk.dashboard.components import notice
from swe_sdk.dashboard.escape import Html, el
from swe_sdk.dashboard.run_state import state_of
from swe_sdk.dashboard.show import tone
from swe_sdk.dashboard.state import State
from swe_sdk.store.rows import RunRow


def parked_mark(runs: Iterable[RunRow]) -> Html | None:
    """How many rollouts of some runs are parked, as a link to them; None where none is."""
    found = [row for row in runs if row.counts.get("parked")]
    if not found:
        return None
    number = sum(row.counts["parked"] for row in found)
    target = State(view="rollouts", run=tuple(row.run for row in found), status=("parked",))
    is_going = any(state_of(row).is_going for row in found)
    why = "they stand for a checkpoint, and are charged nothing" if is_going else "they stood when their process died"
    return el("a", f"{number:,} parked", href=f"?{target.query}", cls=f"toned {tone('status', 'parked')}", title=why)


def parked_notice(row: RunRow) -> Html | None:
    """The same for the page of one run, in a sentence."""
    mark = parked_mark([row])
    if mark is None:
        return None
    if state_of(row).is_going:
        return notice("A checkpoint is being taken: ", mark, " until it is saved, and their budgets stand with them.")
    return notice("Its process died while a checkpoint was being taken: ", mark, " then.")
