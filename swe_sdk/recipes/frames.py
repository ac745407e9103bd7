"""The columns of frames of tasks."""

from __future__ import annotations

from swe_sdk.model.columns import Column

TASKS = (
    Column("instance_id", "text", "the index"),
    Column("family", "text", "harness family"),
    Column("repo", "text", "repository"),
    Column("problem_statement", "text", "what the agent is told"),
    Column("hints", "text", "further text that some agents are told; may be empty"),
    Column("base_commit", "text", "commit that the work starts from, where the repository has commits"),
    Column("version", "text", "version of the repository, where the data set says it"),
    Column("created_at", "text", "when the task was made, as the data set writes it"),
    Column("environment", "object", "how its box is made, as plain data"),
)
"""Then a column for each field of ``metadata``, of the type that its values have."""
