"""Renewals: a box whose renewal hangs or fails takes no other box along."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest

from swe_sdk.sandbox.providers.remote.heartbeat import Heartbeat
from swe_sdk.sandbox.providers.remote.provider import RemoteProvider

pytestmark = pytest.mark.anyio


class _Box:
    def __init__(self, name: str, renewed: list[str]) -> None:
        self.id = name
        self._renewed = renewed

    async def renew(self, _ttl_s: float) -> None:
        if self.id == "hangs":
            await anyio.sleep_forever()
        if self.id == "fails":
            raise ValueError("no answer that anybody could read")
        self._renewed.append(self.id)


class _Provider:
    ttl_s = 2.0

    def __init__(self, *boxes: _Box) -> None:
        self.boxes: dict[str, Any] = {box.id: box for box in boxes}


async def test_one_box_takes_no_other_along(caplog: pytest.LogCaptureFixture) -> None:
    renewed: list[str] = []
    boxes = [_Box(name, renewed) for name in ("hangs", "fails", "one", "two")]
    with anyio.fail_after(10):
        await Heartbeat(cast(RemoteProvider, _Provider(*boxes))).renew_all()
    assert renewed == ["one", "two"]
    assert "fails could not be renewed" in caplog.text
