"""The client: what it asks for again, for how long, and what it raises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from swe_sdk.checkpoint.codes import CODES
from swe_sdk.checkpoint.messages import (
    ForgetRequest,
    ReleaseRequest,
    RenewRequest,
)
from swe_sdk.errors import CheckpointError
from swe_sdk.server.control import HttpParticipant, NotAParticipant, ParticipantUnreachable, find_participants
from tests.checkpoint.house import commit, ep, house, prepare, refused, restore, resume, retire, within
from tests.checkpoint.virtual import clock, simulated
from tests.server.control.over_http import TOKEN, asked_by_asgi

Answer = Callable[[httpx.Request], httpx.Response]


def client_of(answer: Answer) -> HttpParticipant:
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return HttpParticipant("http://server/", token=TOKEN, client=http, clock=clock)


def resumed(_request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={"checkpoint_id": "c1", "phase": "idle", "of_a_newer_server": 1})


class Failing:
    """Fails so many times, then answers."""

    def __init__(self, times: int, failure: Any, then: Answer = resumed) -> None:
        self.left, self.failure, self.then = times, failure, then
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if self.left == 0:
            return self.then(request)
        self.left -= 1
        if isinstance(self.failure, Exception):
            raise self.failure
        return httpx.Response(self.failure, text="a gateway says no")


@pytest.mark.parametrize(
    "failure", [httpx.ConnectError("no"), httpx.ReadError("reset"), httpx.RemoteProtocolError("cut"), 502, 503, 504]
)
@simulated
async def test_what_was_lost_on_its_way_is_asked_for_again(failure: Any) -> None:
    answer = Failing(3, failure)
    assert (await resume(client_of(answer))).phase == "idle"
    assert len(answer.asked) == 4
    first, last = answer.asked[0], answer.asked[-1]
    assert first.content == last.content
    assert b'"c1"' in first.content
    assert first.url.path == "/ng-control/v1/checkpoint/resume"
    assert first.headers["authorization"] == f"Bearer {TOKEN}"


@simulated
async def test_it_is_asked_for_until_the_deadline_and_not_longer() -> None:
    answer = Failing(10**6, httpx.ConnectError("no"))
    started = clock()
    with pytest.raises(ParticipantUnreachable, match="resume at http://server: ConnectError") as raised:
        await resume(client_of(answer), seconds=10)
    assert 5 <= clock() - started <= 10
    assert raised.value.code == "checkpoint_coordinator_unavailable"
    assert 5 < len(answer.asked) < 20


@pytest.mark.parametrize("code", sorted(set(CODES) - {"checkpoint_coordinator_unavailable"}))
@simulated
async def test_a_refusal_is_raised_as_it_was_and_never_asked_for_again(code: Any) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(CODES[code].status, json={"error": {"code": code, "detail": "because"}})

    with pytest.raises(CheckpointError, match="because") as raised:
        await resume(client_of(answer))
    assert (raised.value.code, len(asked)) == (code, 1)


@simulated
async def test_an_answer_that_is_none_is_an_error_of_one_line() -> None:
    for answer in (
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"phase": "asleep"}),
        httpx.Response(500, text="Internal Server Error"),
        httpx.Response(302, headers={"Location": "http://elsewhere/"}),
    ):
        with refused("checkpoint_error"):
            await resume(client_of(lambda _request, answer=answer: answer))  # type: ignore[misc]


@simulated
async def test_the_name_that_reviews_gave_to_a_missed_deadline_is_understood() -> None:
    told = {"error": {"code": "checkpoint_deadline_exceeded", "detail": "late"}}
    with refused("deadline_exceeded"):
        await resume(client_of(lambda _request: httpx.Response(409, json=told)))


@simulated
async def test_servers_without_control_routes_are_left_out_and_silent_ones_are_not(tmp_path: Path) -> None:
    missing = client_of(lambda _request: httpx.Response(404, text="Not Found"))
    with pytest.raises(NotAParticipant):
        await missing.status()
    async with house(tmp_path) as home:
        agent = asked_by_asgi(home.agent)
        assert await find_participants({"agent": agent, "files": missing}) == {"agent": agent}
        silent = client_of(Failing(10**6, httpx.ConnectError("no")))
        started = clock()
        with pytest.raises(ParticipantUnreachable):
            await find_participants({"agent": agent, "model": silent})
        assert 50 <= clock() - started <= 60


@simulated
async def test_every_operation_and_what_it_refuses_is_the_same_as_without_http(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        one = asked_by_asgi(home.episodes)
        async with home.episodes.episode(ep("r"), task="t", total_s=100) as episode:
            with refused("invalid_phase"):
                await commit(one, tmp_path)
            assert not (await prepare(one, seconds=0.5)).report.ready
            async with episode.step("replay"):
                assert (await prepare(one, seconds=5)).report.episodes == (ep("r"),)
                status = await one.status()
                assert (status.kind, status.phase, status.checkpoint_id) == ("environment", "prepared", "c1")
                assert status == await home.episodes.status()
                with refused("checkpoint_conflict"):
                    await prepare(one, "c2")
                written = await commit(one, tmp_path, episodes=[ep("r")])
                assert written.record_count == 1
                assert written == await commit(one, tmp_path, episodes=[ep("r")])
                renewed = await one.renew(RenewRequest(checkpoint_id="c1", **within(50)))
                assert renewed.lease_expires_at == home.episodes.control.lease_expires_at
                await resume(one)
        with refused("stale_checkpoint"):
            await prepare(one)
        with refused("deadline_exceeded"):
            await prepare(one, "c2", seconds=-1)
        await retire(one, ep("r"))
        assert (await one.status()).retired_rollouts == {"r": 1}
        forgotten = await one.forget(ForgetRequest(checkpoint_id="f", rollout_ids=("r", "other"), **within(5)))
        assert forgotten.forgotten == ("r",)
        released = await one.release(ReleaseRequest(checkpoint_id="c1", kept=("c1",), **within(5)))
        assert released.kept == ("c1",)
    async with house(tmp_path) as home:
        one = asked_by_asgi(home.episodes)
        assert (await restore(one, tmp_path, [ep("r")])).restored == 1
        assert (await one.status()).extras == {"restored_pending": 1}
