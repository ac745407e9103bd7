"""What programs of a box leave to spoil the next box, or the engine: it is told at once, and nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import anyio
import docker
import pytest

from swe_sdk.errors import CreateFailed, NoSpace
from swe_sdk.sandbox.leases import LABEL_LEASE
from swe_sdk.sandbox.providers.docker import snapshots
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from tests.sandbox.docker.conftest import MakeBox
from tests.sandbox.docker.images import busybox_image

pytestmark = pytest.mark.anyio
_PROMPT_S = 40


@pytest.fixture
def api() -> Iterator[docker.APIClient]:
    with closing(docker.APIClient(version="auto")) as found:
        yield found


@contextmanager
def image_with(api: docker.APIClient, *changes: str) -> Iterator[str]:
    """Busybox with other settings."""
    container = api.create_container(busybox_image(), ["/bin/true"], network_disabled=True)["Id"]
    try:
        made: str = api.commit(container, changes=[*changes, "USER root"])["Id"]
    finally:
        api.remove_container(container, v=True)
    yield made
    with suppress(docker.errors.NotFound):  # one without a name goes with the last that stands on it
        api.remove_image(made)


@pytest.mark.parametrize(
    ("sabotage", "where"),
    [
        ("rm /etc/passwd; mkfifo /etc/passwd", "/etc/passwd"),
        ("rm /etc/group; mkfifo /etc/pipe; ln -s pipe /etc/link; ln -s link /etc/group", "/etc/group"),
        ("dd if=/dev/null of=/etc/passwd bs=1 seek=20000000", "/etc/passwd"),
    ],
)
async def test_a_pipe_that_the_engine_would_wait_for(
    make_box: MakeBox, docker_provider: DockerProvider, api: docker.APIClient, sabotage: str, where: str
) -> None:
    """The engine opens these files itself; at a pipe it hangs for ever, with a container that nobody can remove."""
    box = await make_box(image=busybox_image())
    assert (await box.exec(sabotage, user="root")).ok
    snapshot = await docker_provider.snapshot(box)
    try:
        with anyio.fail_after(_PROMPT_S), pytest.raises(CreateFailed, match=f"{where} .*cannot be read"):
            await make_box(snapshot=snapshot.id)
        assert [lease.id for lease in docker_provider.leases.mine()] == [box.lease.id]
        assert len(api.containers(all=True, filters={"name": "swe_sdk-", "ancestor": _name(snapshot.id)})) == 0
    finally:
        await docker_provider.delete_snapshot(snapshot.id)


async def test_a_link_to_a_file_or_to_nothing_is_as_good(make_box: MakeBox, docker_provider: DockerProvider) -> None:
    box = await make_box(image=busybox_image())
    assert (await box.exec("mv /etc/passwd /p; ln -s /p /etc/passwd; ln -sf /nowhere /etc/group", user="root")).ok
    snapshot = await docker_provider.snapshot(box)
    try:
        assert (await (await make_box(snapshot=snapshot.id)).exec("id -u")).stdout == "1234\n"
    finally:
        await docker_provider.delete_snapshot(snapshot.id)


@pytest.mark.parametrize("sabotage", ["touch /work", "ln -s /work /work"])
async def test_something_else_in_place_of_the_images_own_workdir(
    make_box: MakeBox, docker_provider: DockerProvider, api: docker.APIClient, sabotage: str
) -> None:
    with image_with(api, "WORKDIR /work") as image:
        box = await make_box(image=image, workdir="/work")
        assert (await box.exec(f"rm -r /work; {sabotage}", cwd="/")).ok
        snapshot = await docker_provider.snapshot(box)
        try:
            fork = await make_box(snapshot=snapshot.id, workdir="/work")
            assert (await fork.exec("true")).exit_code == 126
            assert fork.image.config["WorkingDir"] == "/work", "for whoever runs it otherwise"
            await fork.close()
        finally:
            await box.close()
            await docker_provider.delete_snapshot(snapshot.id)


async def test_the_place_of_our_mounts_cannot_be_taken(make_box: MakeBox, docker_provider: DockerProvider) -> None:
    box = await make_box(image=busybox_image())
    assert not (await box.exec("mv /.swe_sdk /away", user="root")).ok
    assert not (await box.exec("rm -r /.swe_sdk/box; rmdir /.swe_sdk", user="root")).ok
    assert not (await box.exec("touch /.swe_sdk/file", user="root")).ok
    snapshot = await docker_provider.snapshot(box)
    try:
        assert (await (await make_box(snapshot=snapshot.id)).exec("true")).ok
    finally:
        await docker_provider.delete_snapshot(snapshot.id)


async def test_a_file_of_nothing_but_holes_does_not_fill_the_engines_disk(
    make_box: MakeBox, docker_provider: DockerProvider
) -> None:
    """Found by an engine that went on writing zeros after its caller had died."""
    box = await make_box(image=busybox_image())
    assert (await box.exec("dd if=/dev/null of=/tmp/holes bs=1024k seek=8000000")).ok
    with anyio.fail_after(_PROMPT_S), pytest.raises(NoSpace, match="are wanted"):
        await docker_provider.snapshot(box)
    assert (await box.exec("rm /tmp/holes")).ok
    await docker_provider.delete_snapshot((await docker_provider.snapshot(box)).id)


async def test_a_container_of_somebody_elses_on_a_copy_of_a_box_is_theirs(
    make_box: MakeBox, docker_provider: DockerProvider, api: docker.APIClient
) -> None:
    """It has the labels of the box, by inheritance."""
    box = await make_box(image=busybox_image())
    image = api.commit(box.container)["Id"]
    theirs = api.create_container(image, ["/bin/true"], network_disabled=True)["Id"]
    try:
        assert api.inspect_container(theirs)["Config"]["Labels"][LABEL_LEASE] == box.lease.id
        owned = {found.handle for found in await docker_provider.owned()}
        assert box.container in owned
        assert theirs not in owned
    finally:
        api.remove_container(theirs)
        api.remove_image(image)


async def test_layers_made_one_leave_no_volume(
    make_box: MakeBox, docker_provider: DockerProvider, api: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MAX_DEPTH", 1)
    mark = "/only/in/this/test"
    made: list[str] = []
    create = docker.APIClient.create_container_from_config

    def noted(self: docker.APIClient, *arguments: object, **options: object) -> dict[str, str]:
        found: dict[str, str] = create(self, *arguments, **options)
        mounts = self.inspect_container(found["Id"])["Mounts"]
        made.extend(mount["Name"] for mount in mounts if mount["Destination"] == mark)
        return found

    monkeypatch.setattr(docker.APIClient, "create_container_from_config", noted)
    with image_with(api, f"VOLUME {mark}") as image:
        box = await make_box(image=image)
        snapshot = await docker_provider.snapshot(box)
        await box.close()
        await docker_provider.delete_snapshot(snapshot.id)
    left = {volume["Name"] for volume in api.volumes()["Volumes"] or ()} & set(made)
    assert len(made) > 1
    assert left == set()


def _name(snapshot_id: str) -> str:
    return f"{snapshots.SNAPSHOTS}:{snapshot_id}"
