"""Keys, and what else goes where it has no business. Both wires."""

from __future__ import annotations

import logging
import pickle
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swe_sdk.errors import InputError, PrerequisiteError, ProviderUnavailable, SandboxError
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.e2b.settings import read_settings as e2b_settings
from swe_sdk.sandbox.providers.opensandbox.provider import OpenSandboxProvider
from swe_sdk.sandbox.providers.opensandbox.settings import read_settings as osb_settings
from swe_sdk.sandbox.providers.remote.failures import Refused
from tests.sandbox.remote.faulty import faulty
from tests.sandbox.remote.wires import (
    KEY,
    WANTED,
    engine_on,
    provider_on,
    sandbox,
    snapshot,
)

pytestmark = pytest.mark.anyio


# -- what goes where it has no business --------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_key_follows_no_redirect(wire: str, tmp_path: Path, status: int) -> None:
    with (
        faulty(lambda request: request.tell({})) as elsewhere,
        faulty(lambda request: request.tell({}, status, Location=f"{elsewhere.url}{request.path}")) as server,
    ):
        async with engine_on(wire, server, tmp_path) as engine:
            for ask in (lambda: engine.find("s1"), lambda: engine.create(WANTED), lambda: engine.kill("s1")):
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
        provider = provider_on(wire, server, state=tmp_path, api_key=KEY)
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


async def test_a_server_that_tells_our_key_back_does_not_bring_it_into_an_error(wire: str, tmp_path: Path) -> None:
    with faulty(lambda request: request.tell({"message": f"unknown key {KEY}", "code": KEY}, 401)) as server:
        async with engine_on(wire, server, tmp_path) as engine:
            with pytest.raises(Refused, match="unknown key") as refused:
                await engine.find("s1")
    assert KEY not in "".join(traceback.format_exception(refused.value))


async def test_nor_does_one_that_could_not_freeze_a_sandbox(tmp_path: Path) -> None:
    told = snapshot("opensandbox", "s1") | {"status": {"state": "Failed", "message": f"refused: {KEY}"}}
    with faulty(lambda request: request.tell(told, 202 if request.command == "POST" else 200)) as server:
        async with engine_on("opensandbox", server, tmp_path) as engine:
            with pytest.raises(Refused, match="refused: ") as refused:
                await engine.snapshot("s1", "snap-1")
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
