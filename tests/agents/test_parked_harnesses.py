"""A rollout of a real harness is parked, frozen and ended, and goes on as its next attempt in another box."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from anyio import to_thread

import swe_sdk as swe
from swe_sdk.agents.gateway.gateway import open_gateway
from swe_sdk.agents.gateway.ledger import FolderLedger
from swe_sdk.agents.model_endpoint import ModelEgress
from swe_sdk.agents.registry import make_agent
from swe_sdk.rollouts.bookmark import Bookmark
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.rollouts.live import LiveRollouts
from swe_sdk.rollouts.settings import RolloutSettings
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing import ScriptedModel
from tests.agents.dialects import DIALECTS, apply
from tests.agents.harness_lab import need_harness_installed
from tests.agents.tasks import gold, mini_task

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400)]
SETTINGS = RolloutSettings(agent_timeout_s=300, retries=0)
TOLD = {"codex"}
"""Those that cannot go on without a further message."""
IN_PLACE = {"codex", "opencode", "openhands"}
"""Those that stand in their box, waiting for the model."""


@pytest.mark.parametrize("name", sorted(DIALECTS))
async def test_it_goes_on_in_another_box(name: str, local_provider: LocalProvider, tmp_path: Path) -> None:
    await to_thread.run_sync(need_harness_installed, name)
    task, agent, live = mini_task(), make_agent(name), LiveRollouts()
    script = DIALECTS[name].script("echo one >> /tmp/s; sleep 1", apply(gold(task)), "echo two >> /tmp/s; cat /tmp/s")
    with ScriptedModel(script) as model:
        endpoint = swe.ModelEndpoint(base_url=model.url, model=model.model)
        async with open_gateway(endpoint, FolderLedger(tmp_path)) as gateway:
            egress = ModelEgress(gateway)
            saved: list[Bookmark] = []
            async with anyio.create_task_group() as tasks:

                async def first() -> None:
                    await run_rollout(task, agent, provider=local_provider, model=egress, live=live, settings=SETTINGS)

                tasks.start_soon(first)
                await model.wait_for_async(1, timeout_s=120)
                (rollout,) = live
                rollout.request_park()
                bookmark = await rollout.wait_parked()
                assert rollout.box is not None
                if name in IN_PLACE:
                    await rollout.box.pause()  # type: ignore[attr-defined]
                snapshot = await local_provider.snapshot(rollout.box)
                saved.append(bookmark.model_copy(update={"snapshot": snapshot.id}))
                tasks.cancel_scope.cancel()
            (start,) = saved
            assert start.agent_state is not None
            restored = Bookmark.model_validate_json(start.model_dump_json())
            result = await run_rollout(
                task,
                agent,
                provider=local_provider,
                model=egress,
                settings=SETTINGS,
                attempt=2,
                start=restored,
            )
            await local_provider.delete_snapshot(snapshot.id)
        last = model.requests[-1].request
    assert (result.outcome.status, result.outcome.mask, result.attempt) == ("resolved", None, 2), result
    asked = model.turns if name not in IN_PLACE else sorted(set(model.turns))  # the call that was cut is made again
    assert asked == [0, 1, 2, 3], "no turn is asked for twice"
    assert last is not None
    assert last.says("one\ntwo"), "the box is as it was, and nothing was done twice"
    assert last.says("Continue.") == (name in TOLD)
    if name not in TOLD:
        assert sum(item["role"] == "user" for item in last.items) == 1, "nor anything else"
