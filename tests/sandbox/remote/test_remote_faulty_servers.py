"""Servers that answer wrongly, for ever, or about others. Both wires."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from swe_sdk.errors import CreateFailed, SandboxError, SweError
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.e2b import envd, http
from swe_sdk.sandbox.providers.opensandbox import bounded, client, failures
from swe_sdk.sandbox.providers.remote.box import RemoteBox
from swe_sdk.sandbox.providers.remote.calls import Calls
from swe_sdk.sandbox.providers.remote.engine import Upload
from swe_sdk.sandbox.providers.remote.failures import Refused, Silent
from tests.sandbox.remote.faulty import Request, faulty
from tests.sandbox.remote.wires import (
    IMPATIENT,
    KEY,
    OURS,
    WANTED,
    engine_on,
    page,
    provider_on,
    sandbox,
    snapshot,
)

pytestmark = pytest.mark.anyio


# -- what belongs to others --------------------------------------------------------------------------------------------


async def test_sandboxes_of_others_in_a_list_are_nobodys_here(wire: str, tmp_path: Path) -> None:
    """A server that ignores what is asked for must not make us end what it tells of: a create whose answer was lost
    looks for its sandbox, and a box that was never there is ended by its label."""

    def script(request: Request) -> None:
        if request.command == "GET":
            body, headers = page(wire, [sandbox(wire, "theirs", {"owner": "them"}), sandbox(wire, "bare", {})])
            request.tell(body, **headers)
        else:
            request.tell({"message": "gone wrong"}, 502)

    with faulty(script) as server:
        async with engine_on(wire, server, tmp_path) as engine:
            assert await engine.sandboxes(OURS) == []
            with pytest.raises(SandboxError):
                await engine.create(WANTED)
            state = {"state": tmp_path, "api_key": KEY}
            provider = provider_on(wire, server, **state)
            with pytest.raises(SweError):
                await provider.create(SandboxSpec(image="image"))
            await provider.aclose()
    assert not [one for one in server.asked if one.startswith("DELETE")]


async def test_snapshots_of_other_names_are_not_the_one(wire: str, tmp_path: Path) -> None:
    """Nor deleted with it."""

    def script(request: Request) -> None:
        body, headers = page(wire, [snapshot(wire, "snap-theirs"), snapshot(wire, "snap-ours")])
        request.tell(body, **headers)

    with faulty(script) as server:
        async with engine_on(wire, server, tmp_path) as engine:
            assert [one.id for one in await engine.snapshots("snap-ours")] == ["snap-ours-id"]
            assert len(await engine.snapshots()) == 2


# -- what never ends ---------------------------------------------------------------------------------------------------


async def test_pages_that_come_again_are_an_error(wire: str, tmp_path: Path) -> None:
    def script(request: Request) -> None:
        if "snapshots" in request.path:
            body, headers = page(wire, [snapshot(wire, "snap-1")], more="again")
        else:
            body, headers = page(wire, [sandbox(wire, "s1", OURS)], more="again")
        request.tell(body, **headers)

    with faulty(script) as server, anyio.fail_after(20):
        async with engine_on(wire, server, tmp_path) as engine:
            for look in (lambda: engine.sandboxes(OURS), engine.snapshots):
                with pytest.raises(Refused, match="end"):
                    await look()
    assert len(server.asked) < 10


async def test_things_that_are_told_twice_are_there_once(wire: str, tmp_path: Path) -> None:
    def script(request: Request) -> None:
        number = int(request.query.get("nextToken" if wire == "e2b" else "page", "1"))
        told = [sandbox(wire, f"s{number}", OURS), sandbox(wire, f"s{number + 1}", OURS)]
        body, headers = page(wire, told, more=str(number + 1) if number < 3 else "")
        request.tell(body, **headers)

    with faulty(script) as server:
        async with engine_on(wire, server, tmp_path) as engine:
            assert [one.id for one in await engine.sandboxes(OURS)] == ["s1", "s2", "s3", "s4"]


@pytest.mark.parametrize("piece", [b" ", b"["])
async def test_an_answer_that_trickles_in_is_none(
    wire: str, tmp_path: Path, piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes in time; a create cannot be cancelled meanwhile, so it must come to its end."""
    monkeypatch.setattr(failures, "_WITHIN_S", IMPATIENT)
    with faulty(lambda request: request.go_on(piece, 0.05)) as server, anyio.fail_after(30):
        async with engine_on(wire, server, tmp_path) as engine:
            with pytest.raises(SandboxError):
                await engine.create(WANTED)
            with pytest.raises(Silent):
                await engine.kill("s1")


async def test_an_answer_that_floods_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What answers in a sandbox may be any program of it; also where it refuses."""
    monkeypatch.setattr(http, "_MOST_ANSWER_BYTES", 1 << 20)

    def script(request: Request) -> None:
        request.begin(500 if request.command == "GET" else 200)
        while True:
            request.wfile.write(bytes(1 << 16))

    connections = http.Connections(30.0)
    with faulty(script) as server, anyio.fail_after(20):
        with pytest.raises(Refused, match="too long"):
            await connections.ask("write", "POST", f"{server.url}/files")
        with pytest.raises(Refused, match="too long"):
            async with connections.open("read", "GET", f"{server.url}/files"):
                pass
    await connections.aclose()


async def test_a_question_that_is_lost_does_not_take_up_the_time_of_a_create(
    wire: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first connection to a new sandbox may be one that nobody ever answers."""
    monkeypatch.setattr(client, "PING_TIMEOUT_S", 0.3)
    monkeypatch.setattr(envd, "_HEALTH_TIMEOUT_S", 0.3)
    pings: list[str] = []

    def script(request: Request) -> None:
        path = request.path.partition("?")[0]
        if path.endswith(("/ping", "/health")):
            pings.append(path)
            if len(pings) <= 3:
                time.sleep(20)
            request.tell({})
        elif path.partition("/endpoints/")[1]:
            request.tell({"endpoint": request.faulty.domain})
        else:
            request.tell(
                {**sandbox(wire, "s1", {}), "expiresAt": "2026-01-01T00:00:00Z"}, 201 if wire == "e2b" else 202
            )

    with faulty(script) as server, anyio.fail_after(10):
        async with engine_on(wire, server, tmp_path) as engine:
            assert await engine.create(WANTED) == "s1"
    assert len(pings) == 4


async def test_a_sandbox_that_is_given_out_twice_is_used_once(wire: str, tmp_path: Path) -> None:
    """What is graded would else share it with whoever made the patch; and nobody's end is the other's."""

    def script(request: Request) -> None:
        path = request.path.partition("?")[0]
        if path.partition("/endpoints/")[1]:
            request.tell({"endpoint": request.faulty.domain})
        elif request.command == "GET":
            body, headers = page(wire, [])
            request.tell({} if path.endswith(("/ping", "/health")) else body, **headers)
        else:
            request.tell(
                {**sandbox(wire, "s1", {}), "expiresAt": "2026-01-01T00:00:00Z"}, 201 if wire == "e2b" else 202
            )

    with faulty(script) as server:
        provider = provider_on(wire, server, state=tmp_path, api_key=KEY)
        first = RemoteBox(provider, SandboxSpec(), "box-1", provider.leases.intend(wire))
        first.serve_by(Calls(provider.engine, "s1", "/place", ["python"]))
        provider.boxes[first.id] = first
        with pytest.raises(CreateFailed, match="twice"):
            await provider.create(SandboxSpec(image="image"))
        assert list(provider.boxes) == ["box-1"]
        assert not [one for one in server.asked if one.startswith("DELETE")]
        first.let_go()
        await provider.aclose()


@pytest.mark.parametrize("piece", [b"x" * (1 << 16), b"x\n" * (1 << 15), b'{"type": "ping"}\n' * 4000])
async def test_an_opensandbox_answer_that_floods_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: bytes
) -> None:
    """Its SDK would keep all of it."""
    monkeypatch.setattr(bounded, "MOST_BYTES", 1 << 20)
    sent: list[int] = []

    def script(request: Request) -> None:
        if "/endpoints/" in request.path:
            request.tell({"endpoint": request.faulty.domain})
            return
        request.begin(200 if request.path.endswith("/command") else 500)
        while True:
            request.wfile.write(piece)
            sent.append(len(piece))

    with faulty(script) as server, anyio.fail_after(30):
        async with engine_on("opensandbox", server, tmp_path) as engine:
            with pytest.raises(Silent):
                await engine.run("s1", "true", {}, lambda _line: None)
            with pytest.raises(SandboxError):
                await engine.upload("s1", [Upload("/f", b"x")])
            with pytest.raises(SandboxError):
                await anext(engine.download("s1", "/f"))
    assert sum(sent) < 100 << 20


async def test_events_are_bounded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command may say little for as long as it likes."""
    monkeypatch.setattr(bounded, "MOST_BYTES", 10)

    async def answer(request: httpx.Request) -> httpx.Response:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(50):
                for piece in (b"12345\n", b"\n1", b"2345\n\n"):
                    yield piece

        return httpx.Response(200, content=pieces())

    async with httpx.AsyncClient(transport=bounded.Bounded(httpx.MockTransport(answer))) as asking:
        assert len((await asking.post("http://x/command")).content) == 50 * 14
        with pytest.raises(httpx.ReadError, match="more than"):
            await asking.post("http://x/ping")


# -- what is no answer -------------------------------------------------------------------------------------------------

_BODIES = {
    "nothing": b"",
    "half": b'{"sandboxID": "s1", "met',
    "html": b"<html><body>Welcome to our portal</body></html>",
    "list": b"[]",
    "number": b"17",
    "empty": b"{}",
    "deep": b"[" * 100_000,
    "not utf-8": b'{"sandboxID": "\xff\xfe"}',
    "odd id": b'{"sandboxID": "../templates/x", "id": null, "snapshotID": 7}',
    "odd fields": b'{"sandboxID": "s1", "metadata": [1], "id": 7, "snapshotID": "x", "names": 7, "items": 7}',
    "odd items": b'[{"sandboxID": 7, "snapshotID": [1], "names": "x"}, 7, null]',
}


@pytest.mark.parametrize("body", _BODIES.values(), ids=_BODIES.keys())
@pytest.mark.parametrize("status", [200, 500])
async def test_what_is_no_answer_is_an_error_of_ours(wire: str, tmp_path: Path, body: bytes, status: int) -> None:
    """Whatever comes, and whatever was asked."""
    with faulty(lambda request: request.tell(body, status)) as server, anyio.fail_after(60):
        async with engine_on(wire, server, tmp_path) as engine:
            asked: list[Callable[[], Any]] = [
                lambda: engine.create(WANTED),
                lambda: engine.find("s1"),
                lambda: engine.sandboxes(OURS),
                engine.snapshots,
                lambda: engine.snapshot("s1", "snap-1"),
                lambda: engine.run("s1", "true", {}, lambda _line: None),
                lambda: anext(engine.download("s1", "/f")),
            ]
            for ask in asked:
                with suppress(SandboxError, StopAsyncIteration):
                    await ask()


async def test_a_moment_that_no_clock_shows_is_no_snapshot_of_ours(tmp_path: Path) -> None:
    """Somebody in the team may call theirs so; ours must still be found."""
    theirs = {"snapshotID": "x", "names": ["snap-1-at-" + "9" * 400]}

    with faulty(lambda request: request.tell([theirs, snapshot("e2b", "snap-1")])) as server:
        async with engine_on("e2b", server, tmp_path) as engine:
            assert [one.id for one in await engine.snapshots()] == ["snap-1-id"]


@pytest.mark.parametrize("after", ["nan", "inf", "-5", "soon", "Wed, 21 Oct 2026 07:28:00 GMT", ""])
async def test_a_pause_that_nobody_can_make_is_ours(tmp_path: Path, after: str) -> None:
    with faulty(lambda request: request.tell({}, 429, Retry_After=after)) as server, anyio.fail_after(10):
        async with engine_on("e2b", server, tmp_path) as engine:
            with pytest.raises(Refused, match="429"):
                await engine.find("s1")
    assert len(server.asked) == 3


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_create_is_not_repeated_where_it_may_have_been_done(wire: str, tmp_path: Path, status: int) -> None:
    """With E2B a key makes a second request for the same one harmless, where it says that nothing was done."""
    with faulty(lambda request: request.tell({"code": "X", "message": "no"}, status)) as server, anyio.fail_after(20):
        async with engine_on(wire, server, tmp_path) as engine:
            with pytest.raises(SandboxError):
                await engine.create(WANTED)
    made = [h for one, h in zip(server.asked, server.headers, strict=True) if one.startswith("POST")]
    assert len(made) == (1 if wire == "opensandbox" or status == 500 else 3)
    assert len({h.get("idempotency-key") for h in made}) == 1
