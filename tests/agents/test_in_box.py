"""What agents in the box share: lines out of pieces, and what they are told."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.agents.contract import AgentTask
from swe_sdk.agents.in_box.lines import Lines, json_object
from swe_sdk.agents.in_box.prompt import ISSUE_PROMPT, issue_prompt

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=5)


@given(st.binary(max_size=300), st.lists(st.integers(1, 50), max_size=20))
def test_lines_are_the_same_however_they_come(data: bytes, sizes: list[int]) -> None:
    reader, found, at = Lines(), [], 0
    for size in [*sizes, len(data) + 1]:
        found += reader.feed(data[at : at + size])
        at += size
    assert found == data.split(b"\n")[:-1]


def test_a_line_without_end_is_not_kept() -> None:
    reader = Lines(max_line_bytes=100)
    for _ in range(1000):
        assert list(reader.feed(b"x" * 50)) == []
    assert list(reader.feed(b"\nnext\n")) == [b"next"]


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=3))
def test_an_object_on_a_line(value: dict[str, Any]) -> None:
    assert json_object(json.dumps(value).encode()) == value


def test_what_is_no_object() -> None:
    for line in (b"", b"{", b"[1]", b"1", b"npm warn {}", b'{"a": ' + b"[" * 100_000, b"\xff{}", b'{"\xff": 1}'):
        assert json_object(line) is None


def test_a_statement_is_put_in_as_it_is() -> None:
    statement = "{workdir} and {hints} and {x} and %s stay\n"
    task = AgentTask(instance_id="a", problem_statement=statement, workdir="/testbed", hints="no")
    assert statement in issue_prompt(ISSUE_PROMPT, task)
    assert "repository in /testbed has" in issue_prompt(ISSUE_PROMPT, task)
    assert issue_prompt("{a} {hints}", task) == "{a} no"
