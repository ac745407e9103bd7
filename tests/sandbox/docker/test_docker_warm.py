"""Boxes that are made in advance are like any other, and never dead ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import anyio
import docker
import pytest

from swe_sdk.sandbox.contract import Limits, SandboxProvider, SandboxSpec
from swe_sdk.sandbox.providers.docker import warm
from swe_sdk.sandbox.providers.docker.box import DockerBox
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.testing.provider_suite import ProviderSettings, ProviderSuite
from tests.sandbox.docker.images import busybox_image, debian_image

pytestmark = pytest.mark.anyio


class TestWarmDocker(ProviderSuite):
    """What a box made in advance might get wrong."""

    select = ("environment", "lifecycle", "network")

    @classmethod
    def setup_class(cls) -> None:
        cls.settings = ProviderSettings(spec=SandboxSpec(image=debian_image()), parallel_boxes=6)
        super().setup_class()

    def make_provider(self) -> SandboxProvider:
        return DockerProvider(warm=1)


@pytest.fixture
def api() -> Iterator[docker.APIClient]:
    with closing(docker.APIClient(version="auto")) as found:
        yield found


@pytest.fixture
async def provider(docker_state: Path) -> AsyncIterator[DockerProvider]:
    provider = DockerProvider(state=docker_state, warm=2)
    yield provider
    await provider.aclose()
    assert provider.leases.mine() == []
    assert provider.boxes == {}


async def ready(provider: DockerProvider, count: int) -> None:
    with anyio.fail_after(30):
        while sum(len(boxes) for boxes in provider.warm._ready.values()) != count:
            await anyio.sleep(0.02)


async def create(provider: DockerProvider, **spec: object) -> DockerBox:
    box = await provider.create(SandboxSpec.model_validate({"image": busybox_image(), **spec}))
    assert isinstance(box, DockerBox)
    return box


async def test_what_is_said_of_a_box_holds_for_one_made_in_advance(provider: DockerProvider) -> None:
    await create(provider)
    await ready(provider, 2)
    known = set(provider.boxes)
    box = await create(provider, workdir="/made/here", env={"SPEC": "yes"}, labels={"task": "t"})
    assert box.id in known
    assert box.spec.labels == {"task": "t"}
    told = await box.exec("pwd; echo $SPEC $FROM_IMAGE; id -u; echo x > here && cat here")
    assert told.stdout == "/made/here\nyes yes\n1234\nx\n"
    await ready(provider, 2)
    assert len({box.id, *provider.boxes}) == 4


async def test_dead_ones_are_not_handed_out(provider: DockerProvider, api: docker.APIClient) -> None:
    first = await create(provider)
    await ready(provider, 2)
    for box in list(provider.boxes.values()):
        if box is not first:
            api.kill(box.container)
    second = await create(provider)
    assert (await second.exec("echo alive")).stdout == "alive\n"
    assert await first.status() == "running"


async def test_other_limits_are_another_kind_and_few_kinds_are_kept(
    provider: DockerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "KINDS", 1)
    await create(provider)
    await ready(provider, 2)
    known = set(provider.boxes)
    box = await create(provider, limits=Limits(open_files=99))
    assert box.id not in known
    assert (await box.exec("ulimit -n")).stdout == "99\n"
    with anyio.fail_after(30):
        while len(provider.boxes) != 4 or len(provider.warm._ready) != 1:
            await anyio.sleep(0.05)


async def test_a_deleted_snapshot_is_not_held_by_boxes_in_advance(
    provider: DockerProvider, api: docker.APIClient
) -> None:
    snapshot = await provider.snapshot(await create(provider))
    fork = await create(provider, image=None, snapshot=snapshot.id)
    await ready(provider, 4)
    await fork.close()
    await provider.delete_snapshot(snapshot.id)
    await provider.collect()
    names = [name for image in api.images() for name in image.get("RepoTags") or ()]
    assert not [name for name in names if snapshot.id in name]


async def test_places_are_for_boxes_that_somebody_has(docker_state: Path) -> None:
    from swe_sdk.sandbox.admission import Admission, AdmissionLimits

    provider = DockerProvider(state=docker_state, warm=2, admission=Admission(AdmissionLimits(boxes=1)))
    box = await create(provider)
    await ready(provider, 2)
    assert len(provider.admission.view().boxes.held) == 1
    await box.close()
    await (await create(provider)).close()
    await provider.aclose()
