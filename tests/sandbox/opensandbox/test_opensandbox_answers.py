"""What a server's answers mean for us; labels and settings. No real server, and no container."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.errors import ImageNotFound, InputError, NoSpace, ProviderUnavailable, PullFailed, SandboxError
from swe_sdk.sandbox.contract import Limits
from swe_sdk.sandbox.leases import LABEL_LEASE, Lease
from swe_sdk.sandbox.owner import Owner
from swe_sdk.sandbox.providers.opensandbox.engine import OpenSandboxEngine
from swe_sdk.sandbox.providers.opensandbox.provider import OpenSandboxProvider
from swe_sdk.sandbox.providers.opensandbox.settings import read_settings
from swe_sdk.sandbox.providers.remote.engine import FoundSandbox, Wanted
from swe_sdk.sandbox.providers.remote.failures import InUse, NotThere, Refused, RemoteTrouble, Silent
from swe_sdk.sandbox.providers.remote.labels import metadata_of, owned_box, safe_value
from swe_sdk.sandbox.registry import named_provider, restore_provider

pytestmark = pytest.mark.anyio
_IMAGE = Wanted("image", None, {}, 600.0, "none", Limits())


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Nothing is made here."""


@contextmanager
def answering(status: int, body: bytes, *, is_cut: bool = False) -> Iterator[str]:
    """A server that always answers so; its domain. ``is_cut``: it hangs up in the middle of the body."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body) + 10 * is_cut))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = do_PATCH = answer

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@contextmanager
def deaf() -> Iterator[str]:
    """Where the kernel drops attempts to connect: its queue for a server that takes none is full; the address."""
    with ExitStack() as stack, socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield f"127.0.0.1:{server.getsockname()[1]}"


@asynccontextmanager
async def engine_on(domain: str) -> AsyncIterator[OpenSandboxEngine]:
    engine = OpenSandboxEngine(read_settings({"domain": domain}, {}), api_key="a-key-of-ours")
    yield engine
    await engine.aclose()


def told(code: str, message: str) -> bytes:
    return json.dumps({"code": code, "message": message}).encode()


@pytest.mark.parametrize(
    ("status", "code", "message", "wanted"),
    [
        (401, "UNAUTHORIZED", "no key", Refused),
        (409, "SNAPSHOT::DELETE_CONFLICT", "in use", InUse),
        (400, "INVALID", "what?", Refused),
        (500, "DOCKER::SANDBOX_IMAGE_PULL_FAILED", "pull access denied for x", ImageNotFound),
        (500, "DOCKER::SANDBOX_IMAGE_PULL_FAILED", "connection reset", PullFailed),
        (500, "DOCKER::ERROR", "write /x: no space left on device", NoSpace),
        (503, "BUSY", "later", Silent),
    ],
)
async def test_a_refusal_to_create_is_told_as_what_it_is(
    status: int, code: str, message: str, wanted: type[SandboxError]
) -> None:
    with answering(status, told(code, message)) as domain:
        async with engine_on(domain) as engine:
            with pytest.raises(wanted) as raised:
                await engine.create(_IMAGE)
    assert type(raised.value) is wanted
    assert message in str(raised.value) or wanted is Silent


async def test_gone_is_no_error_where_it_is_wanted() -> None:
    with answering(404, told("DOCKER::SANDBOX_NOT_FOUND", "no sandbox x")) as domain:
        async with engine_on(domain) as engine:
            assert await engine.find("x") is None
            await engine.kill("x")
            await engine.delete_snapshot("x")
            assert not await engine.answers("x")
            with pytest.raises(NotThere):
                await engine.renew("x", 600)


async def test_half_an_answer_is_none() -> None:
    with answering(200, b'{"id": ', is_cut=True) as domain:
        async with engine_on(domain) as engine:
            with pytest.raises(RemoteTrouble):
                await engine.renew("x", 600)


async def test_nobody_there_is_said_with_a_remedy() -> None:
    provider = OpenSandboxProvider(domain="127.0.0.1:9", api_key="key", base_image="image")
    health = await provider.probe()
    await provider.aclose()
    assert not health.works
    assert "127.0.0.1:9" in health.reason
    assert "OPEN_SANDBOX_DOMAIN" in health.remedy


@pytest.mark.parametrize("is_deaf", [False, True], ids=["nobody there", "no connection is taken"])
async def test_a_server_that_is_not_there_is_not_waited_for(is_deaf: bool) -> None:
    with ExitStack() as stack:
        domain = stack.enter_context(deaf()) if is_deaf else "127.0.0.1:9"
        async with engine_on(domain) as engine:
            with anyio.fail_after(10), pytest.raises(ProviderUnavailable, match=domain) as refused:
                await engine.introduce()
    assert "Exception" not in refused.value.message, "its SDK has not been asked, which tries again and again"


async def test_a_wrong_key_is_said_with_a_remedy() -> None:
    with answering(401, told("UNAUTHORIZED", "no key")) as domain:
        provider = OpenSandboxProvider(domain=domain, api_key="wrong", base_image="image")
        health = await provider.probe()
        await provider.aclose()
    assert (health.works, "OPEN_SANDBOX_API_KEY" in health.remedy) == (False, True)


def test_settings_come_from_the_environment_and_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_SANDBOX_DOMAIN", "there:1")
    monkeypatch.setenv("OPEN_SANDBOX_API_KEY", "the-key")
    monkeypatch.setenv("SWE_SDK_OPENSANDBOX_NETWORK", "open")
    monkeypatch.setenv("SWE_SDK_OPENSANDBOX_PROXY", "true")
    provider = named_provider("opensandbox")
    assert isinstance(provider, OpenSandboxProvider)
    assert provider.settings["domain"] == "there:1"
    assert provider.settings["use_server_proxy"]
    assert "the-key" not in str(provider.settings)
    assert "open_network" in provider.capabilities
    again = restore_provider("opensandbox", json.loads(json.dumps(dict(provider.settings))))
    assert isinstance(again, OpenSandboxProvider)
    assert again.settings == provider.settings
    for wrong in ({"runtime": "podman"}, {"memory_mib": "0"}, {"no_such": 1}):
        with pytest.raises(InputError, match="settings of opensandbox"):
            read_settings(wrong, {})


def test_what_a_runtime_cannot_do_is_a_setting() -> None:
    traits = [OpenSandboxEngine(read_settings({"runtime": one}, {})).traits for one in ("docker", "kubernetes")]
    assert [one.pause_keeps_processes for one in traits] == [True, False]
    assert "open_network" not in OpenSandboxProvider(domain="x:1").capabilities


nodes = st.from_regex(r"[a-z][a-z0-9-]{0,20}[a-z0-9]", fullmatch=True)
owners = st.builds(
    Owner,
    host=st.tuples(nodes, st.sampled_from(["-", "0a1b2c"])).map("/".join),
    boot_id=st.uuids().map(str),
    pid=st.integers(1, 2**22),
    started=st.integers(0, 2**40),
    pid_namespace=st.integers(1, 2**32),
    token=st.from_regex(r"[0-9a-f]{8}", fullmatch=True),
)


@given(owners, st.text(max_size=100), st.text(max_size=100))
def test_an_owner_makes_the_round_trip_through_labels(owner: Owner, run: str, task: str) -> None:
    lease = Lease(
        id="box-0123456789ab", provider="opensandbox", owner=owner, run=run, task=task, created_at=0.0, renewed_at=0.0
    )
    metadata = metadata_of(lease, lease.id)
    assert all(len(value) <= 63 and value == safe_value(value) for value in metadata.values()), metadata
    box = owned_box(FoundSandbox("handle", metadata, "running"))
    assert box is not None
    assert (box.owner, box.lease, box.handle) == (owner, metadata[LABEL_LEASE], "handle")


@given(st.dictionaries(st.sampled_from(["swe_sdk.kind", "swe_sdk.lease", "swe_sdk.process", "x"]), st.text()))
def test_labels_of_others_are_nobodys(metadata: dict[str, str]) -> None:
    box = owned_box(FoundSandbox("handle", metadata, "running"))
    assert box is None or (metadata["swe_sdk.kind"], box.owner) == ("remote-box", None)


def test_connections_end_with_their_loop() -> None:
    """No warning of an unclosed one comes later: threads ask in loops of their own, and nobody closes those."""
    with answering(404, told("DOCKER::SANDBOX_NOT_FOUND", "no sandbox x")) as domain:
        engine = OpenSandboxEngine(read_settings({"domain": domain}, {}), api_key="key")
        for _ in range(2):
            assert anyio.run(engine.find, "x") is None
