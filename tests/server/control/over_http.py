"""Participants of this process, reached as others would reach them: through their control routes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import httpx

from swe_sdk.checkpoint import CheckpointSettings
from swe_sdk.checkpoint.participant import REQUESTS, Participant
from swe_sdk.checkpoint.participants.base import BaseParticipant
from swe_sdk.server.control import HttpParticipant, control_app, serve_control
from tests.checkpoint.virtual import clock

TOKEN = "a-token-of-the-tests"
SETTINGS = CheckpointSettings(enabled=True, control_auth_token=TOKEN)  # type: ignore[arg-type]
OPERATIONS = (*REQUESTS, "status")


@asynccontextmanager
async def connected(participant: Participant, **settings: Any) -> AsyncIterator[HttpParticipant]:
    """Over a socket of the loopback, in real time."""
    async with serve_control(participant, SETTINGS) as url, HttpParticipant(url, token=TOKEN, **settings) as client:
        yield client


def asked_by_asgi(participant: Participant) -> HttpParticipant:
    """All of HTTP but the socket, on simulated time."""
    transport = httpx.ASGITransport(control_app(participant, SETTINGS), raise_app_exceptions=False)
    client = httpx.AsyncClient(transport=transport)
    return HttpParticipant("http://participant", token=TOKEN, client=client, clock=clock)


class Calls:
    """How many operations went over HTTP."""

    count = 0


@contextmanager
def everything_over_http() -> Iterator[Calls]:
    """A block in which every participant that is opened is asked over HTTP, whoever asks it."""
    calls, enter = Calls(), BaseParticipant.__aenter__

    async def opened(one: Any) -> Any:
        await enter(one)
        behind: Any = SimpleNamespace(**{each: getattr(one, each) for each in OPERATIONS})
        client = asked_by_asgi(behind)

        def counted(each: str) -> Any:
            async def call(*request: Any) -> Any:
                calls.count += 1
                return await getattr(client, each)(*request)

            return call

        for each in OPERATIONS:
            setattr(one, each, counted(each))
        return one

    with patch.object(BaseParticipant, "__aenter__", opened):
        yield calls
