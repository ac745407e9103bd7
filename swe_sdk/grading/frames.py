"""The columns of frames of outcomes, of task health, and of verdicts given once more."""

from __future__ import annotations

from swe_sdk.model.columns import Column

OUTCOMES = (
    Column("instance_id", "text", "of the task; the index"),
    Column("family", "text", "harness family"),
    Column("status", "text", "resolved, unresolved or masked"),
    Column("reward", "float", "1.0 or 0.0; missing where it is masked, so that means leave it out"),
    Column("reason", "text", "why, in a sentence; empty where every required test passed"),
    Column("mask_kind", "text", "kind of failure; missing where it is a measurement"),
    Column("mask_stage", "text", "where it happened"),
    Column("f2p_passed", "int", "tests of fail_to_pass that passed"),
    Column("f2p", "int", "tests of fail_to_pass"),
    Column("p2p_passed", "int", "tests of pass_to_pass that passed"),
    Column("p2p", "int", "tests of pass_to_pass"),
    Column("patch_applied", "bool", "missing where it was not tried"),
    Column("rung", "text", "the command that applied the patch"),
    Column("seconds", "float", "of the whole grade, in s"),
    Column("flags", "text", "what a reader should know, joined by commas"),
    Column("provider", "text", "sandbox provider"),
    Column("key", "text", "of the contents: equal keys are the same measurement"),
)

HEALTH = (
    Column("instance_id", "text", "of the task; the index"),
    Column("status", "text", "healthy, unhealthy or unknown"),
    Column("gold", "text", "runs of the gold patch that resolved the task, such as 3/3; empty without any"),
    Column("empty", "text", "the same of the empty patch"),
    Column("wrong", "text", "the same of the wrong patch"),
    Column("flaky", "text", "required tests that differ between equal runs, joined by commas"),
    Column("seconds", "float", "of one grade of the gold patch on average, without building, in s"),
    Column("build_s", "float", "until the environment was there, in s"),
    Column("disk_mib", "float", "of the environment, in MiB; missing where it could not be looked at"),
    Column("problems", "text", "what is wrong, joined by semicolons"),
    Column("mask", "text", "why some run was no measurement; empty where all were"),
)

REGRADES = (
    Column("name", "text", "of the rollout or task; the index"),
    Column("instance_id", "text", "of the task"),
    Column("before", "text", "resolved, unresolved or masked, as it was"),
    Column("after", "text", "and as it is now"),
    Column("changed", "bool", "whether the verdict is another one"),
    Column("tests", "int", "required tests whose status differs"),
    Column("why", "text", "reason of the new verdict"),
)
