"""The columns of frames about metrics."""

from __future__ import annotations

from swe_sdk.model.columns import Column

COMPARISON = (
    Column("instance_id", "text", "of the task; the index"),
    Column("family", "text", "harness family"),
    Column("change", "text", "gained, lost, same, masked, only in a, only in b"),
    Column("verdict_a", "text", "resolved, unresolved or masked; of several samples such as 3/4 resolved"),
    Column("verdict_b", "text", "the same in b"),
    Column("rate_a", "float", "part of the measured samples that is resolved, 0 to 1; missing where none was measured"),
    Column("rate_b", "float", "the same in b"),
    Column("difference", "float", "rate_b less rate_a, -1 to 1; missing where one of them is"),
    Column("measured_a", "int", "samples that are measurements"),
    Column("measured_b", "int", "the same in b"),
    Column("masked_a", "int", "samples that could not be measured; they are in no rate"),
    Column("masked_b", "int", "the same in b"),
)

METRICS = (
    Column("metric", "text", "name of the number; the index"),
    Column("value", "float", "missing where nothing was measured"),
    Column("low", "float", "lower bound, 95 % confidence; missing where there is no interval"),
    Column("high", "float", "upper bound"),
    Column("count", "int", "of how many rollouts, tasks or stages it is"),
    Column("unit", "text", "rollouts, part (0 to 1), or s"),
)
