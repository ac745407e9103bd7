"""Real boxes without a network reach the model through the gateway, and nothing else."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from swe_sdk.agents.gateway.gateway import Gateway, open_gateway
from swe_sdk.agents.gateway.ledger import FolderLedger
from swe_sdk.agents.gateway.settings import GatewaySettings
from swe_sdk.agents.model_endpoint import BOX_PORT, ModelEgress, ModelLink, model_env
from swe_sdk.errors import ModelEgressUnavailable, ModelUnreachable, SandboxLost
from swe_sdk.sandbox.contract import Box, SandboxProvider, SupportsPause, SupportsSnapshots
from swe_sdk.testing import ScriptedModel, say
from tests.agents.egress.client import KNOCK, RAW, ask, python, run
from tests.agents.egress.conftest import MakeBox
from tests.agents.gateway.gates import REAL_KEY, client_of, endpoint_of

pytestmark = pytest.mark.anyio
SCRIPT = [say("the model says hello", chunk_delay_s=0.05)]


@asynccontextmanager
async def world(script: object = SCRIPT) -> AsyncIterator[tuple[ScriptedModel, Gateway]]:
    settings = GatewaySettings(connect_tries=1, check_timeout_s=2)
    async with ScriptedModel(script, title=None, api_key=REAL_KEY) as model:  # type: ignore[arg-type]
        async with open_gateway(endpoint_of(model), settings=settings) as gateway:
            yield model, gateway


@asynccontextmanager
async def linked(provider: SandboxProvider, box: Box, gateway: Gateway, name: str = "r.0") -> AsyncIterator[ModelLink]:
    async with ModelEgress(gateway).connect(provider, box, rollout_id=name, attempt=1) as link:
        yield link


async def test_a_box_without_a_network_calls_the_model(
    provider: SandboxProvider, make_box: MakeBox, tmp_path: Path
) -> None:
    box, ledger = await make_box(), FolderLedger(tmp_path)
    async with ScriptedModel(SCRIPT, title=None, api_key=REAL_KEY) as model:
        async with open_gateway(endpoint_of(model), ledger) as gateway, linked(provider, box, gateway) as link:
            assert link.way == "listener"
            assert link.access.box_url == f"http://127.0.0.1:{BOX_PORT}/v1"
            whole = await ask(box, link.access)
            stream = await ask(box, link.access, stream=True)
            host = client_of(gateway, link.session)
            async with host:
                direct = await host.post("/chat/completions", json={"model": "scripted", "messages": []})
    assert whole["status"] == stream["status"] == direct.status_code == 200
    assert json.loads(whole["lines"][0])["choices"][0]["message"]["content"] == "the model says hello"
    assert stream["lines"][-1] == "data: [DONE]\n"
    assert 0.03 < max(stream["gaps"]) < 0.5, "the stream was not passed on as it came"
    assert len(stream["gaps"]) >= 6
    assert [(call.rollout_id, call.end) for call in ledger.calls] == [("r.0", "delivered")] * 3
    assert link.session.usage.calls == 3
    assert [played.request.api_key for played in model.calls if played.request] == [REAL_KEY] * 3


async def test_it_reaches_nothing_else(provider: SandboxProvider, make_box: MakeBox) -> None:
    """Neither this machine's services, nor the user's endpoint, nor the gateway's other doors, nor the world."""
    box, other = await make_box(), await make_box()
    async with world() as (model, gateway), linked(provider, box, gateway) as link:
        with socket.create_server(("0.0.0.0", 0)) as service:
            addresses = {"127.0.0.1", socket.gethostbyname(socket.gethostname()), "172.17.0.1", "10.0.0.1", "1.1.1.1"}
            ports = [model.port, gateway.port, service.getsockname()[1], 22, 2375, 80]
            doors = [[host, port] for host in sorted(addresses) for port in ports] + [["169.254.169.254", 80]]
            assert await python(box, KNOCK, json.dumps([*doors, ["127.0.0.1", BOX_PORT]])) == [["127.0.0.1", BOX_PORT]]
            assert await python(other, KNOCK, json.dumps([*doors, ["127.0.0.1", BOX_PORT]])) == []
            assert (await ask(box, link.access))["status"] == 200


async def test_the_door_opens_for_its_own_key_alone(provider: SandboxProvider, make_box: MakeBox) -> None:
    box, other = await make_box(), await make_box()
    async with world() as (model, gateway), linked(provider, box, gateway, "a.0") as mine:
        async with linked(provider, other, gateway, "b.0") as theirs:
            stolen = mine.access.model_copy(update={"api_key": theirs.access.api_key})
            real = mine.access.model_copy(update={"api_key": model_key()})
            assert (await ask(box, stolen))["status"] == 401
            assert (await ask(box, real))["status"] == 401
            key = theirs.access.api_key.get_secret_value()
            own = mine.access.api_key.get_secret_value()
            texts = [
                f"GET /r/{key}/v1/models HTTP/1.0\r\n\r\n",
                f"GET http://127.0.0.1:{model.port}/v1/models HTTP/1.0\r\nAuthorization: Bearer {own}\r\n\r\n",
                f"CONNECT 127.0.0.1:{model.port} HTTP/1.0\r\nAuthorization: Bearer {own}\r\n\r\n",
                f"GET /v1/../../v1/files HTTP/1.0\r\nAuthorization: Bearer {own}\r\n\r\n",
                f"POST /v1/files HTTP/1.0\r\nAuthorization: Bearer {own}\r\nContent-Length: 2\r\n\r\n{{}}",
                f"GET /v1/models HTTP/1.1\r\nAuthorization: Bearer {own}\r\nContent-Length: 3\r\n"
                "Transfer-Encoding: chunked\r\nHost: x\r\n\r\n0\r\n\r\nGET /v1/files HTTP/1.1\r\n\r\n",
                "\x00\xff\x16\x03\x01 nonsense\r\n\r\n",
                "GET /health HTTP/1.0\r\n\r\n",
            ]
            port = str(BOX_PORT)
            answers = await python(box, RAW, port, json.dumps(texts))
            statuses = [int(answer.split(" ", 2)[1]) for answer in answers]
            assert statuses[:5] == [401, 404, 404, 404, 404]
            assert statuses[5] in (200, 400)
            assert statuses[6:] == [400, 200]
            assert not any("owned_by" in answer for answer in answers[:5])
        assert await python(other, KNOCK, json.dumps([["127.0.0.1", BOX_PORT]])) == [], "a door into another's box"
        assert model.calls == ()


def model_key() -> object:
    from pydantic import SecretStr

    return SecretStr(REAL_KEY)


async def test_secrets_are_in_no_argument_and_no_specification(provider: SandboxProvider, make_box: MakeBox) -> None:
    box = await make_box()
    async with world() as (_model, gateway), linked(provider, box, gateway) as link:
        key = link.access.api_key.get_secret_value()
        env = model_env(link.access)
        assert set(env) == {"OPENAI_BASE_URL", "NEMO_GYM_MODEL_BASE_URL", "OPENAI_API_KEY", "NEMO_GYM_MODEL"}
        before = await box.exec("env")
        program = "import os, sys; print(sorted(os.environ)); sys.stdout.flush(); input()"
        seen: list[str] = []

        async def look() -> None:
            await anyio.sleep(0.3)
            for entry in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.append(entry.read_bytes().decode("latin-1"))
                except OSError:
                    pass  # it has ended

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)
            inside = await box.exec(["python3", "-c", f"{program}; import time"], env=env, stdin=b"x\n")
            sleeping = await box.exec(["sleep", "0.6"], env=env)
        assert sleeping.ok
        names = set(inside.stdout.strip("[]\n").replace("'", "").split(", "))
        assert set(env) <= names
        assert names - {line.split("=", 1)[0] for line in before.stdout.splitlines()} - set(env) <= {"LC_CTYPE"}
        assert any("sleep" in line for line in seen)
        for secret in (key, REAL_KEY):
            assert not any(secret in line for line in seen)
            assert secret not in box.spec.model_dump_json() + repr(link.access) + link.access.model_dump_json()
        found = await box.exec(["grep", "-rlsF", key, "/tmp", "/etc", "/root", "/home"])
        assert found.stdout == ""


async def test_the_door_closes_with_its_block(provider: SandboxProvider, make_box: MakeBox) -> None:
    box = await make_box()
    door = json.dumps([["127.0.0.1", BOX_PORT]])
    async with world() as (_model, gateway):
        async with linked(provider, box, gateway) as link:
            assert await python(box, KNOCK, door) == [["127.0.0.1", BOX_PORT]]
        assert await python(box, KNOCK, door) == []
        async with client_of(gateway, link.session) as late:
            assert (await late.get("/models")).status_code == 401
        async with linked(provider, box, gateway) as again:  # the same port, another key
            assert again.access.box_url == link.access.box_url
            assert (await ask(box, again.access))["status"] == 200
            assert (await ask(box, link.access))["status"] == 401
    assert await python(box, KNOCK, door) == [], "a gateway that is gone leaves no door"


async def test_a_program_that_has_the_port_keeps_it(provider: SandboxProvider, make_box: MakeBox) -> None:
    box = await make_box()
    serve = f"""
import socket, sys
with socket.create_server(("127.0.0.1", {BOX_PORT})) as server:
    open("/tmp/serves", "w").close()
    while True: server.accept()
"""
    await box.exec(["sh", "-c", 'python3 -c "$1" > /dev/null 2>&1 &', "sh", serve])
    assert (await box.exec("until [ -e /tmp/serves ]; do sleep 0.05; done", timeout_s=20)).ok
    async with world() as (_model, gateway), linked(provider, box, gateway) as link:
        assert link.access.box_url != f"http://127.0.0.1:{BOX_PORT}/v1"
        assert (await ask(box, link.access))["status"] == 200


async def test_a_flood_of_connections_harms_only_its_box(provider: SandboxProvider, make_box: MakeBox) -> None:
    greedy, modest = await make_box(), await make_box()
    most = GatewaySettings().connections_per_rollout
    flood = f"""
import socket, time
held = []
for _ in range(300):
    try: held.append(socket.create_connection(("127.0.0.1", {BOX_PORT}), 2))
    except OSError: pass
for each in held: each.setblocking(False)
def lives(connection):
    try: return connection.recv(1) != b""
    except BlockingIOError: return True
    except OSError: return False
until = time.monotonic() + 20  # the other end may be busy
while len(alive := [each for each in held if lives(each)]) > {most} and time.monotonic() < until: time.sleep(0.2)
print(len(alive))
"""
    async with world() as (_model, gateway), linked(provider, greedy, gateway, "a.0") as first:
        async with linked(provider, modest, gateway, "b.0") as second:
            alive = await run(greedy, flood)
            assert alive.stdout.strip() == str(most)
            assert (await ask(modest, second.access))["status"] == 200
            assert (await ask(greedy, first.access))["status"] == 200, "its connections have ended with it"


async def test_an_endpoint_that_is_down_is_told_before_the_agent_starts(
    provider: SandboxProvider, make_box: MakeBox
) -> None:
    box = await make_box()
    async with world() as (model, gateway):
        with model.refusing(), pytest.raises(ModelUnreachable):
            async with linked(provider, box, gateway):
                pytest.fail("the agent has started")
        assert model.calls == ()
        assert gateway.sessions == ()


async def test_a_box_that_is_gone_is_no_trouble_of_the_model(provider: SandboxProvider, make_box: MakeBox) -> None:
    box = await make_box()
    async with world() as (_model, gateway):
        await box.stop()  # type: ignore[attr-defined]
        with pytest.raises(SandboxLost):
            async with linked(provider, box, gateway):
                pytest.fail("the agent has started")


async def test_a_box_with_this_machines_network_uses_the_gateways_own_port(
    provider: SandboxProvider, make_box: MakeBox
) -> None:
    box = await make_box(network="host")
    async with world() as (_model, gateway), linked(provider, box, gateway) as link:
        assert link.way == "loopback"
        assert link.access.box_url == gateway.url
        assert (await ask(box, link.access))["status"] == 200


async def test_a_call_is_held_while_its_box_is_paused(provider: SandboxProvider, make_box: MakeBox) -> None:
    """The answer comes during the pause, waits for the release, and the program in the box notices nothing."""
    box = await make_box()
    assert isinstance(box, SupportsPause)
    async with world([say("x", gate="g")]) as (model, gateway), linked(provider, box, gateway) as link:
        answers: list[dict[str, object]] = []

        async def agent() -> None:
            answers.append(await ask(box, link.access))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent)
            await model.wait_for_async(1)
            gateway.hold()
            assert link.session.awaiting_model
            await box.pause()
            model.open_gate("g")
            with anyio.fail_after(10):
                while [call.state for call in link.session.calls] != ["answered"]:
                    await anyio.sleep(0.01)
            assert answers == []
            await box.resume()
            gateway.release()
        assert [answer["status"] for answer in answers] == [200]
        assert link.session.usage.calls == 1


async def test_a_fork_finds_the_model_at_the_same_address(provider: SandboxProvider, make_box: MakeBox) -> None:
    """With the key of its own attempt: that of the attempt before it is void there."""
    assert isinstance(provider, SupportsSnapshots)
    box = await make_box()
    async with world() as (_model, gateway):
        async with linked(provider, box, gateway) as first:
            pass
        snapshot = await provider.snapshot(box)
        fork = await make_box(snapshot=snapshot.id)
        async with ModelEgress(gateway).connect(provider, fork, rollout_id="r.0", attempt=2) as second:
            assert second.access.box_url == first.access.box_url
            assert (await ask(fork, second.access))["status"] == 200
            assert (await ask(fork, first.access))["status"] == 401
        await fork.close()
    await provider.delete_snapshot(snapshot.id)


async def test_an_address_that_boxes_do_not_reach_is_unavailable(provider: SandboxProvider, make_box: MakeBox) -> None:
    """A probe from the inside says so, with what it has seen."""

    class Elsewhere:
        name, capabilities = "elsewhere", frozenset[str]()

    box = await make_box()
    async with world() as (model, gateway):
        egress = ModelEgress(gateway, service_url="http://192.0.2.1:9/v1")
        started = time.monotonic()
        with pytest.raises(
            ModelEgressUnavailable, match=r"does not reach the model gateway at http://192\.0\.2\.1:9/health"
        ):
            async with egress.connect(Elsewhere(), box, rollout_id="r.0", attempt=1):  # type: ignore[arg-type]
                pytest.fail("the agent has started")
        assert time.monotonic() - started < 25
        assert model.calls == ()
        async with ModelEgress(gateway, must_reach=False).connect(provider, box, rollout_id="r.0", attempt=1) as link:
            assert (link.way, link.access.box_url) == (None, None)
            async with httpx.AsyncClient(trust_env=False) as here:
                key = {"authorization": f"Bearer {link.access.api_key.get_secret_value()}"}
                assert (await here.get(link.access.base_url + "/models", headers=key)).status_code == 200
