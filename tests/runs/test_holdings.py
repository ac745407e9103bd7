"""Where a rollout goes on, and which checkpoints nobody needs any more: decided without looking at any disk."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from swe_sdk.checkpoint.snapshots.checkpointer import SandboxState
from swe_sdk.model.budget import Budget
from swe_sdk.rollouts.bookmark import Bookmark
from swe_sdk.runs.checkpoints.holdings import Holding, of_finished, ways, why_not
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.store.checkpoints import series_of

HERE, AWAY = "here-1", "away-2"


def holding(number: int, node: str | None, snapshot: str = "snap-1", attempt: int = 1) -> Holding:
    mark = Bookmark(
        rollout_id="r.0",
        attempt=attempt,
        next="verify" if node is None else "invoke_agent",
        budget=Budget(total_s=60),
        checkpoint_id=f"checkpoint.{number:08x}-000001-abcdef",
    )
    state = None
    if node is not None:
        spec = SandboxSpec()
        facts: dict[str, Any] = {"provider_name": "local", "descriptor": {}, "snapshot_at": 0.0}
        state = SandboxState(snapshot_id=snapshot, node=node, spec=spec, **facts)
    return Holding(mark, float(number), "digest", state)


nodes = some.sampled_from([None, "", HERE, AWAY])
snapshots = some.sampled_from(["snap-1", "snap-2", "snap-3"])
held = some.lists(some.builds(holding, some.integers(0, 9), nodes, snapshots), max_size=6)


@given(held, some.sets(snapshots), some.sets(snapshots))
def test_a_snapshot_is_used_where_its_record_says_that_it_is(
    listed: list[Holding], there: set[str], copied: set[str]
) -> None:
    found = list(
        ways(listed, here=HERE, there=there, is_copied=lambda one: bool(one.state and one.state.snapshot_id in copied))
    )
    assert [one for _, one in found] == [one for one in listed if one in [each for _, each in found]], "in their order"
    for way, one in found:
        if way == "plain":
            assert one.state is None, "it needs no sandbox"
        elif way == "here":
            assert one.node in ("", HERE)
            assert one.state is not None
            assert one.state.snapshot_id in there
        else:
            assert one.state is not None
            assert one.state.snapshot_id in copied
    for one in listed:
        usable = one.state is None or (one.node in ("", HERE) and one.state.snapshot_id in there)
        assert (one in [each for _, each in found]) >= usable, "nothing that could go on starts over"


def test_an_id_of_another_node_is_not_trusted() -> None:
    assert list(ways([holding(1, AWAY)], here=HERE, there={"snap-1"}, is_copied=lambda _one: False)) == []


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (
            holding(1, AWAY),
            f"has its sandbox on the node {AWAY}, and this is {HERE}; too late; snapshots are not copied",
        ),
        (holding(1, HERE), f"is gone from {HERE}; too late; snapshots are not copied"),
    ],
)
def test_why_it_starts_over_is_said(one: Holding, expected: str) -> None:
    assert expected in why_not([one], here=HERE, shared=False, missed="too late", failures=[])
    assert "no copy of it is complete" in why_not([one], here=HERE, shared=True, missed="", failures=[])
    assert why_not([one], here=HERE, shared=True, missed="", failures=["its copy is damaged"]).endswith("is damaged")


rollouts = some.sets(some.sampled_from("abcd"))
checkpoints = some.sampled_from(
    [f"checkpoint.{series:08x}-{number:06d}-abcdef" for series in range(3) for number in range(3)]
)


@given(some.dictionaries(checkpoints, rollouts, max_size=8), rollouts)
def test_a_series_goes_once_all_that_it_holds_is_finished(held: dict[str, set[str]], unfinished: set[str]) -> None:
    gone = set(of_finished(held, unfinished))
    assert gone <= held.keys()
    for series in map(series_of, held):
        its = {name for name in held if series_of(name) == series}
        assert its <= gone or not its & gone, "all of a series, or none: an older one may be gone back to"
        assert (its <= gone) == (not set().union(*(held[name] for name in its)) & unfinished)
