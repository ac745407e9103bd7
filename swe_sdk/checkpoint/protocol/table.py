"""The rules of the protocol, one row an operation. Data: the machine reads it, the docs show it, tests compare both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from swe_sdk.checkpoint.messages import Operation, Phase

Fence = Literal["resumed", "not newest", "nothing"]


@dataclass(frozen=True)
class Rule:
    """When an operation is allowed, and what it does to the phase."""

    operation: Operation
    opens: bool
    """Whether a new checkpoint id may begin with it, in idle."""
    idle: bool
    """Whether it works in idle without opening anything."""
    open_phases: tuple[Phase, ...]
    """The phases of its own checkpoint in which it is allowed."""
    during: Phase | None = None
    """The phase while it works; None = unchanged."""
    done: Phase | None = None
    """The phase after it; None = unchanged."""
    failed: Phase | None = None
    """The phase after it failed; None = the one before."""
    keeps_reply: bool = False
    """Whether a repetition gets the first reply, and one with other arguments is a conflict."""
    leases: bool = False
    """Whether the lease becomes its deadline plus the grace period, if that is later."""
    fence: Fence = "resumed"
    """Which ids it refuses as stale: those already resumed, all but the newest resumed one, or none."""
    needs_time: bool = True
    """Whether it is refused once its deadline has passed."""
    effect: str = ""
    trouble: str = ""


_ROWS = (
    Rule(
        "prepare",
        opens=True,
        idle=False,
        open_phases=("preparing", "prepared"),
        during="preparing",
        done="prepared",
        failed="idle",
        keeps_reply=True,
        leases=True,
        effect="closes admission; waits until nothing is at work that must not be cut",
        trouble="deadline missed: returns the blockers, stays preparing and closed; an exception opens again",
    ),
    Rule(
        "renew",
        opens=False,
        idle=False,
        open_phases=("preparing", "prepared", "committed", "restored"),
        leases=True,
        effect="extends the lease",
        trouble="-",
    ),
    Rule(
        "commit",
        opens=False,
        idle=False,
        open_phases=("prepared",),
        done="committed",
        keeps_reply=True,
        effect="looks again whether all is ready; exports and writes, the manifest last",
        trouble="deadline missed: the export goes on, and a retry awaits it; failed: stays prepared",
    ),
    Rule(
        "restore",
        opens=True,
        idle=False,
        open_phases=(),
        during="restored",
        done="restored",
        failed="idle",
        keeps_reply=True,
        leases=True,
        effect="closes admission; reads, checks digest and count; installs what is in scope, all or nothing",
        trouble="failed: what was installed is taken away, then it opens",
    ),
    Rule(
        "resume",
        opens=False,
        idle=True,
        open_phases=("preparing", "prepared", "committed", "restored"),
        done="idle",
        fence="nothing",
        needs_time=False,
        effect="opens; ends a write that has no manifest yet; the id is stale from now on, even if never seen",
        trouble="stays closed while something is still being cleaned up; a retry or the lease opens it",
    ),
    Rule(
        "retire",
        opens=False,
        idle=True,
        open_phases=("restored",),
        effect="marks attempts as over, then stops their work and frees their state",
        trouble="the mark holds whatever happens; a retry stops nothing twice",
    ),
    Rule(
        "forget",
        opens=False,
        idle=True,
        open_phases=("restored",),
        effect="drops the marks of rollouts",
        trouble="-",
    ),
    Rule(
        "release",
        opens=False,
        idle=True,
        open_phases=(),
        keeps_reply=True,
        fence="not newest",
        effect="frees what only checkpoints outside the kept ones need; admission stays open",
        trouble="cut at its deadline: may be repeated",
    ),
)
RULES: Mapping[Operation, Rule] = {rule.operation: rule for rule in _ROWS}
"""By operation; ``status`` has no rule: it is always allowed and changes nothing."""

RESUMED_MEMORY = 64
"""How many resumed ids a participant remembers."""


def rule_cells(rule: Rule) -> tuple[str, ...]:
    """A row of the table in the docs: operation, allowed in, effect, phase afterwards, repeated, trouble."""
    allowed = [*(["idle"] if rule.opens or rule.idle else []), *(f"{phase}" for phase in rule.open_phases)]
    after = rule.done or "unchanged"
    repeated = "first reply" if rule.keeps_reply else "done again"
    return (f"`{rule.operation}`", ", ".join(allowed), rule.effect, after, repeated, rule.trouble)
