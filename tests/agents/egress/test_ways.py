"""Which way boxes of a provider take, and boxes that have no program to be probed with."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import anyio
import pytest

from swe_sdk.agents.gateway.gateway import open_gateway
from swe_sdk.agents.gateway.settings import GatewaySettings
from swe_sdk.agents.model_endpoint import ModelEgress, find_way
from swe_sdk.errors import ModelEgressUnavailable
from swe_sdk.grading.classify import classify
from swe_sdk.model.policy import DEFAULT_POLICY
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing import FakeProvider, ScriptedModel, say
from tests.agents.egress.client import ask
from tests.agents.gateway.gates import REAL_KEY, endpoint_of
from tests.sandbox.docker.images import busybox_image


def own_address() -> str:
    """An address of this machine that is not loopback; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        try:
            found.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(found.getsockname()[0])


PUBLIC = "https://gateway.example.com/v1"


@pytest.mark.parametrize(
    ("provider", "network", "can_listen", "service_url", "way"),
    [
        ("local", "none", True, None, "listener"),
        ("docker", "none", True, None, "listener"),
        ("apptainer", "none", True, None, "listener"),
        ("local", "none", True, PUBLIC, "listener"),
        ("local", "host", True, None, "loopback"),
        ("docker", "host", True, None, "loopback"),
        ("apptainer", "host", False, None, "loopback"),
        ("opensandbox", "none", False, PUBLIC, "service"),
        ("opensandbox", "host", False, PUBLIC, "service"),
        ("somebodys", "none", True, None, "listener"),
        ("local", "none", False, PUBLIC, "service"),
    ],
)
def test_the_way(provider: str, network: str, can_listen: bool, service_url: str | None, way: str) -> None:
    assert find_way(provider, network, can_listen=can_listen, service_url=service_url) == way  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("provider", "network", "service_url", "words"),
    [
        ("opensandbox", "none", None, "give service_url"),
        ("opensandbox", "host", None, "give service_url"),
        ("opensandbox", "none", "http://127.0.0.1:8000/v1", "loopback"),
        ("opensandbox", "none", "http://localhost:8000/v1", "loopback"),
        ("opensandbox", "none", "http://0.0.0.0:8000/v1", "loopback"),
        ("opensandbox", "none", "http://[::1]/v1", "loopback"),
        ("local", "none", None, "give service_url"),
    ],
)
def test_there_is_no_way(provider: str, network: str, service_url: str | None, words: str) -> None:
    with pytest.raises(ModelEgressUnavailable, match=words) as error:
        find_way(provider, network, can_listen=False, service_url=service_url)  # type: ignore[arg-type]
    failure = classify(error.value, "agent")
    assert failure.kind == "model_unreachable"
    assert failure.evidence["remedy"]
    assert DEFAULT_POLICY.decide("agent", failure.kind).verdict == "masked"


@pytest.mark.anyio
async def test_boxes_that_cannot_listen_are_said_to_be_unreachable() -> None:
    provider = FakeProvider()
    async with ScriptedModel([say("x")], api_key=REAL_KEY) as model, open_gateway(endpoint_of(model)) as gateway:
        box = await provider.create(SandboxSpec())
        with pytest.raises(ModelEgressUnavailable, match="cannot reach the model gateway"):
            async with ModelEgress(gateway).connect(provider, box, rollout_id="r.0", attempt=1):
                pytest.fail("the agent has started")
        assert gateway.sessions == ()
        assert provider.calls["exec"] == 0
        await box.close()


@pytest.mark.anyio
async def test_boxes_elsewhere_come_by_the_address_that_they_see(local_provider: LocalProvider) -> None:
    """A box with this machine's network stands for one elsewhere: it comes by an address that is not loopback."""
    address = own_address()
    provider = LocalProvider(local_provider.state)
    elsewhere = SimpleNamespace(name="elsewhere", capabilities=frozenset())
    settings = GatewaySettings(host="0.0.0.0")
    async with ScriptedModel([say("x")], title=None, api_key=REAL_KEY) as model:
        async with open_gateway(endpoint_of(model), settings=settings) as gateway:
            box = await provider.create(SandboxSpec(workdir="/tmp", network="host"))
            for suffix in ("", "/", "/v1", "/v1/"):
                egress = ModelEgress(gateway, service_url=f"http://{address}:{gateway.port}{suffix}")
                async with egress.connect(elsewhere, box, rollout_id="r.0", attempt=1) as link:  # type: ignore[arg-type]
                    assert link.way == "service"
                    assert link.access.box_url == f"http://{address}:{gateway.port}/v1"
                    assert link.access.base_url == f"http://127.0.0.1:{gateway.port}/v1"
                    assert (await ask(box, link.access))["status"] == 200
            await box.close()
    await provider.aclose()


@pytest.mark.anyio
async def test_a_box_without_any_client_is_believed_by_its_supervisor(tmp_path_factory: pytest.TempPathFactory) -> None:
    """An image of a shell and a few tools: nothing in it speaks HTTP, yet a static harness could."""
    provider = DockerProvider(state=tmp_path_factory.mktemp("state"), base_image=busybox_image())
    box = await provider.create(SandboxSpec(workdir="/tmp"))
    async with ScriptedModel([say("x")], api_key=REAL_KEY) as model, open_gateway(endpoint_of(model)) as gateway:
        async with ModelEgress(gateway).connect(provider, box, rollout_id="r.0", attempt=1) as link:
            assert link.way == "listener"
    await box.close()
    await provider.aclose()


@pytest.mark.anyio
async def test_twenty_boxes_at_once_have_the_same_port_and_do_not_meet(local_provider: LocalProvider) -> None:
    provider = LocalProvider(local_provider.state)
    async with ScriptedModel([say("x")], title=None, api_key=REAL_KEY) as model:
        async with open_gateway(endpoint_of(model)) as gateway:
            statuses: list[tuple[str | None, int]] = []

            async def rollout(number: int) -> None:
                box = await provider.create(SandboxSpec(workdir="/tmp"))
                egress = ModelEgress(gateway)
                async with egress.connect(provider, box, rollout_id=f"r.{number}", attempt=1) as link:
                    answer = await ask(box, link.access, stream=bool(number % 2))
                    statuses.append((link.access.box_url, answer["status"]))
                await box.close()

            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(rollout, number)
            assert len(statuses) == 20
            assert len(set(statuses)) == 1
            assert len(model.requests) == 20
    await provider.aclose()
