"""Three small servers of several workers each: episodes, an agent whose steps take a while, and the logs it writes to.

One rollout is one ``POST /run`` to the environment, which seeds an agent and a log, lets the agent do its steps, and
reads the log. Every step is one line of it; each line must stand there once, whatever was killed meanwhile.
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from swe_sdk.checkpoint import AgentParticipant, EpisodeId, EpisodeParticipant, ResourcesHooks, ResourcesParticipant
from swe_sdk.checkpoint.hooks import SeedBody
from swe_sdk.checkpoint.participants.activation import Activation
from swe_sdk.checkpoint.participants.episode import Episode
from swe_sdk.errors import CheckpointError
from swe_sdk.server.control.workers import Member
from swe_sdk.server.control.workers.child import Served
from swe_sdk.server.wire import read_error, refusal

TOTAL_S = 1000.0
ENDS = "SWE_SDK_TESTS_ENDS"
"""Names the folder where workers of :func:`slow_to_end` say that they have cleaned up."""


def app_of(**endpoints: Any) -> Starlette:
    """One POST route each."""

    def answering(endpoint: Any) -> Any:
        async def answer(request: Request) -> Response:
            try:
                return JSONResponse(await endpoint(await request.json()))
            except CheckpointError as error:
                return refusal(error)

        return answer

    return Starlette(routes=[Route(f"/{name}", answering(one), methods=["POST"]) for name, one in endpoints.items()])


async def post(url: str, path: str, body: Mapping[str, Any], cookies: dict[str, str]) -> Any:
    """The reply; cookies that come with it are kept in ``cookies``."""
    async with httpx.AsyncClient(cookies=cookies, timeout=120, verify=False) as client:
        answer = await client.post(f"{url}/{path}", json=body)
        if answer.is_error:
            raise read_error(answer.status_code, answer.content)
        cookies.update({one.name: str(one.value) for one in answer.cookies.jar})
        return answer.json()


class Logs(ResourcesHooks):
    def __init__(self) -> None:
        self.logs: dict[str, list[int]] = {}

    def checkpoint_mode_in_effect(self) -> Any:
        return "exported"

    async def export_session_states(self, ids: Any, *, checkpoint_id: str) -> Mapping[str, Any]:
        await anyio.sleep(random.uniform(0, 0.05))
        return {one: list(self.logs[one]) for one in ids}

    async def restore_session_states(self, states: Mapping[str, Any]) -> None:
        self.logs.update({one: list(log) for one, log in states.items()})

    async def retire_session_state(self, session_id: str) -> None:
        self.logs.pop(session_id, None)


@asynccontextmanager
async def resources(member: Member) -> AsyncIterator[Served]:
    hooks = Logs()
    participant = ResourcesParticipant("logs", hooks=hooks)

    async def append(body: Any) -> Any:
        async with participant.request(body["session"], EpisodeId.model_validate(body["episode"])):
            log = hooks.logs.setdefault(body["session"], [])
            log += body["lines"]
            await anyio.sleep(random.uniform(0, 0.01))
            return list(log)

    yield Served(participant, app_of(append=append))


@asynccontextmanager
async def agent(member: Member) -> AsyncIterator[Served]:
    participant = AgentParticipant("agent")

    async def seed(body: Any) -> Any:
        return (await participant.seed(SeedBody.model_validate(body))).model_dump(mode="json")

    async def activate(body: Any) -> Any:
        episode = EpisodeId.model_validate(body["episode"])

        async def work(activation: Activation) -> Any:
            begun = activation.take_continuation() or {"step": 0}
            for step in range(begun["step"], body["steps"]):
                await activation.boundary({"step": step})
                async with activation.awaiting_model():
                    await anyio.sleep(random.uniform(0, body["pace_s"]))
                line = {"session": body["log"], "episode": episode.model_dump(), "lines": [step + 1]}
                await post(body["logs"], "append", line, body["log_cookies"])
            return {"steps": body["steps"]}

        return await participant.activate(body["session"], 1, work, episode_id=episode)

    yield Served(participant, app_of(seed=seed, activate=activate))


@asynccontextmanager
async def environment(member: Member) -> AsyncIterator[Served]:
    participant = EpisodeParticipant("episodes", claims=member)

    async def run(body: Any) -> Any:
        me = EpisodeId.model_validate(body["episode"])
        async with participant.episode(me, task=body["task"], total_s=TOTAL_S) as episode:
            return await turn(episode, body["task"], body["servers"])
        raise CheckpointError("stale_attempt", f"{me} was stopped: {episode.ended_by}")

    yield Served(participant, app_of(run=run))


@asynccontextmanager
async def slow_to_end(member: Member) -> AsyncIterator[Served]:
    """A worker that takes a second to clean up."""
    yield Served(AgentParticipant(), Starlette())
    with anyio.CancelScope(shield=True):
        await anyio.sleep(1)
    (Path(os.environ[ENDS]) / member.name).touch()


async def turn(episode: Episode, task: Any, servers: Mapping[str, str]) -> Any:
    """Seeds, the agent's work, and what stands in the log in the end."""
    fresh = {"session": uuid4().hex, "agent_cookies": {}, "log_cookies": {}, "is_seeded": False}
    mark, me = episode.take_continuation() or fresh, episode.id.model_dump()
    restored_from = episode.budget.spent_s
    if not mark["is_seeded"]:
        await episode.boundary(mark)
        async with episode.step("replay"):
            await post(
                servers["logs"], "append", {"session": mark["session"], "episode": me, "lines": []}, mark["log_cookies"]
            )
            seed = {"session_id": mark["session"], "episode_id": me}
            await post(servers["agent"], "seed", seed, mark["agent_cookies"])
        mark["is_seeded"] = True
        await episode.boundary(mark)
    async with episode.step("replay"):
        asked = {**task, "logs": servers["logs"], "log_cookies": mark["log_cookies"]}
        asked |= {"session": mark["session"], "log": mark["session"], "episode": me}
        await post(servers["agent"], "activate", asked, mark["agent_cookies"])
    async with episode.step("replay"):
        reading = {"session": mark["session"], "episode": me, "lines": []}
        log = await post(servers["logs"], "append", reading, mark["log_cookies"])
    return {"log": log, "spent_s": episode.budget.spent_s, "restored_from": restored_from}
