"""Boxes on container images, from a real registry."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import CapabilityMissing, CreateFailed, ImageNotFound, InputError
from swe_sdk.sandbox.contract import Box, Mount, SandboxSpec
from swe_sdk.sandbox.images.manifest import own_platform
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.sandbox.boxes import output
from tests.sandbox.images.oci import DOCKER_MANIFEST, LiveRegistry, MadeImage, digest_of, entry, layer, link, system

pytestmark = pytest.mark.anyio


@pytest.fixture
def base(busybox: bytes) -> bytes:
    return system(busybox)


async def box_of(provider: LocalProvider, image: str, **changes: object) -> Box:
    return await provider.create(SandboxSpec.model_validate({"image": image, "workdir": "/tmp", **changes}))


@pytest.mark.parametrize("packing", ["", "gzip", "zstd"])
async def test_layers_on_layers(provider: LocalProvider, registry: LiveRegistry, base: bytes, packing: str) -> None:
    middle = layer(
        entry("data/"), entry("data/replaced", b"old"), entry("data/deleted", b"x"), entry("data/kept", b"kept"),
        entry("closed/"), entry("closed/below", b"x"), entry("tree/"), entry("tree/sub/"), entry("tree/sub/x", b"x"),
    )  # fmt: skip
    top = layer(
        entry("data/"), entry("data/replaced", b"new"), entry("data/.wh.deleted", b""),
        entry("closed/"), entry("closed/.wh..wh..opq", b""), entry("closed/above", b"y"), entry(".wh.tree", b""),
    )  # fmt: skip
    image = registry.push(f"stack-{packing or 'plain'}", MadeImage([base, middle, top], packing=packing))
    box = await box_of(provider, image)
    assert await output(box, "cd /; find data closed tree 2>&1 | sort") == "\n".join(
        ["closed", "closed/above", "data", "data/kept", "data/replaced", "find: tree: No such file or directory"]
    )
    assert await output(box, "cat /data/replaced") == "new"
    await box.close()


async def test_what_a_box_on_an_image_is_like(provider: LocalProvider, registry: LiveRegistry, base: bytes) -> None:
    settings = {
        "Env": ["PATH=/bin", "ANSWER=4=2", "EMPTY=", "broken", "=x"], "User": "root", "WorkingDir": "/elsewhere",
        "Entrypoint": ["/bin/echo", "entry"],
    }  # fmt: skip
    image = registry.push("plain", MadeImage([base], settings))
    box = await box_of(provider, image, env={"MINE": "1"})
    assert await output(box, "whoami; id -u; pwd; echo $ANSWER-$EMPTY-$MINE-$PATH-$HOME") == (
        "agent\n1000\n/tmp\n4=2--1-/bin-/home/agent"
    )
    assert await output(box, "cat /etc/passwd /etc/group /etc/hostname /etc/resolv.conf") == "\n".join([
        "root:x:0:0:root:/root:/bin/sh", "agent:x:1000:1000:agent:/home/agent:/bin/sh",
        "root:x:0:", "agent:x:1000:", "sandbox",
    ])  # fmt: skip
    assert "127.0.0.1 localhost" in await output(box, "cat /etc/hosts")
    assert await output(box, "touch $HOME/x /bin/new /etc/new /tmp/x /dev/shm/x && stat -c %a /tmp") == "1777"
    assert await output(box, "ls /") == "bin\ndev\netc\nhome\nproc\ntmp"
    assert await output(box, "ls /usr 2>&1 || true") == "ls: /usr: No such file or directory"
    await box.close()


async def test_the_hosts_network_comes_with_its_names(
    provider: LocalProvider, registry: LiveRegistry, base: bytes
) -> None:
    image = registry.push("network", MadeImage([base]))
    box = await box_of(provider, image, network="host")
    assert await output(box, "cat /etc/hosts") == Path("/etc/hosts").read_text().strip()
    assert not (await box.exec("echo x > /etc/hosts")).ok
    await box.close()


async def test_mounts_of_this_machine(
    provider: LocalProvider, registry: LiveRegistry, base: bytes, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("hello")
    tmp_path.chmod(0o755)
    image = registry.push("mounts", MadeImage([base]))
    box = await box_of(provider, image, mounts=(Mount(source=str(tmp_path), target="/opt/deep/place"),))
    assert await output(box, "cat /opt/deep/place/file") == "hello"
    await box.close()


async def test_bash_where_there_is_one(provider: LocalProvider, registry: LiveRegistry, busybox: bytes) -> None:
    fake_bash = b"#!/bin/sh\necho this is bash\n"
    broken = b"\x7fELF of another machine"
    one = registry.push("bash", MadeImage([system(busybox, entry("bin/bash", fake_bash, mode=0o755))]))
    two = registry.push("broken-bash", MadeImage([system(busybox, entry("bin/bash", broken, mode=0o755))]))
    box = await box_of(provider, one)
    assert await output(box, "exit 1") == "this is bash"
    other = await box_of(provider, two)
    assert await output(other, "echo $0") == "/bin/sh"
    await box.close()
    await other.close()


async def test_an_image_without_a_shell_is_refused(provider: LocalProvider, registry: LiveRegistry) -> None:
    image = registry.push("no-shell", MadeImage([layer(entry("etc/"), entry("etc/passwd", b""))]))
    with pytest.raises(CreateFailed, match="no shell runs in the image"):
        await box_of(provider, image)
    assert not provider.store.records.images()


async def test_an_image_cannot_take_the_place_of_proc_and_dev(
    provider: LocalProvider, registry: LiveRegistry, busybox: bytes
) -> None:
    """Their mounts would follow a link, or fail for want of a directory."""
    for number, way in enumerate(("/", "../../../../tmp", "etc", "missing")):
        more = (link("proc", way), link("dev", way))
        base = layer(entry("./"), *more)
        image = registry.push(f"places-{number}", MadeImage([system(busybox), base]))
        box = await box_of(provider, image)
        assert await output(box, "test -c /dev/null && test -d /proc/1 && readlink /proc || echo ok") == "ok"
        await box.close()
    file = registry.push(
        "places-file", MadeImage([system(busybox, entry("proc", b"f"), entry("dev", b"f"), entry("tmp", b""))])
    )
    box = await box_of(provider, file)
    assert await output(box, "test -c /dev/null && test -d /proc/1 && touch /tmp/x && echo ok") == "ok"
    await box.close()


async def test_names_of_the_machine_that_lead_nowhere(
    provider: LocalProvider, registry: LiveRegistry, busybox: bytes
) -> None:
    more = (
        link("etc/resolv.conf", "../run/systemd/resolve/stub"),
        link("etc/hosts", "/etc/passwd"),
        entry("etc/hostname/"),
    )
    image = registry.push("dangling", MadeImage([system(busybox, *more)]))
    box = await box_of(provider, image)
    assert await output(box, "cat /etc/hostname; cat /etc/resolv.conf") == "sandbox"
    await box.close()
    box = await box_of(provider, image, network="host")
    assert await output(box, "cat /etc/resolv.conf") == Path("/etc/resolv.conf").read_text().strip()
    await box.close()


async def test_the_user_1000_of_an_image_keeps_its_name(
    provider: LocalProvider, registry: LiveRegistry, busybox: bytes
) -> None:
    users = entry("etc/passwd", b"root:x:0:0::/:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh")
    image = registry.push("node", MadeImage([system(busybox, users)]))
    box = await box_of(provider, image)
    assert await output(box, "whoami") == "node"
    await box.close()


async def test_root_where_there_is_a_range_of_ids(provider: LocalProvider, registry: LiveRegistry, base: bytes) -> None:
    if not provider.identity.has_range:
        pytest.skip("an ordinary user has no root in a box")
    box = await box_of(provider, registry.push("root", MadeImage([base])))
    result = await box.exec("id -u; touch /etc/by-root && stat -c %u /etc/by-root", user="root")
    assert result.stdout == "0\n0\n"
    await box.close()


async def test_snapshots_of_boxes_on_images(provider: LocalProvider, registry: LiveRegistry, base: bytes) -> None:
    image = registry.push(
        "frozen", MadeImage([base, layer(entry("data/"), entry("data/x", b"x"))], {"Env": ["A=image"]})
    )
    box = await box_of(provider, image)
    await box.exec("rm /data/x; echo 1 > /data/y")
    sealed = await provider.snapshot(box)
    await box.exec("sleep 100 & echo 2 > /data/z")
    await box.pause()  # type: ignore[attr-defined]
    copied = await provider.snapshot(box)
    await box.close()
    await provider.delete_image(image)
    for snapshot, files in ((sealed, "y"), (copied, "y\nz")):
        fork = await provider.create(SandboxSpec(snapshot=snapshot.id, workdir="/tmp"))
        assert await output(fork, "ls /data") == files
        assert await output(fork, "echo $A; whoami; ls /") == "image\nagent\nbin\ndata\ndev\netc\nhome\nproc\ntmp"
        await fork.close()
    await provider.delete_snapshot(sealed.id)
    await provider.delete_snapshot(copied.id)
    assert not list((provider.state / "layers").glob("image-*"))


async def test_a_deep_chain_is_merged(provider: LocalProvider, registry: LiveRegistry, base: bytes) -> None:
    """Ours is among the merged layers here, and what it says must not be lost."""
    layers = [layer(entry(f"data/{number}", b"x"), entry(f"data/.wh.{number - 1}", b"")) for number in range(70)]
    box = await box_of(provider, registry.push("deep", MadeImage([base, *layers])))
    assert await output(box, "ls /data") == "69"
    snapshot = await provider.snapshot(box)
    assert len(provider.store.snapshot(snapshot.id).chain) < 64
    fork = await provider.create(SandboxSpec(snapshot=snapshot.id, workdir="/tmp"))
    for each in (box, fork):
        assert await output(each, "ls /data; whoami; test -c /dev/null && cat /etc/hostname") == "69\nagent\nsandbox"
        await each.close()
    await provider.delete_snapshot(snapshot.id)


async def test_the_same_layer_twice(provider: LocalProvider, registry: LiveRegistry, base: bytes) -> None:
    """The kernel refuses the same directory twice in one overlay."""
    one, two = layer(entry("x", b"one")), layer(entry("x", b"two"), entry("y", b"two"))
    box = await box_of(provider, registry.push("twice", MadeImage([base, one, two, one, one])))
    assert await output(box, "cat /x /y") == "onetwo"
    await box.close()


@pytest.mark.parametrize("docker", [False, True])
async def test_a_list_of_platforms(provider: LocalProvider, registry: LiveRegistry, base: bytes, docker: bool) -> None:
    name = f"list-{'docker' if docker else 'oci'}"
    other = MadeImage([base], {"Env": ["A=wrong"]}, docker=docker, platform=("linux", "s390x"))
    windows = MadeImage([base], {"Env": ["A=wrong"]}, docker=docker, platform=("windows", own_platform()[1]))
    own = MadeImage([base], {"Env": ["A=right"]}, docker=docker)
    box = await box_of(provider, registry.push_list(name, [other, windows, own], docker=docker))
    assert await output(box, "echo $A") == "right"
    await box.close()
    lonely = registry.push_list(f"{name}-foreign", [other, windows], docker=docker)
    with pytest.raises(ImageNotFound, match=f"linux/s390x, windows/{own_platform()[1]}, and not for linux"):
        await box_of(provider, lonely)
    with pytest.raises(ImageNotFound, match="is for linux/s390x, and this machine is linux/"):
        await box_of(provider, registry.push(f"{name}-single", other))


async def test_by_digest(provider: LocalProvider, registry: LiveRegistry, base: bytes) -> None:
    image = MadeImage([base], {"Env": ["A=1"]})
    name = registry.push("by-digest", image)
    digest = digest_of(image.parts()[1])
    registry.push("by-digest", MadeImage([base], {"Env": ["A=2"]}))
    box = await box_of(provider, f"{name}@{digest}")
    assert await output(box, "echo $A") == "1"
    await box.close()
    with pytest.raises(ImageNotFound):
        await box_of(provider, f"{name}@sha256:{'0' * 64}")


async def test_through_the_registry_of_the_environment(
    provider: LocalProvider, registry: LiveRegistry, base: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.push("cache/library/short", MadeImage([base]), "1")
    monkeypatch.setenv("SWE_SDK_REGISTRY", f"{registry.host}/cache")
    box = await box_of(provider, "short:1")
    await box.close()


async def test_the_first_schema_of_docker_is_refused(
    provider: LocalProvider, registry: LiveRegistry, base: bytes
) -> None:
    """A registry of today takes none, so it is shown by one that says whatever is wanted."""
    from tests.sandbox.images.faulty import faulty_registry

    with faulty_registry(MadeImage([base])) as faulty:
        faulty.manifest = json.dumps({"schemaVersion": 1, "name": "a/b", "fsLayers": []}).encode()
        faulty.media_type = "application/vnd.docker.distribution.manifest.v1+prettyjws"
        with pytest.raises(CreateFailed, match="schema 1"):
            await box_of(provider, faulty.name)
        for manifest in (b"", b"{}", b"[]", b"null", b'{"schemaVersion": 2, "layers": []}'):
            faulty.manifest, faulty.media_type = manifest, DOCKER_MANIFEST
            with pytest.raises(CreateFailed):
                await box_of(provider, faulty.name)


async def test_strange_manifests_are_refused(provider: LocalProvider, registry: LiveRegistry, base: bytes) -> None:
    image = MadeImage([base])
    blobs, manifest, media_type = image.parts()
    encrypted = manifest.replace(b"tar+gzip", b"tar+gzip+encrypted")
    wrong_config = manifest.replace(digest_of(blobs[0]).encode(), digest_of(blobs[1]).encode())
    for number, (changed, said) in enumerate(
        ((encrypted, "packed otherwise"), (wrong_config, "bytes|sound description"))
    ):
        registry.push(f"strange-{number}", image)
        registry.push_manifest(f"strange-{number}", "latest", changed, media_type)
        with pytest.raises(CreateFailed, match=said):
            await box_of(provider, f"{registry.host}/strange-{number}:latest")


async def test_a_layer_that_is_not_what_the_config_says(
    provider: LocalProvider, registry: LiveRegistry, base: bytes
) -> None:
    image = MadeImage([base])
    blobs, manifest, media_type = image.parts()
    config = blobs[0].replace(digest_of(base).encode(), f"sha256:{'1' * 64}".encode())
    for blob in (config, blobs[1]):
        registry.push_blob("lies", blob)
    content = json.loads(manifest)
    content["config"].update(digest=f"sha256:{hashlib.sha256(config).hexdigest()}", size=len(config))
    registry.push_manifest("lies", "latest", json.dumps(content).encode(), media_type)
    with pytest.raises(CreateFailed, match="not what the image's config names"):
        await box_of(provider, f"{registry.host}/lies")
    assert not list((provider.state / "layers").glob("image-*"))


async def test_names_that_are_none(provider: LocalProvider) -> None:
    with pytest.raises(CapabilityMissing, match="apptainer"):
        await box_of(provider, "/images/thing.sif")
    with pytest.raises(InputError):
        await box_of(provider, "Not An Image")


async def test_many_boxes_at_once(provider: LocalProvider, registry: LiveRegistry, base: bytes) -> None:
    image = registry.push("many", MadeImage([base, layer(entry(f"x-{os.urandom(4).hex()}", b""))]))
    boxes: list[Box] = []

    async def make() -> None:
        boxes.append(await box_of(provider, image))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(make)
    assert [await output(box, "echo up") for box in boxes] == ["up"] * 20
    for box in boxes:
        await box.close()
