"""What a checkpoint can hold of a rollout, case by case."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from swe_sdk.agents.contract import Tier
from swe_sdk.model.budget import Budget
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task
from swe_sdk.rollouts.bookmark import Bookmark, RolloutStage
from swe_sdk.rollouts.lent import Lent
from swe_sdk.rollouts.live import LiveRollout, LiveRollouts
from swe_sdk.rollouts.meter import Meter
from swe_sdk.runs.checkpoints import census as module
from swe_sdk.runs.checkpoints.census import Census, Standing
from swe_sdk.runs.checkpoints.participants import RolloutsParticipant
from swe_sdk.store.events import StepTaken
from swe_sdk.store.writer import RunWriter


@dataclass
class Session:
    """Calls of one attempt."""

    rollout_id: str
    attempt: int = 1
    awaiting_model: bool = False
    is_held: bool = False

    def hold(self) -> None:
        self.is_held = True

    def release(self) -> None:
        self.is_held = False


@dataclass
class Gate:
    """All of them."""

    sessions: tuple[Session, ...] = ()


@dataclass
class House:
    """Rollouts that stand where a test puts them."""

    tier: Tier = "exact"
    can_freeze: bool = True
    gate: Gate = field(default_factory=Gate)
    lives: LiveRollouts = field(default_factory=LiveRollouts)

    def __post_init__(self) -> None:
        self.census = Census(self.lives, tier=self.tier, can_freeze=self.can_freeze, calls=self.gate)
        self.now = 0.0

    def live(self, name: str, following: RolloutStage | None, stage: RolloutStage, **more: Any) -> LiveRollout:
        live = LiveRollout(TASK, name)
        live.stage, live.meter = stage, Meter(Budget(total_s=60), lambda: self.now)
        live.lent = Lent(None)  # type: ignore[arg-type]
        if following is not None:
            live.bookmark = mark(name, following, **more)
        self.lives.add(live)
        return live

    def look(self, name: str) -> Standing:
        (found,) = [one for one in self.census.standings() if one.episode_id.rollout_id == name]
        return found


def mark(name: str, following: RolloutStage, **more: Any) -> Bookmark:
    return Bookmark(rollout_id=name, attempt=1, next=following, budget=Budget(total_s=60), **more)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


TASK: Any = Task.model_construct(instance_id="t")
pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("following", "stage", "tier", "can_freeze", "state"),
    [
        (None, "seed", "exact", True, "restart"),
        ("invoke_agent", "invoke_agent", "exact", True, "running"),
        ("invoke_agent", "invoke_agent", "step", True, "running"),
        ("invoke_agent", "invoke_agent", "paused", True, "running"),
        ("invoke_agent", "invoke_agent", "restart", True, "restart"),
        ("invoke_agent", "invoke_agent", "exact", False, "restart"),
        ("close_agent", "close_agent", "restart", True, "running"),
        ("close_agent", "close_agent", "exact", False, "restart"),
        ("verify", "close_agent", "restart", False, "held"),
        ("verify", "verify", "exact", True, "held"),
        ("return", "verify", "restart", False, "held"),
    ],
)
async def test_who_is_held_and_who_is_waited_for(
    following: RolloutStage | None,
    stage: RolloutStage,
    tier: Tier,
    can_freeze: bool,
    state: Literal["held", "running", "restart"],
) -> None:
    house = House(tier=tier, can_freeze=can_freeze)
    live = house.live("r", following, stage, patch=Patch(data=b"") if following in ("verify", "return") else None)
    house.census.close()
    standing = house.look("r")
    assert standing.state == state
    assert bool(standing.reason) == (state == "restart")
    assert live.park_requested == (state != "restart"), "nobody stands for a checkpoint that cannot hold him"
    house.census.open()
    assert not live.park_requested


async def test_a_call_is_held_only_of_who_has_not_moved() -> None:
    gate = Gate((Session("still", awaiting_model=True), Session("moved", awaiting_model=True)))
    house = House(gate=gate)
    house.live("still", "invoke_agent", "invoke_agent")
    moved = house.live("moved", "invoke_agent", "invoke_agent")
    assert moved.lent is not None
    moved.lent._is_changed = True
    house.census.close()
    assert [house.look(name).state for name in ("still", "moved")] == ["held", "running"]
    assert [session.is_held for session in gate.sessions] == [True, False], "it must come to its next boundary"
    house.census.open()
    assert [session.is_held for session in gate.sessions] == [False, False]


async def test_the_clock_stands_while_a_call_is_held() -> None:
    house = House(gate=Gate((Session("r", awaiting_model=True),)))
    live = house.live("r", "invoke_agent", "invoke_agent")
    assert live.meter is not None
    with live.meter.working():
        house.now = 5
        house.census.close()
        house.census.standings()
        house.now = 8
        bookmark = house.look("r").bookmark
        house.census.open()
        house.now = 10
        assert bookmark is not None
        assert (bookmark.budget.spent_s, bookmark.budget.parked_s) == (5, 3)
        assert (live.meter.budget.spent_s, live.meter.budget.parked_s) == (7, 3)


async def test_who_begins_meanwhile_is_no_part_of_it() -> None:
    house = House()
    house.census.close()
    live = house.live("late", "invoke_agent", "invoke_agent")
    assert (house.look("late").state, live.park_requested) == ("restart", False)
    house.census.open()
    house.census.close()
    assert house.look("late").state == "running"


async def test_what_was_saved_stands_in_for_what_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    house = House()
    house.census.remember({name: mark(name, "invoke_agent", snapshot="snap-1") for name in ("waits", "seeds", "works")})
    house.live("seeds", None, "seed")
    house.live("works", "invoke_agent", "invoke_agent")
    house.live("new", "invoke_agent", "invoke_agent")
    house.census.close()
    found = {one.episode_id.rollout_id: one for one in house.census.standings()}
    assert {name: one.state for name, one in found.items()} == {
        "waits": "held",
        "seeds": "held",
        "works": "held",
        "new": "restart",
    }
    assert all(found[name].live is None for name in ("waits", "seeds", "works"))
    assert found["new"].reason == "it came to no boundary in time"
    house.census.finished("waits")
    house.census.remember({"waits": mark("waits", "invoke_agent")})
    assert "waits" not in house.census.saved, "it is finished, whoever remembers it"


async def test_another_attempt_is_not_where_the_one_before_stood() -> None:
    house = House()
    live = house.live("r", "close_agent", "close_agent")
    live.attempt = 2
    house.census.close()
    assert house.look("r").reason == "its first seed is under way"


@pytest.mark.anyio
async def test_what_was_done_before_the_cut_is_on_the_disk_before_the_checkpoint_is(tmp_path: Path) -> None:
    """Steps are not synced one by one: a machine that dies may lose them, but none that a checkpoint stands on."""
    house = House()
    with RunWriter(tmp_path / "run") as writer:
        async with RolloutsParticipant(house.census, lambda _name: None, writer) as participant:
            writer.append(StepTaken(rollout_id="r", attempt=1, n=1, step_kind="action"))
            assert writer._journal._synced < writer._journal.size
            await participant._export("c1", None)
            assert writer._journal._synced == writer._journal.size
