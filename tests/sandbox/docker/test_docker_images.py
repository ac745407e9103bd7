"""Images come from the engine or from a registry, once; what is not there is told by type."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import docker
import pytest

from swe_sdk.errors import ImageNotFound, InputError, MissingTool, NoSpace, PrerequisiteError, PullFailed
from swe_sdk.model.environment import ImageEnvironment
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.images.reference import ImageReference
from swe_sdk.sandbox.images.settings import RegistrySettings
from swe_sdk.sandbox.providers.docker import images
from swe_sdk.sandbox.providers.docker.engine import Engine
from swe_sdk.sandbox.providers.docker.images import Images
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from tests.sandbox.docker.images import busybox_image, debian_image
from tests.sandbox.images.conftest import running_registry

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry on the loopback interface, which the engine speaks to without TLS."""
    with running_registry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry.host


@pytest.fixture
def pushed(host: str) -> Iterator[str]:
    """The name of an image that is in the registry and not in the engine, below its registry's."""
    name = f"{new_id('image')}:1"
    _docker("tag", busybox_image(), f"{host}/library/{name}")
    _docker("push", "--quiet", f"{host}/library/{name}")
    _docker("rmi", f"{host}/library/{name}")
    yield name
    with closing(docker.APIClient(version="auto")) as api:
        for image in api.images():
            for tag in image.get("RepoTags") or ():
                if tag.endswith(name):
                    api.remove_image(tag)


def _docker(*arguments: str) -> None:
    subprocess.run(["docker", *arguments], check=True, capture_output=True, timeout=120)


async def test_an_image_is_pulled_once_however_many_want_it(
    docker_provider: DockerProvider, host: str, pushed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulls: list[str] = []
    real = images.pull

    async def pull(engine: Engine, image: ImageReference) -> None:
        pulls.append(str(image))
        await real(engine, image)

    monkeypatch.setattr(images, "pull", pull)
    name = f"{host}/library/{pushed}"

    async def one() -> None:
        box = await docker_provider.create(SandboxSpec(image=name))
        assert (await box.exec("echo $FROM_IMAGE; id -u")).stdout == "yes\n1234\n"
        await box.close()

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(one)
    assert pulls == [name]


async def test_a_mirror_stands_for_docker_hub(docker_provider: DockerProvider, host: str, pushed: str) -> None:
    """The image then has the name by which it was asked for: official names need no change."""
    docker_provider.images = Images(docker_provider.engine, docker_provider.state, RegistrySettings(mirror=host))
    said: list[str] = []
    prepared = await prepare(docker_provider, ImageEnvironment(image=pushed), on_progress=said.append)
    assert said == [f"pulling {pushed}"]
    box = await docker_provider.create(prepared.spec())
    assert (await box.exec("echo $FROM_IMAGE")).stdout == "yes\n"
    await box.close()
    await prepare(docker_provider, ImageEnvironment(image=pushed), on_progress=said.append)
    assert len(said) == 1


async def test_what_is_not_in_the_registry_is_not_found(docker_provider: DockerProvider, host: str) -> None:
    with pytest.raises(ImageNotFound, match="none-such"):
        await docker_provider.create(SandboxSpec(image=f"{host}/library/none-such:1"))


@pytest.mark.parametrize("name", ["Capital", "a//b", "", "x:y:z"])
async def test_what_is_no_name_is_the_callers_mistake(docker_provider: DockerProvider, name: str) -> None:
    with pytest.raises((ImageNotFound, InputError, PrerequisiteError)):
        await DockerProvider(state=docker_provider.state.parent).create(SandboxSpec(image=name))


async def test_a_registry_that_does_not_answer_is_asked_again_and_then_told(
    docker_provider: DockerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[object] = []
    real = images.pull

    async def pull(engine: Engine, image: ImageReference) -> None:
        attempts.append(image)
        await real(engine, image)

    monkeypatch.setattr(images, "_BACKOFF_S", 0.01)
    monkeypatch.setattr(images, "pull", pull)
    with pytest.raises(PullFailed, match="nobody/there"):
        await docker_provider.create(SandboxSpec(image="127.0.0.1:1/nobody/there:1"))
    assert len(attempts) == images.ATTEMPTS


async def test_with_a_full_disk_nothing_is_begun(
    docker_provider: DockerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    await docker_provider.ensure_image(debian_image())
    monkeypatch.setattr(images, "LEAST_FREE_BYTES", 1 << 60)
    with pytest.raises(NoSpace, match="docker"):
        await docker_provider.create(SandboxSpec(image=debian_image()))
    assert docker_provider.leases.mine() == []


async def test_a_toolchain_is_what_the_base_image_has(docker_provider: DockerProvider) -> None:
    found = await docker_provider.toolchain(">=3.9", ["patch"])
    assert (found.python, found.of_machine, found.mounts) == ("/usr/bin/python3", False, ())
    assert (await docker_provider.toolchain(None, [])).python is None
    with pytest.raises(MissingTool, match=r"Python 2\.7 was not found in the image .*it has 3\.11"):
        await docker_provider.toolchain("2.7", [])
    with pytest.raises(MissingTool, match="node was not found in the image"):
        await docker_provider.toolchain(None, ["node"])


async def test_without_a_base_image_it_is_said_what_one_must_have(docker_state: Path) -> None:
    provider = DockerProvider(state=docker_state)
    provider.base_image = None
    for call in (provider.toolchain("3.11", []), provider.create(SandboxSpec())):
        with pytest.raises(PrerequisiteError, match=r"SWE_SDK_BASE_IMAGE.*venv"):
            await call
    await provider.aclose()
