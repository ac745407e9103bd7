"""The gateway as what the model participant of a checkpoint closes and opens."""

from __future__ import annotations

import time
from pathlib import Path

import anyio
import httpx
import pytest

from swe_sdk.checkpoint.messages import EpisodeId, PrepareRequest, ResumeRequest, RetireRequest
from swe_sdk.checkpoint.participants.model import ModelParticipant
from swe_sdk.testing import say
from tests.agents.gateway.gates import USER, bench

pytestmark = pytest.mark.anyio


async def test_a_checkpoint_holds_the_gateway_and_lets_it_go(tmp_path: Path) -> None:
    script = [say("a b c d e", chunk_delay_s=0.1), say("second"), say("third")]
    async with bench(script, tmp_path) as b, ModelParticipant(gate=b.gateway) as participant:
        ends: list[int | str] = []

        async def ask(turns: int) -> None:
            history = [USER, {"role": "assistant", "content": "x"}] * turns + [USER]
            try:
                ends.append((await b.ask(messages=history, stream=True)).status_code)
            except httpx.TransportError:
                ends.append("cut")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, 0)
            with anyio.fail_after(5):
                while not any(call.is_delivered for call in b.gateway.calls()):
                    await anyio.sleep(0.01)
            deadline = time.time() + 20
            reply = await participant.prepare(PrepareRequest(checkpoint_id="one", deadline_ts=deadline))
            assert reply.report.ready
            assert ends == [200], "what was being delivered came to its end"
            tasks.start_soon(ask, 1)
            tasks.start_soon(ask, 2)
            with anyio.fail_after(5):
                while [call.state for call in b.gateway.calls()] != ["held", "held"]:
                    await anyio.sleep(0.01)
            assert b.session.awaiting_model
            assert len(b.ledger.calls) == 1
            await participant.resume(ResumeRequest(checkpoint_id="one", deadline_ts=deadline))
        assert ends == [200, 200, 200]
        assert sorted(b.model.turns) == [0, 1, 2]


async def test_retired_attempts_lose_their_calls(tmp_path: Path) -> None:
    async with bench([say("x", gate="g")], tmp_path) as b, ModelParticipant(gate=b.gateway) as participant:
        ends: list[str] = []

        async def ask() -> None:
            with pytest.raises(httpx.TransportError):
                await b.ask()
            ends.append("cut")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await b.model.wait_for_async(1)
            retired = EpisodeId(rollout_id=b.session.rollout_id, attempt=1)
            request = RetireRequest(checkpoint_id="one", deadline_ts=time.time() + 10, episode_ids=(retired,))
            await participant.retire(request)
        assert ends == ["cut"]
        assert b.gateway.calls() == ()
        assert b.ledger.calls == []
