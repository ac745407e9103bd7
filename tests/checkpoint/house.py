"""All four participants of one process, on simulated time, with helpers that make requests short."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.checkpoint import (
    AgentHooks,
    AgentParticipant,
    CallGate,
    CheckpointSettings,
    Coordinator,
    EpisodeId,
    EpisodeParticipant,
    ModelParticipant,
    ResourcesHooks,
    ResourcesParticipant,
    SeedBody,
)
from swe_sdk.checkpoint.messages import (
    CommitReply,
    CommitRequest,
    PrepareReply,
    PrepareRequest,
    ReleaseReply,
    ReleaseRequest,
    RestoreReply,
    RestoreRequest,
    ResumeReply,
    ResumeRequest,
    RetireRequest,
)
from swe_sdk.checkpoint.participant import Participant
from swe_sdk.checkpoint.store import folder
from swe_sdk.errors import CheckpointError
from tests.checkpoint.virtual import clock


def ep(rollout: str, attempt: int = 1) -> EpisodeId:
    return EpisodeId(rollout_id=rollout, attempt=attempt)


def seed(session: str = "s", episode: EpisodeId | None = None, **fields: Any) -> SeedBody:
    return SeedBody(session_id=session, episode_id=episode or ep("r"), **fields)


class KeepsNothing(ResourcesHooks):
    """Sessions whose state is a dictionary."""

    def __init__(self, mode: Any = "exported") -> None:
        self.mode = mode
        self.states: dict[str, Any] = {}
        self.exported: list[str] = []
        self.released: list[frozenset[str]] = []

    def checkpoint_mode_in_effect(self) -> Any:
        return self.mode

    async def export_session_states(self, ids: Iterable[str], *, checkpoint_id: str) -> dict[str, Any]:
        self.exported.append(checkpoint_id)
        return {one: self.states.get(one) for one in ids}

    async def restore_session_states(self, states: Any) -> None:
        self.states.update(states)

    async def release_external_state(self, kept: frozenset[str]) -> int:
        self.released.append(kept)
        return 1


@dataclass
class House:
    directory: Path
    episodes: EpisodeParticipant
    model: ModelParticipant
    agent: AgentParticipant
    resources: ResourcesParticipant
    gate: CallGate
    coordinator: Coordinator


@asynccontextmanager
async def house(
    directory: Path,
    *,
    agent: AgentHooks | None = None,
    resources: ResourcesHooks | None = None,
    grace_s: float = 600.0,
) -> AsyncIterator[House]:
    shared: dict[str, Any] = {"settings": CheckpointSettings(lease_grace_seconds=grace_s), "clock": clock}
    gate = CallGate()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        built = House(
            directory,
            await enter(EpisodeParticipant(**shared)),
            await enter(ModelParticipant(gate=gate, rows=gate.rows, **shared)),
            await enter(AgentParticipant(hooks=agent, **shared)),
            await enter(ResourcesParticipant(hooks=resources or KeepsNothing(), **shared)),
            gate,
            Coordinator({}, clock=clock),
        )
        built.coordinator.participants = {
            "episodes": built.episodes,
            "model": built.model,
            "agent": built.agent,
            "resources": built.resources,
        }
        yield built


def within(seconds: float) -> dict[str, float]:
    return {"deadline_ts": clock() + seconds}


async def prepare(one: Participant, name: str = "c1", *, seconds: float = 30.0) -> PrepareReply:
    return await one.prepare(PrepareRequest(checkpoint_id=name, **within(seconds)))


async def commit(
    one: Participant,
    directory: Path,
    name: str = "c1",
    *,
    episodes: Iterable[EpisodeId] | None = None,
    seconds: float = 30.0,
) -> CommitReply:
    scope = None if episodes is None else tuple(episodes)
    where = str(directory / name)
    return await one.commit(
        CommitRequest(checkpoint_id=name, checkpoint_dir=where, episode_ids=scope, **within(seconds))
    )


async def restore(
    one: Participant, directory: Path, episodes: Iterable[EpisodeId], name: str = "c1", *, seconds: float = 30.0
) -> RestoreReply:
    request = RestoreRequest(
        checkpoint_id=name, checkpoint_dir=str(directory / name), episode_ids=tuple(episodes), **within(seconds)
    )
    return await one.restore(request)


async def resume(one: Participant, name: str = "c1", *, seconds: float = 30.0) -> ResumeReply:
    return await one.resume(ResumeRequest(checkpoint_id=name, **within(seconds)))


async def release(
    one: Participant, name: str = "c1", kept: Iterable[str] = (), *, seconds: float = 30.0
) -> ReleaseReply:
    return await one.release(ReleaseRequest(checkpoint_id=name, kept=tuple(kept), **within(seconds)))


async def retire(one: Participant, *episodes: EpisodeId, name: str = "retire", seconds: float = 30.0) -> None:
    await one.retire(RetireRequest(checkpoint_id=name, episode_ids=episodes, **within(seconds)))


def saved(one: Any, directory: Path, name: str = "c1") -> list[Any]:
    """The records that a participant has written."""
    place = folder(directory / name, one.kind, one.instance)
    path = next(place.glob("records-*.jsonl"))
    return [one.record_type.model_validate_json(line) for line in path.read_bytes().splitlines()]


class Refused:
    """``with refused("stale_checkpoint"):`` expects that code."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, CheckpointError):
            assert error.code == self.code, error
            return True
        if error is None:
            pytest.fail(f"expected {self.code}")
        return False


refused = Refused


async def settled() -> None:
    """Let everything that can run now run."""
    for _ in range(40):
        await anyio.lowlevel.checkpoint()
