"""The little that metrics need to know of a rollout."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from swe_sdk.model.budget import Budget
from swe_sdk.model.record import Record

_OWN_DOING = frozenset(
    {
        *(("agent", kind) for kind in ("budget_spent", "timeout", "step_limit", "context_window", "memory_limit")),
        ("close_agent", "memory_limit"),
        ("tests", "memory_limit"),
        ("tests", "timeout"),
    }
)
"""Stage and kind of failures that are the agent's or its patch's own, also where a policy masks them."""
FactStatus = Literal["resolved", "unresolved", "masked", "unfinished"]


class RolloutFacts(Record):
    """One rollout as metrics see it: its last attempt, reduced to numbers. One that was stopped is unfinished."""

    rollout_id: str
    instance_id: str
    status: FactStatus
    mask_kind: str | None = None
    mask_stage: str | None = None
    budget: Budget = Budget()
    attempts: int = 1

    @model_validator(mode="after")
    def _consistent(self) -> RolloutFacts:
        if (self.status == "masked") != (self.mask_kind is not None):
            raise ValueError("a rollout has the kind of a mask if and only if it is masked")
        return self

    @property
    def is_infrastructure_failure(self) -> bool:
        """Masked, neither by somebody's wish to stop nor, as some policies do, for what the agent or its patch did."""
        own_doing = (self.mask_stage, self.mask_kind) in _OWN_DOING
        return self.status == "masked" and self.mask_kind != "cancelled" and not own_doing
