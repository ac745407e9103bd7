"""Calls of the model in a run's store: rows, counts, and bodies that are read in windows."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import httpx
import pytest

from swe_sdk.agents.gateway.gateway import open_gateway
from swe_sdk.errors import NoSpace
from swe_sdk.rollouts.model_ledger import RunLedger
from swe_sdk.store.events import AttemptStarted, ModelCalled
from swe_sdk.store.index import open_index
from swe_sdk.store.writer import RunWriter
from swe_sdk.testing import ScriptedModel, fail, say
from swe_sdk.testing.scripted.script import Turn, Usage
from tests.agents.gateway.gates import REAL_KEY, USER, client_of, endpoint_of
from tests.shared import full_device

pytestmark = pytest.mark.anyio
ROLLOUT = "mini__calc-1.0"


async def test_calls_are_in_the_store(tmp_path: Path) -> None:
    script = {
        "scripted": [say("hello", before=(fail(500),), usage=Usage(prompt_tokens=70, completion_tokens=7))],
        "big": [Turn(padding_bytes=3_000_000)],
    }
    with RunWriter(tmp_path / "run") as writer:
        async with ScriptedModel(script, title=None, api_key=REAL_KEY) as model:
            endpoint = endpoint_of(model).model_copy(update={"other_models": ("big",)})
            async with open_gateway(endpoint, RunLedger(writer)) as gateway:
                async with gateway.session(ROLLOUT, 1) as session, client_of(gateway, session) as client:

                    async def ask(name: str = "scripted", **more: object) -> httpx.Response:
                        return await client.post("/chat/completions", json={"model": name, "messages": [USER], **more})

                    assert (await ask()).status_code == 500
                    said = await ask()
                    large = await ask("big", stream=True)
                    async with anyio.create_task_group() as tasks:
                        for _ in range(20):
                            tasks.start_soon(ask)
        assert (session.usage.calls, session.usage.prompt_tokens) == (22, 70 * 21)
    assert REAL_KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    with open_index(tmp_path / "run") as index:
        page = index.model_calls(ROLLOUT)
        calls = [row.call for row in page.rows if isinstance(row.call, ModelCalled)]
        assert len(calls) == page.total == 23
        assert [(call.status, call.model, call.tokens_in, call.tokens_out) for call in calls[:2]] == [
            (500, "scripted", 0, 0),
            (200, "scripted", 70, 7),
        ]
        assert calls[0].error == "server_error"
        assert calls[2].model == "big"
        bodies = {artifact.path: artifact for artifact in index.artifacts(ROLLOUT)}
        assert set(bodies) == {path for call in calls for path in (call.request, call.response)}
        assert calls[1].request is not None
        assert calls[1].response is not None
        assert calls[2].response is not None
        with index.open_artifact(bodies[calls[1].request]) as file:
            assert json.loads(file.read_window(0, 1 << 20)) == {"model": "scripted", "messages": [USER]}
        with index.open_artifact(bodies[calls[1].response]) as file:
            assert file.read_window(0, 1 << 20) == said.content
        big = bodies[calls[2].response]
        assert big.encoding == "gzip"
        assert big.size_bytes == len(large.content)
        with index.open_artifact(big) as file:
            assert file.read_window(2_500_000, 100) == large.content[2_500_000:2_500_100]


async def test_a_full_disk_is_the_trouble_of_the_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = full_device()
    with RunWriter(tmp_path / "run") as writer:
        writer.append(AttemptStarted(rollout_id=ROLLOUT, attempt=1))
        async with ScriptedModel([say("x")], title=None, api_key=REAL_KEY) as model:
            async with open_gateway(endpoint_of(model), RunLedger(writer)) as gateway:
                async with gateway.session(ROLLOUT, 1) as session, client_of(gateway, session) as client:

                    def full(_path: Path, _mode: str) -> object:
                        return open(device, "ab", buffering=0)

                    monkeypatch.setattr(Path, "open", full)
                    with pytest.raises(httpx.TransportError):
                        await client.post("/chat/completions", json={"model": "scripted", "messages": [USER]})
                    monkeypatch.undo()
                    assert isinstance(session.trouble, NoSpace)
