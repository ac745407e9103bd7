"""What is special about boxes that are containers: users and variables of images, snapshots as images, memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import anyio
import docker
import pytest

from swe_sdk.errors import CreateFailed, InputError, SnapshotBusy
from swe_sdk.sandbox.admission import Admission, AdmissionLimits
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.leases import LABEL_OWNER
from swe_sdk.sandbox.owner import current_owner
from swe_sdk.sandbox.providers.docker import birth, snapshots
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from tests.sandbox.docker.conftest import MakeBox
from tests.sandbox.docker.images import busybox_image, debian_image

pytestmark = pytest.mark.anyio


@pytest.fixture
def api() -> Iterator[docker.APIClient]:
    with closing(docker.APIClient(version="auto")) as found:
        yield found


async def test_commands_run_as_the_users_of_the_image(make_box: MakeBox) -> None:
    box = await make_box(image=busybox_image())
    who = 'id -u; id -g; id -G; echo "$HOME $USER"'
    assert (await box.exec(who)).stdout == "1234\n5678\n5678 99\n/home/worker worker\n"
    assert (await box.exec(who, user="agent")).stdout == "1234\n5678\n5678 99\n/home/worker worker\n"
    assert (await box.exec(who, user="root")).stdout == "0\n0\n0\n/root root\n"
    assert (await box.exec(who, user="1234:0")).stdout == "1234\n0\n0\n/home/worker worker\n"
    assert (await box.exec(who, user="77")).stdout == "77\n0\n0\n/ 77\n"
    with pytest.raises(InputError, match="nobody-here"):
        await box.exec(who, user="nobody-here")
    await box.write("/etc/passwd", b"later:x:55:66::/tmp:/bin/sh\n")
    assert (await box.exec(who, user="later")).stdout == "55\n66\n66\n/tmp later\n", "it was added to the box"
    assert (await box.exec("echo told > /dev/stdout; cat /dev/stdin", stdin=b"in")).stdout == "told\nin"


async def test_variables_of_the_image_reach_programs_and_not_the_supervisor(make_box: MakeBox) -> None:
    box = await make_box(image=busybox_image(), env={"SPEC": "yes"})
    result = await box.exec("echo $FROM_IMAGE $SPEC $LD_PRELOAD")
    assert result.stdout == "yes yes /nothing.so\n"
    assert (await box.exec("echo $FROM_IMAGE", env={"FROM_IMAGE": "no"})).stdout == "no\n"


async def test_a_snapshot_is_an_image_like_the_one_below(
    make_box: MakeBox, docker_provider: DockerProvider, api: docker.APIClient
) -> None:
    """User, variables, entry point: nothing of how we ran the container is left in it."""
    box = await make_box(image=busybox_image())
    await box.exec("echo kept > /home/worker/f")
    snapshot = await docker_provider.snapshot(box)
    made = api.inspect_image(f"{snapshots.SNAPSHOTS}:{snapshot.id}")["Config"]
    below = api.inspect_image(busybox_image())["Config"]
    for name in ("User", "Env", "Entrypoint", "WorkingDir"):
        assert (made.get(name) or None) == (below.get(name) or None), name
    fork = await make_box(snapshot=snapshot.id)
    assert (await fork.exec("cat /home/worker/f; id -u; echo $FROM_IMAGE")).stdout == "kept\n1234\nyes\n"
    await docker_provider.delete_snapshot(snapshot.id)


async def test_deleted_snapshots_go_when_nothing_stands_on_them(
    make_box: MakeBox, docker_provider: DockerProvider, api: docker.APIClient
) -> None:
    box = await make_box(image=busybox_image())
    snapshot = await docker_provider.snapshot(box)
    fork = await make_box(snapshot=snapshot.id)
    later = await docker_provider.snapshot(fork)
    await docker_provider.delete_snapshot(snapshot.id)
    assert snapshot.id not in {found.id for found in await docker_provider.snapshots()}
    assert (await fork.exec(["/bin/echo", "lives"])).stdout == "lives\n"
    await fork.close()
    await docker_provider.delete_snapshot(later.id)
    await box.close()
    await docker_provider.collect()
    assert not [image for image in api.images() if _is_named(image, snapshot.id) or _is_named(image, later.id)]


def _is_named(image: dict[str, Any], name: str) -> bool:
    return any(name in tag for tag in image.get("RepoTags") or ())


async def test_a_chain_of_snapshots_has_no_end(
    make_box: MakeBox, docker_provider: DockerProvider, api: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the engine would have too many layers they are made one, with the same files and settings."""
    monkeypatch.setattr(snapshots, "MAX_DEPTH", 4)
    images_before = {image["Id"] for image in api.images(all=True)}
    box, ids, depths = await make_box(image=busybox_image()), [], []
    for number in range(6):
        await box.exec(f"echo {number} >> /tmp/chain; rm -f /tmp/only-*; touch /tmp/only-{number}")
        snapshot = await docker_provider.snapshot(box)
        ids.append(snapshot.id)
        await box.close()
        box = await make_box(snapshot=snapshot.id)
        depths.append(box.image.depth)
    told = await box.exec("cat /tmp/chain; ls /tmp; id -u; echo $FROM_IMAGE; ls -ld /home/worker | cut -c 1-10,14-40")
    assert told.stdout.startswith("0\n1\n2\n3\n4\n5\nchain\nonly-5\n1234\nyes\n")
    assert depths == [2, 3, 1, 2, 3, 1]
    await box.close()
    for name in ids:
        await docker_provider.delete_snapshot(name)
    await docker_provider.collect()
    assert {image["Id"] for image in api.images(all=True)} <= images_before
    mine = f"{LABEL_OWNER}={current_owner().label}"
    assert api.containers(all=True, filters={"label": mine}) == []


async def test_a_paused_box_is_frozen_as_it_stands(make_box: MakeBox, docker_provider: DockerProvider) -> None:
    box = await make_box()
    await box.exec("(while :; do echo x >> /tmp/f; done) > /dev/null 2>&1 & until [ -s /tmp/f ]; do :; done")
    with pytest.raises(SnapshotBusy, match="bash"):
        await docker_provider.snapshot(box)
    await box.pause()
    snapshot = await docker_provider.snapshot(box)
    assert await box.status() == "paused"
    await box.resume()
    fork = await make_box(snapshot=snapshot.id)
    assert (await fork.exec("test -s /tmp/f")).ok
    assert await fork.processes() == []
    await docker_provider.delete_snapshot(snapshot.id)


async def test_a_supervisor_that_cannot_start_is_told(make_box: MakeBox) -> None:
    """Here it finds no room for itself."""
    with pytest.raises(CreateFailed):
        await make_box(limits={"memory_mib": 6})


async def test_a_supervisor_that_takes_its_time_is_waited_for(
    make_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a loaded machine: who looked after the container meanwhile hung up on its supervisor."""
    monkeypatch.setattr(birth, "_LOOK_S", 0.001)
    for _ in range(3):
        box = await make_box(limits={"cpus": 0.2})
        assert (await box.exec(["/bin/echo", "there"])).stdout == "there\n"


async def test_a_mount_without_a_source_is_a_failed_create(make_box: MakeBox, docker_provider: DockerProvider) -> None:
    with pytest.raises(CreateFailed, match="/no/such/place"):
        await make_box(mounts=[{"source": "/no/such/place", "target": "/mnt"}])
    assert docker_provider.leases.mine() == []


async def test_boxes_wait_for_a_place(docker_provider: DockerProvider) -> None:
    docker_provider.admission = Admission(AdmissionLimits(boxes=1))
    first = await docker_provider.create(SandboxSpec(image=debian_image()))
    with anyio.move_on_after(0.5) as scope:
        await docker_provider.create(SandboxSpec(image=debian_image()))
    assert scope.cancelled_caught
    await first.close()
    second = await docker_provider.create(SandboxSpec(image=debian_image()))
    await second.close()
    assert docker_provider.admission.view().boxes.held == ()


async def test_many_boxes_at_once_and_few_made_at_a_time(docker_provider: DockerProvider) -> None:
    docker_provider.admission = Admission(AdmissionLimits(creates=3))
    most, told = 0, set()

    async def one(number: int) -> None:
        nonlocal most
        box = await docker_provider.create(SandboxSpec(image=busybox_image()))
        most = max(most, len(docker_provider.admission.view().creates.held))
        told.add((await box.exec(f"echo {number}")).stdout)
        await box.close()

    async with anyio.create_task_group() as tasks:
        for number in range(16):
            tasks.start_soon(one, number)
    assert told == {f"{number}\n" for number in range(16)}
    assert 0 < most <= 3
