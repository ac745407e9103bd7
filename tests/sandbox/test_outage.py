"""Waiting for a provider that is away, whatever its ``ping`` does."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import anyio
import pytest

from swe_sdk.errors import ProviderUnavailable
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.rollouts.verifier import LocalVerifier
from swe_sdk.sandbox import outage
from swe_sdk.sandbox.outage import outlast_outage
from swe_sdk.testing import FakeProvider
from tests.rollouts.world import QUICK, answer, make_task, play

pytestmark = pytest.mark.anyio


class Pinged(FakeProvider):
    """Asked for a sign of life, it does what a test says."""

    def __init__(self, does: Callable[[], Awaitable[None]]) -> None:
        super().__init__(handler=play)
        self._does = does
        self.pings = 0

    async def ping(self) -> None:
        self.pings += 1
        await self._does()


def raises(error: Exception) -> Callable[[], Awaitable[None]]:
    async def ping() -> None:
        raise error

    return ping


@pytest.mark.parametrize("error", [ProviderUnavailable("gone"), ConnectionResetError("gone"), TimeoutError("gone")])
async def test_who_cannot_be_reached_is_waited_for(error: Exception) -> None:
    provider, said, began = Pinged(raises(error)), list[str](), time.monotonic()
    await outlast_outage(provider, patience_s=0.9, on_progress=said.append)
    assert time.monotonic() - began > 0.8
    assert provider.pings > 1
    assert [line.endswith("gone") for line in said] == [True]


@pytest.mark.parametrize("error", [RuntimeError("odd"), TypeError("odd"), ExceptionGroup("odd", [KeyError()])])
async def test_nobody_waits_for_one_whose_ping_is_broken(error: Exception) -> None:
    provider, said = Pinged(raises(error)), list[str]()
    with anyio.fail_after(5):
        await outlast_outage(provider, on_progress=said.append)
    assert (provider.pings, said) == (1, [])


async def test_one_that_hangs_is_told_of_long_before_its_ping_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "_SLOW_S", 0.1)
    provider, said = Pinged(lambda: anyio.sleep(0.5)), list[str]()
    with anyio.fail_after(5):
        await outlast_outage(provider, on_progress=said.append)
    assert [line.partition(",")[0].partition(" ")[2] for line in said] == ["does not answer", "answers again"]
    assert provider.pings == 1


@pytest.mark.parametrize("chosen", [True, False])
async def test_a_run_hears_of_an_engine_that_goes_while_a_patch_waits_to_be_verified(chosen: bool) -> None:
    async def ping() -> None:
        if provider.pings == 2:
            raise ProviderUnavailable("gone")

    provider, said = Pinged(ping), list[str]()
    verifier = LocalVerifier(provider=provider) if chosen else None
    settings = QUICK.model_copy(update={"verify_timeout_s": 10.0})
    await run_rollout(
        make_task(), answer(), provider=provider, settings=settings, verifier=verifier, on_progress=said.append
    )
    assert provider.pings > 2
    told = [line for line in said if "answer" in line]
    assert [line.partition(",")[0] for line in told] == ["fake does not answer", "fake answers again"]
