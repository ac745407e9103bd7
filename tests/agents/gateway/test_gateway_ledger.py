"""What is recorded of calls: every answer before it is complete, no secret, no more than there is room for."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from swe_sdk.agents.gateway.gateway import open_gateway
from swe_sdk.agents.gateway.ledger import Capture, FolderLedger, ModelCall
from swe_sdk.errors import ModelError, NoSpace
from swe_sdk.testing import ScriptedModel, say
from swe_sdk.testing.scripted.script import Turn
from tests.agents.gateway.gates import QUICK, REAL_KEY, USER, bench, client_of, endpoint_of

pytestmark = pytest.mark.anyio
SCRIPT = [say("I look")]


@pytest.mark.parametrize("before", [0, 10, (1 << 18) - 100, (1 << 18) - 20, (1 << 18) - 1, 3 * (1 << 18) + 7])
async def test_a_key_that_an_agent_shows_its_model_is_not_recorded(tmp_path: Path, before: int) -> None:
    """Nor one that the model repeats, wherever a body is cut into pieces."""
    script = {"scripted": lambda request: say("x" * before + " ".join(request.texts))}
    async with bench(script, tmp_path) as b:
        key = b.session.key.get_secret_value()
        told = f"OPENAI_API_KEY={key}\n"
        answer = await b.ask(messages=[{"role": "user", "content": told}])
        assert key in answer.text
        (call,) = b.ledger.calls
        request, response = (b.ledger.body(call, part).read_bytes() for part in ("request", "response"))
        assert key.encode() not in request + response
        assert (len(request), len(response)) == (call.request_bytes, call.response_bytes)
        assert response == answer.content.replace(key.encode(), b"*" * len(key))


class _FullDisk(FolderLedger):
    def begin(self, rollout_id: str, attempt: int, call_id: str) -> Capture:
        raise NoSpace("cannot write the ledger: No space left on device")


class _Broken(FolderLedger):
    def add(self, call: ModelCall) -> None:
        raise ValueError("a defect")


@pytest.mark.parametrize(("ledger", "error"), [(_FullDisk, NoSpace), (_Broken, ModelError)])
async def test_an_agent_sees_no_complete_answer_that_is_not_recorded(
    tmp_path: Path, ledger: type[FolderLedger], error: type[Exception]
) -> None:
    async with ScriptedModel(SCRIPT, title=None, api_key=REAL_KEY) as model:
        async with open_gateway(endpoint_of(model), ledger(tmp_path)) as gateway:
            async with gateway.session("r.0") as session, client_of(gateway, session) as client:
                with pytest.raises(httpx.TransportError):
                    await client.post("/chat/completions", json={"model": "scripted", "messages": [USER]})
                assert isinstance(session.trouble, error)


async def test_a_ledger_that_fails_in_the_middle_cuts_the_response(tmp_path: Path) -> None:
    class Late(FolderLedger):
        def begin(self, rollout_id: str, attempt: int, call_id: str) -> Capture:
            capture = super().begin(rollout_id, attempt, call_id)
            written = 0

            def full(data: bytes) -> None:
                nonlocal written
                written += len(data)
                if written > 1_000_000:
                    raise NoSpace("cannot write: No space left on device")

            capture.response = full  # type: ignore[method-assign]
            return capture

    async with ScriptedModel([Turn(padding_bytes=20_000_000)], title=None, api_key=REAL_KEY) as model:
        async with open_gateway(endpoint_of(model), Late(tmp_path)) as gateway:
            async with gateway.session("r.0") as session, client_of(gateway, session) as client:
                body = {"model": "scripted", "messages": [USER]}
                received = bytearray()
                async with client.stream("POST", "/chat/completions", json=body) as response:
                    with pytest.raises(httpx.TransportError):
                        await _read_into(received, response)
                assert len(received) < 3_000_000
                assert isinstance(session.trouble, NoSpace)
                await model.wait_for_async(lambda calls: calls[0].end == "broken")
                await gateway.quiet(timeout_s=5)
                assert [call.end for call in Late(tmp_path).calls] == ["unrecorded"]


async def test_an_attempt_cannot_fill_the_disk(tmp_path: Path) -> None:
    """Beyond its share bodies are dropped, and counted; the rows go on."""
    settings = QUICK.model_copy(update={"recorded_bytes": 100_000})
    async with bench([say("x")], tmp_path, settings=settings) as b:
        for _ in range(5):
            assert (await b.ask(padding="y" * 30_000)).status_code == 200
        calls = b.ledger.calls
        assert len(calls) == 5
        kept = sum(path.stat().st_size for path in (tmp_path / "bodies").iterdir())
        assert 90_000 < kept <= 100_000
        sizes = sum(call.request_bytes + call.response_bytes for call in calls)
        assert sum(call.unrecorded_bytes for call in calls) == sizes - kept
        assert calls[0].unrecorded_bytes == 0


async def test_a_ledger_is_not_required() -> None:
    async with ScriptedModel([say("x")], title=None, api_key=REAL_KEY) as model:
        async with open_gateway(endpoint_of(model)) as gateway, gateway.session("r.0") as session:
            async with client_of(gateway, session) as client:
                body = {"model": "scripted", "messages": [USER]}
                assert (await client.post("/chat/completions", json=body)).status_code == 200
            assert session.usage.calls == 1


async def _read_into(received: bytearray, response: httpx.Response) -> None:
    async for piece in response.aiter_raw():
        received += piece
