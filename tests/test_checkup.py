"""``swe.doctor()``: what the command says, as data that shows itself."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

import swe_sdk as swe
from swe_sdk import aio, checkup
from swe_sdk.cli import main
from swe_sdk.errors import UnknownProvider
from swe_sdk.sandbox import registry
from swe_sdk.sandbox.contract import ProviderHealth

GOOD = ProviderHealth(provider="good", works=True, details={"kernel": "6.1"})
BAD = ProviderHealth(provider="bad", works=False, reason="there is no daemon", remedy="start it")


class Probed:
    """A provider of which only the health matters."""

    def __init__(self, health: ProviderHealth) -> None:
        self.health = health

    async def probe(self) -> ProviderHealth:
        return self.health


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two providers in place of all."""
    monkeypatch.setattr(checkup, "provider_names", lambda: ("bad", "good"))
    monkeypatch.setattr(checkup, "named_provider", lambda name: Probed({"good": GOOD, "bad": BAD}[name]))


def test_it_tries_every_provider_for_real(local_provider: Any) -> None:
    found = swe.doctor()
    assert [each.provider for each in found.providers] == list(registry.provider_names())
    assert found["local"].works
    assert "local" in found.works
    for each in found.providers:
        assert each.works or (each.reason and each.remedy), each


def test_awaited_it_is_the_same(two: None) -> None:
    assert anyio.run(aio.doctor) == swe.doctor()


def test_providers_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slowest of them takes as long as all; and each is told under its own name."""

    class Waits(Probed):
        async def probe(self) -> ProviderHealth:
            began.append(self.health.provider)
            while len(began) < 2:
                await anyio.sleep(0.01)
            await anyio.sleep(0.05 if self.health is BAD else 0)
            return self.health

    began: list[str] = []
    monkeypatch.setattr(checkup, "provider_names", lambda: ("bad", "good"))
    monkeypatch.setattr(checkup, "named_provider", lambda name: Waits({"good": GOOD, "bad": BAD}[name]))

    async def ask() -> checkup.Checkup:
        with anyio.fail_after(10):
            return await checkup.doctor()

    assert anyio.run(ask).providers == (BAD, GOOD)


def test_it_is_what_the_command_prints(two: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == swe.doctor().to_dict()


def test_it_shows_itself(two: None) -> None:
    found = swe.doctor()
    for text in (found._repr_html_(), str(found)):
        for part in ("1 of 2", "there is no daemon", "start it", "kernel: 6.1", found.state_dir):
            assert part in text
    assert repr(found) == "Checkup(bad='there is no daemon', good='works')"
    frame = found.to_frame()
    assert list(frame.index) == ["bad", "good"]
    assert frame.loc["bad", "remedy"] == "start it"
    assert list(frame.dtypes.astype(str)) == ["boolean", "string", "string"]
    with pytest.raises(UnknownProvider, match="did you mean good"):
        found["god"]
