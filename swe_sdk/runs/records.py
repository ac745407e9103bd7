"""From a rollout of a run to a record that stands for itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swe_sdk.exports.record import RolloutRecord, Turn
from swe_sdk.model.outcome import Mask, Outcome, PatchReport
from swe_sdk.model.patch import Patch
from swe_sdk.runs.rollout import Rollout


def rollout_record_of(rollout: Rollout, *, statement: str = "", config: Mapping[str, Any]) -> RolloutRecord:
    """A finished rollout, its patch included; ``statement`` and ``config`` are its task's and its run's."""
    row, patch = rollout.row, rollout.patch
    stages = [stage for stage in rollout.stages if stage.attempt == row.attempt]
    attempt = next((each for each in rollout.attempts if each.attempt == row.attempt), None)
    return RolloutRecord(
        rollout_id=row.rollout_id,
        instance_id=row.instance_id,
        sample=row.sample,
        attempt=max(1, row.attempt),
        agent=row.agent,
        agent_version=row.agent_version,
        model=row.model,
        problem_statement=statement,
        outcome=_final_outcome(rollout, patch),
        patch=patch,
        end_reason=(attempt.end_reason or "") if attempt is not None else "",
        budget=rollout.budget,
        queued_s=row.queued_s,
        stages_s={stage.stage: stage.seconds for stage in stages if stage.seconds is not None},
        stages_at={stage.stage: stage.started_at for stage in stages if stage.started_at is not None},
        turns=tuple(
            Turn(kind=step.step_kind, seconds=step.seconds, tokens_in=step.tokens_in, tokens_out=step.tokens_out)
            for step in rollout.steps
            if step.attempt == row.attempt
        ),
        config=dict(config),
    )


def _final_outcome(rollout: Rollout, patch: Patch) -> Outcome:
    """What it is worth; made of its mask where it never came to a grade."""
    outcome = rollout.outcome
    if outcome is not None:
        return outcome
    mask = rollout.mask or Mask(kind="internal_error", stage="agent", reason=rollout.row.reason or "it left no outcome")
    return Outcome(
        instance_id=rollout.instance_id,
        family=rollout.row.family,
        status="masked",
        reward=0.0,
        mask=mask,
        patch=PatchReport(exists=patch.exists, sha256=patch.sha256),
        reason=mask.reason,
        provider=rollout.row.provider,
    )
