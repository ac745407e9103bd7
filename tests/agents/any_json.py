"""Lines that look like those of a harness, and hold anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

_NAMES = (
    "action", "command", "content", "data", "end", "error", "event", "exit", "input", "kind", "message", "metadata",
    "name", "observation", "output", "source", "start", "state", "status", "statusCode", "text", "thought", "time",
    "tokens", "tool", "tool_name",
)  # fmt: skip
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=4),
    max_leaves=10,
)


def lines(*kinds: str, fields: Sequence[str], key: str = "type") -> st.SearchStrategy[list[dict[str, Any]]]:
    """Some lines whose ``key`` is one of ``kinds``, with any of the other fields."""
    line = st.fixed_dictionaries({key: st.sampled_from(kinds) | _ANY}, optional=dict.fromkeys(fields, _ANY))
    return st.lists(line, max_size=6)
