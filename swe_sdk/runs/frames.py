"""The columns of frames of runs: rollouts, steps, checkpoints, snapshots."""

from __future__ import annotations

from swe_sdk.model.columns import Column

ROLLOUTS = (
    Column("rollout_id", "text", "<instance id>.<sample>; the index"),
    Column("instance_id", "text", "of the task"),
    Column("sample", "int", "which of the rollouts of its task, from 0"),
    Column("family", "text", "harness family"),
    Column("repo", "text", "repository"),
    Column("agent", "text", "name of the agent"),
    Column("agent_version", "text", "its version, where that is known"),
    Column("model", "text", "name of the model"),
    Column("provider", "text", "sandbox provider"),
    Column("status", "text", "resolved, unresolved, masked, stopped; or queued, running, parked, retrying"),
    Column("stage", "text", "the stage that is going on; missing where none is"),
    Column("attempt", "int", "the attempt that counts, from 1; 0 = none has begun"),
    Column("restored_from", "text", "checkpoint that this attempt went on from"),
    Column("reward", "float", "1.0 or 0.0; missing unless it was measured, so that means leave masks out"),
    Column("mask_kind", "text", "kind of failure; missing where it is not masked"),
    Column("mask_stage", "text", "where that happened"),
    Column("reason", "text", "why it ended as it did"),
    Column("flags", "text", "what a reader should know, joined by commas"),
    Column("total_s", "float", "budget in s; missing where there is no limit"),
    Column("spent_s", "float", "charged to the budget, in s"),
    Column("parked_s", "float", "held for checkpoints and not charged, in s"),
    Column("queued_s", "float", "waited for a place and not charged, in s"),
    Column("remaining_s", "float", "left of the budget, in s; missing where there is no limit"),
    Column("steps", "int", "of the agent, over all attempts"),
    Column("tokens_in", "int", "read by the model"),
    Column("tokens_out", "int", "written by the model"),
    Column("model_calls", "int", "over all attempts"),
    Column("fail_to_pass_passed", "int", "required tests that passed; missing without a grade"),
    Column("fail_to_pass_total", "int", "how many there are"),
    Column("pass_to_pass_passed", "int", "the same of tests that passed before"),
    Column("pass_to_pass_total", "int", "how many there are"),
    Column("patch_sha256", "text", "of the patch that was graded; missing where there was none"),
    Column("queued_at", "time", "when it was planned"),
    Column("started_at", "time", "when its first attempt began"),
    Column("ended_at", "time", "when it was over"),
    Column("seconds", "float", "from the first attempt's start to the end, in s of wall clock"),
    Column("updated_at", "time", "of its newest event"),
)

STEPS = (
    Column("attempt", "int", "from 1"),
    Column("n", "int", "number within the attempt"),
    Column("at", "time", "when it was over"),
    Column("kind", "text", "model, action, message or note"),
    Column("summary", "text", "one line, written by the agent's adapter"),
    Column("seconds", "float", "how long it took, in s"),
    Column("tokens_in", "int", "read by the model"),
    Column("tokens_out", "int", "written by the model"),
)

CHECKPOINTS = (
    Column("checkpoint_id", "text", "the index"),
    Column("status", "text", "kept, released or incomplete"),
    Column("created_at", "time", "when it was complete"),
    Column("prepare_s", "float", "until everything stood, in s"),
    Column("commit_s", "float", "until all was written, in s"),
    Column("resume_s", "float", "until everything went on, in s"),
    Column("rollouts", "int", "rollouts that it holds"),
    Column("snapshots", "int", "sandboxes that it needs"),
    Column("restarts", "int", "rollouts that it does not hold: they would start over"),
    Column("size_bytes", "int", "of its records; snapshots are the provider's"),
    Column("score", "float", "mean reward of the run then, over what was measured"),
)

HELD = (
    Column("rollout_id", "text", "the index"),
    Column("attempt", "int", "the one that was cut"),
    Column("held", "text", "saved, or restart: nothing is held of it"),
    Column("boundary", "text", "where in the rollout it stood"),
    Column("tier", "text", "how its agent was saved"),
    Column("reason", "text", "why it has to start over; empty where it is saved"),
    Column("spent_s", "float", "of its budget by then, in s"),
    Column("steps", "int", "of its agent by then"),
)

SNAPSHOTS = (
    Column("snapshot_id", "text", "the index"),
    Column("state", "text", "kept, released; leaked = kept though nothing needs it, violated = released though needed"),
    Column("checkpoint_id", "text", "under which it was taken"),
    Column("rollout_id", "text", "whose sandbox it is"),
    Column("attempt", "int", "of that rollout"),
    Column("provider", "text", "sandbox provider, which keeps it"),
    Column("node", "text", "machine and cache folder that has it; empty where it is bound to none"),
    Column("copied_to", "text", "folder of shared storage that has it too; empty where none does"),
    Column("size_bytes", "int", "what it takes up; missing where it was not measured"),
    Column("seconds", "float", "that it took to make it, in s"),
    Column("taken_at", "time", "when it was made"),
    Column("released_at", "time", "when it was deleted; missing while it is there"),
    Column("release_reason", "text", "why"),
    Column("referenced_by", "text", "checkpoints that need it, joined by commas"),
    Column("kept_by", "text", "those of them that are kept"),
)
