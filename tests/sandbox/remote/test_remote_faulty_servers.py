"""Servers that answer wrongly, for ever, or about others; and what goes where it has no business. Both wires."""

from __future__ import annotations

import logging
import pickle
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from swe_sdk.errors import CreateFailed, InputError, PrerequisiteError, ProviderUnavailable, SandboxError, SweError
from swe_sdk.sandbox.contract import Limits, SandboxSpec
from swe_sdk.sandbox.providers.e2b import engine as e2b_engine
from swe_sdk.sandbox.providers.e2b import envd, http
from swe_sdk.sandbox.providers.e2b.engine import E2BEngine
from swe_sdk.sandbox.providers.e2b.provider import E2BProvider
from swe_sdk.sandbox.providers.e2b.settings import read_settings as e2b_settings
from swe_sdk.sandbox.providers.opensandbox import bounded, client, failures
from swe_sdk.sandbox.providers.opensandbox.engine import OpenSandboxEngine
from swe_sdk.sandbox.providers.opensandbox.provider import OpenSandboxProvider
from swe_sdk.sandbox.providers.opensandbox.settings import read_settings as osb_settings
from swe_sdk.sandbox.providers.remote.box import RemoteBox
from swe_sdk.sandbox.providers.remote.calls import Calls
from swe_sdk.sandbox.providers.remote.engine import Engine, Upload, Wanted
from swe_sdk.sandbox.providers.remote.failures import Refused, Silent
from tests.sandbox.remote.faulty import Faulty, Request, faulty

pytestmark = pytest.mark.anyio
KEY = "a-key-that-nobody-else-may-see"
_OURS = {"swe_sdk.lease": "box-1"}
_WANTED = Wanted("image", None, _OURS, 600.0, "none", Limits())
_IMPATIENT = 0.3
Script = Callable[[Request], None]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (http, e2b_engine):
        monkeypatch.setattr(module, "PAUSES_S", (0.01, 0.01))
    monkeypatch.setattr(failures, "_WITHIN_S", 4.0)  # its SDK asks three times more, and pauses


@pytest.fixture(params=["e2b", "opensandbox"])
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def engine_on(wire: str, server: Faulty, tmp_path: Path, key: str = KEY) -> AsyncIterator[Engine]:
    engine: Engine
    if wire == "e2b":
        settings = e2b_settings({"api_url": server.url, "sandbox_url": server.url, "dialect": "e2b"}, {})
        short = settings.model_copy(update={"request_timeout_s": _IMPATIENT, "create_timeout_s": _IMPATIENT})
        engine = E2BEngine(short, tmp_path / "labels", ttl_s=600.0, api_key=key)
    else:
        engine = OpenSandboxEngine(osb_settings({"domain": server.domain}, {}), api_key=key)
    yield engine
    await engine.aclose()


def sandbox(wire: str, name: str, metadata: dict[str, str]) -> dict[str, Any]:
    """As it is told of in a list."""
    if wire == "e2b":
        return {"sandboxID": name, "metadata": metadata, "state": "running"}
    return {
        "id": name,
        "metadata": metadata,
        "status": {"state": "Running"},
        "entrypoint": ["true"],
        "createdAt": "2026-01-01T00:00:00Z",
        "image": {"uri": "x"},
    }


def snapshot(wire: str, name: str) -> dict[str, Any]:
    if wire == "e2b":
        return {"snapshotID": f"{name}-id", "names": [f"{name}-at-1764470000000"]}
    told = {"id": f"{name}-id", "name": name, "sandboxId": "s", "status": {"state": "Ready"}}
    return {**told, "createdAt": "2026-01-01T00:00:00Z"}


def page(wire: str, items: list[dict[str, Any]], *, more: str = "") -> tuple[Any, dict[str, str]]:
    """A page of a list, and its headers; ``more``: what the next one is called."""
    if wire == "e2b":
        return items, {"X_Next_Token": more} if more else {}
    numbers = {"page": 1, "pageSize": 100, "totalItems": 9, "totalPages": 9, "hasNextPage": bool(more)}
    return {"items": items, "pagination": numbers}, {}


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
            assert await engine.sandboxes(_OURS) == []
            with pytest.raises(SandboxError):
                await engine.create(_WANTED)
            state = {"state": tmp_path, "api_key": KEY}
            provider = _provider(wire, server, **state)
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


def _provider(wire: str, server: Faulty, **settings: Any) -> E2BProvider | OpenSandboxProvider:
    if wire == "e2b":
        return E2BProvider(api_url=server.url, sandbox_url=server.url, dialect="e2b", template="t", **settings)
    return OpenSandboxProvider(domain=server.domain, base_image="image", **settings)


# -- what never ends ---------------------------------------------------------------------------------------------------


async def test_pages_that_come_again_are_an_error(wire: str, tmp_path: Path) -> None:
    def script(request: Request) -> None:
        if "snapshots" in request.path:
            body, headers = page(wire, [snapshot(wire, "snap-1")], more="again")
        else:
            body, headers = page(wire, [sandbox(wire, "s1", _OURS)], more="again")
        request.tell(body, **headers)

    with faulty(script) as server, anyio.fail_after(20):
        async with engine_on(wire, server, tmp_path) as engine:
            for look in (lambda: engine.sandboxes(_OURS), engine.snapshots):
                with pytest.raises(Refused, match="end"):
                    await look()
    assert len(server.asked) < 10


async def test_things_that_are_told_twice_are_there_once(wire: str, tmp_path: Path) -> None:
    def script(request: Request) -> None:
        number = int(request.query.get("nextToken" if wire == "e2b" else "page", "1"))
        told = [sandbox(wire, f"s{number}", _OURS), sandbox(wire, f"s{number + 1}", _OURS)]
        body, headers = page(wire, told, more=str(number + 1) if number < 3 else "")
        request.tell(body, **headers)

    with faulty(script) as server:
        async with engine_on(wire, server, tmp_path) as engine:
            assert [one.id for one in await engine.sandboxes(_OURS)] == ["s1", "s2", "s3", "s4"]


@pytest.mark.parametrize("piece", [b" ", b"["])
async def test_an_answer_that_trickles_in_is_none(
    wire: str, tmp_path: Path, piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes in time; a create cannot be cancelled meanwhile, so it must come to its end."""
    monkeypatch.setattr(failures, "_WITHIN_S", _IMPATIENT)
    with faulty(lambda request: request.go_on(piece, 0.05)) as server, anyio.fail_after(30):
        async with engine_on(wire, server, tmp_path) as engine:
            with pytest.raises(SandboxError):
                await engine.create(_WANTED)
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
            assert await engine.create(_WANTED) == "s1"
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
        provider = _provider(wire, server, state=tmp_path, api_key=KEY)
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
                lambda: engine.create(_WANTED),
                lambda: engine.find("s1"),
                lambda: engine.sandboxes(_OURS),
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
                await engine.create(_WANTED)
    made = [h for one, h in zip(server.asked, server.headers, strict=True) if one.startswith("POST")]
    assert len(made) == (1 if wire == "opensandbox" or status == 500 else 3)
    assert len({h.get("idempotency-key") for h in made}) == 1


# -- what goes where it has no business --------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_key_follows_no_redirect(wire: str, tmp_path: Path, status: int) -> None:
    with (
        faulty(lambda request: request.tell({})) as elsewhere,
        faulty(lambda request: request.tell({}, status, Location=f"{elsewhere.url}{request.path}")) as server,
    ):
        async with engine_on(wire, server, tmp_path) as engine:
            for ask in (lambda: engine.find("s1"), lambda: engine.create(_WANTED), lambda: engine.kill("s1")):
                with pytest.raises(SandboxError):
                    await ask()
    assert elsewhere.asked == []
    assert server.asked


async def test_no_proxy_hears_of_what_is_on_this_machine(
    wire: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        faulty(lambda request: request.tell({}, 403)) as proxy,
        faulty(lambda request: request.tell(sandbox(wire, "s1", {}))) as server,
    ):
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        async with engine_on(wire, server, tmp_path) as engine:
            found = await engine.find("s1")
    assert found is not None
    assert proxy.asked == []


# -- keys --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", ["\n", "\r\nX-Other: 1", "\x00", "é"])
async def test_a_key_that_no_request_can_carry_is_not_shown(
    wire: str, tmp_path: Path, odd: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As it comes of a file that was read to its end, or of a paste. White space around it is no part of it."""
    caplog.set_level(logging.DEBUG)
    with faulty(lambda request: request.tell(sandbox(wire, "s1", {}))) as server:
        async with engine_on(wire, server, tmp_path, key=f"{KEY}\n") as engine:
            assert await engine.find("s1") is not None
        async with engine_on(wire, server, tmp_path, key=f"{KEY}{odd}{KEY}") as engine:
            with pytest.raises(ProviderUnavailable, match="characters") as refused:
                await engine.find("s1")
    sent = {headers.get("x-api-key") or headers.get("open-sandbox-api-key") for headers in server.headers}
    assert sent == {KEY}
    assert KEY not in str(refused.value)
    assert KEY not in caplog.text


async def test_a_key_is_in_no_error_log_or_record(wire: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with faulty(lambda request: request.tell({"message": "no such key", "code": "X"}, 401)) as server:
        provider = _provider(wire, server, state=tmp_path, api_key=KEY)
        health = await provider.probe()
        with pytest.raises(ProviderUnavailable) as refused:
            await provider.create(SandboxSpec())
        await provider.aclose()
    shown = [repr(provider), str(dict(provider.settings)), health.model_dump_json(), str(refused.value), caplog.text]
    shown += [repr(provider.engine), *(path.read_text() for path in tmp_path.rglob("*") if path.is_file())]
    assert not [text for text in shown if KEY in text]
    try:
        pickled = pickle.dumps(provider)
    except (TypeError, AttributeError, pickle.PicklingError):
        return
    assert KEY.encode() not in pickled


async def test_a_server_that_tells_our_key_back_does_not_bring_it_into_an_error(tmp_path: Path) -> None:
    with faulty(lambda request: request.tell({"message": f"unknown key {KEY}"}, 401)) as server:
        async with engine_on("e2b", server, tmp_path) as engine:
            with pytest.raises(Refused, match="unknown key") as refused:
                await engine.find("s1")
    assert KEY not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    ["http://me:secret@host", "me:secret@host:1", "ftp://host", "http://", "http://[bad", "", "http://host:99999"],
)
def test_an_address_holds_no_password_and_is_one(address: str) -> None:
    """Settings are written into leases, and shown."""
    readers: list[Callable[[], object]] = [
        lambda: e2b_settings({"api_url": address}, {}),
        lambda: e2b_settings({"sandbox_url": address}, {}),
        lambda: e2b_settings({"domain": address}, {}),
        lambda: osb_settings({"domain": address}, {}),
    ]
    for read in readers:
        with pytest.raises(InputError) as refused:
            read()
        assert "secret" not in str(refused.value)


# -- what is not installed ---------------------------------------------------------------------------------------------


async def test_without_the_sdk_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "opensandbox"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opensandbox", None)
    provider = OpenSandboxProvider(domain="127.0.0.1:9", api_key=KEY, base_image="x", state=tmp_path)
    asked: list[Callable[[], Any]] = [
        lambda: provider.create(SandboxSpec()),
        lambda: provider.adopt("s1", SandboxSpec()),
        provider.snapshots,
        lambda: provider.delete_snapshot("snap-1"),
        provider.owned,
        lambda: provider.remove("s1"),
    ]
    for ask in asked:
        with pytest.raises(PrerequisiteError) as refused:
            await ask()
        assert "swe_sdk[opensandbox]" in refused.value.remedy
    health = await provider.probe()
    assert (health.works, "swe_sdk[opensandbox]" in health.remedy) == (False, True)
    await provider.aclose()
