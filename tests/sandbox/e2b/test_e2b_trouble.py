"""What the system refuses, and what gets lost on the way."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import CreateFailed, ProviderUnavailable
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.e2b import engine, http
from swe_sdk.sandbox.providers.e2b.http import Connections
from swe_sdk.sandbox.providers.e2b.provider import E2BProvider
from swe_sdk.sandbox.providers.e2b.rest import Rest
from swe_sdk.sandbox.providers.e2b.settings import E2BSettings
from swe_sdk.sandbox.providers.remote.failures import InUse, NotThere, Refused, Silent
from tests.sandbox.e2b.conftest import MakeBox
from tests.sandbox.e2b.stubs import KEY, Server

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(e2b: Server) -> Server:
    """All of this is the same in both dialects, but where it says so."""
    return e2b


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds between attempts are for real systems."""
    for module in (http, engine):
        monkeypatch.setattr(module, "PAUSES_S", (0.01, 0.01, 0.01))


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_system_is_asked_again_with_the_same_key(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider, status: int
) -> None:
    await e2b_provider.engine.introduce()
    server.log.unlink()
    server.refuse("POST /v2/sandboxes", status)
    await make_box()
    asked = server.requests("POST /v2/sandboxes")
    assert len(asked) == 2
    assert asked[0]["key"] == asked[1]["key"]
    assert len(server.containers()) == 1


async def test_how_long_to_wait_is_the_systems_to_say(server: Server, e2b_provider: E2BProvider) -> None:
    await e2b_provider.engine.introduce()
    server.refuse("GET /v2/sandboxes", 429, after_s=0.3)
    begin = anyio.current_time()
    assert await e2b_provider.owned() == []
    assert anyio.current_time() - begin >= 0.3


async def test_one_that_stays_busy_is_said_to_be(server: Server, e2b_provider: E2BProvider) -> None:
    await e2b_provider.engine.introduce()
    for _ in range(4):
        server.refuse("POST /v2/sandboxes", 429)
    with pytest.raises(CreateFailed, match="429") as refused:
        await e2b_provider.create(SandboxSpec())
    assert "fewer" in refused.value.remedy
    assert server.containers() == []


async def test_an_error_of_the_system_is_no_image_of_nobody(server: Server, e2b_provider: E2BProvider) -> None:
    await e2b_provider.engine.introduce()
    server.refuse("POST /v2/sandboxes", 400)
    with pytest.raises(CreateFailed) as refused:
        await e2b_provider.create(SandboxSpec())
    assert type(refused.value) is CreateFailed


async def test_a_lost_answer_does_not_lose_a_sandbox(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found by its metadata, and not made twice."""
    create = Rest.create

    async def create_and_lose(rest: Rest, *arguments: object) -> dict[str, object]:
        await create(rest, *arguments)  # type: ignore[arg-type]
        raise Silent("the answer is lost")

    await e2b_provider.engine.introduce()
    with monkeypatch.context() as patched:
        patched.setattr(Rest, "create", create_and_lose)
        box = await make_box()
    assert (await box.exec("echo works")).stdout == "works\n"
    assert len(server.containers()) == 1


async def test_a_lost_answer_does_not_lose_a_snapshot(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze = Rest.snapshot

    async def freeze_and_lose(rest: Rest, *arguments: object, **options: object) -> dict[str, object]:
        await freeze(rest, *arguments, **options)  # type: ignore[arg-type]
        raise Silent("the answer is lost")

    box = await make_box()
    with monkeypatch.context() as patched:
        patched.setattr(Rest, "snapshot", freeze_and_lose)
        snapshot = await e2b_provider.snapshot(box)
    assert await e2b_provider.snapshots() == [snapshot]
    assert len(server.images()) == 1
    await e2b_provider.delete_snapshot(snapshot.id)


async def test_a_broken_stream_loses_no_result(server: Server, make_box: MakeBox) -> None:
    """Half of a stream is no ending: the result is asked for once more."""
    box = await make_box()
    async with anyio.create_task_group() as tasks:

        async def break_off() -> None:
            await anyio.sleep(0.4)
            await anyio.to_thread.run_sync(server.hang_up)

        tasks.start_soon(break_off)
        result = await box.exec("echo before; sleep 1; echo after; exit 5")
    assert (result.status, result.exit_code, result.stdout) == ("exited", 5, "before\nafter\n")


async def test_a_key_that_is_wrong_is_said_to_be(server: Server, e2b_state: Path) -> None:
    provider = E2BProvider(state=e2b_state, **{**server.settings, "api_key": "e2b_wrong"})
    health = await provider.probe()
    assert (health.works, "E2B_API_KEY" in health.remedy) == (False, True)
    assert "401" in health.reason
    with pytest.raises(ProviderUnavailable):
        await provider.create(SandboxSpec())
    await provider.aclose()


async def test_without_a_key_nobody_is_asked(e2b_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is E2B's own address: a machine that has nothing to do with it must not call there."""
    monkeypatch.delenv("E2B_API_KEY", raising=False)
    provider = E2BProvider(state=e2b_state)
    health = await provider.probe()
    assert (health.works, "E2B_API_KEY" in health.remedy) == (False, True)
    with pytest.raises(ProviderUnavailable):
        await provider.owned()
    await provider.aclose()


async def test_nobody_at_the_address_is_said_to_be_nobody(e2b_state: Path) -> None:
    provider = E2BProvider(state=e2b_state, api_url="http://127.0.0.1:9", api_key=KEY, request_timeout_s=5)
    health = await provider.probe()
    assert (health.works, "E2B_API_URL" in health.remedy) == (False, True)
    await provider.aclose()


async def test_a_template_in_use_is_kept_for_later(server: Server) -> None:
    """As E2B says it of one on which paused sandboxes stand."""
    connections = Connections(10)
    rest = Rest(E2BSettings(api_url=server.url), KEY, connections)
    server.refuse("DELETE /templates/x", 400)
    with pytest.raises(InUse):
        await rest.delete_snapshot("x")
    with pytest.raises(NotThere):
        await rest.delete_snapshot("x")
    server.refuse("DELETE /templates/x", 403)
    with pytest.raises(Refused):
        await rest.delete_snapshot("x")
    await connections.aclose()


async def test_a_cancelled_create_leaves_nothing(server: Server, e2b_provider: E2BProvider) -> None:
    await e2b_provider.engine.introduce()
    for delay_s in (0.01, 0.2, 0.5):
        with anyio.move_on_after(delay_s):
            await e2b_provider.create(SandboxSpec())
        assert server.containers() == [] or e2b_provider.boxes != {}
    for box in list(e2b_provider.boxes.values()):
        await box.close()
    assert server.containers() == []
