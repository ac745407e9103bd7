"""Whether a lent box may have changed since the agent's latest boundary."""

from __future__ import annotations

import anyio
import pytest

from swe_sdk.rollouts.lent import Lent
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider

pytestmark = pytest.mark.anyio


async def test_a_command_that_runs_on_may_change_it_after_a_boundary(local_provider: LocalProvider) -> None:
    box = await local_provider.create(SandboxSpec())
    lent = Lent(box)
    assert not lent.is_changed
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lent.exec, "touch /tmp/on; sleep 1")
        while not (await box.exec("test -e /tmp/on")).ok:
            await anyio.sleep(0.01)
        assert lent.is_changed
        lent.came_to_a_boundary()
        assert lent.is_changed, "it runs on"
    assert lent.is_changed, "it has done so"
    lent.came_to_a_boundary()
    assert not lent.is_changed
    await lent.read("/tmp/on")
    assert not lent.is_changed
    await lent.write("/tmp/on", b"")
    assert lent.is_changed
    await box.close()
