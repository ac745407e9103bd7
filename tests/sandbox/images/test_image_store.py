"""Images on the disk: fetched once, kept while they are used, never half there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import NoSpace, PullFailed, SandboxError
from swe_sdk.sandbox.contract import Box, SandboxSpec
from swe_sdk.sandbox.providers.local import images, room
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import traces_of
from tests.sandbox.boxes import output
from tests.sandbox.images.faulty import FaultyRegistry, cut, faulty_registry, status
from tests.sandbox.images.oci import LiveRegistry, MadeImage, entry, layer, system
from tests.shared import lacking

pytestmark = pytest.mark.anyio
_PULL = """
import sys, anyio
from pathlib import Path
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider

async def main():
    provider = LocalProvider(Path(sys.argv[1]))
    try:
        print("begin", flush=True)
        box = await provider.create(SandboxSpec(image=sys.argv[2], workdir="/tmp"))
        print((await box.exec("cat /data/*")).stdout)
    finally:
        await provider.aclose()

anyio.run(main)
"""


@pytest.fixture
def base(busybox: bytes) -> bytes:
    return system(busybox)


@pytest.fixture
def faulty(base: bytes) -> Iterator[FaultyRegistry]:
    content = layer(*(entry(f"data/{number}", f"{number}".encode()) for number in range(3)))
    with faulty_registry(MadeImage([base, content, layer(entry("more", os.urandom(500_000)))])) as server:
        yield server


def blobs_asked_for(server: FaultyRegistry) -> list[str]:
    return [path.rpartition("/")[2] for path, _headers in server.requests if "/blobs/" in path]


async def box_of(provider: LocalProvider, image: str) -> Box:
    return await provider.create(SandboxSpec(image=image, workdir="/tmp"))


def image_layers(provider: LocalProvider) -> set[str]:
    return {path.name for path in (provider.state / "layers").glob("image-*")}


async def test_what_is_there_is_not_asked_for_again(provider: LocalProvider, faulty: FaultyRegistry) -> None:
    await (await box_of(provider, faulty.name)).close()
    faulty.requests.clear()
    box = await box_of(provider, faulty.name)
    assert await output(box, "cat /data/*") == "012"
    await box.close()
    other = LocalProvider(provider.state)
    box = await box_of(other, faulty.name)
    await box.close()
    await other.aclose()
    assert faulty.requests == []


async def test_a_refresh_asks_and_pulls_what_has_changed(
    provider: LocalProvider, registry: LiveRegistry, base: bytes
) -> None:
    def version(content: bytes) -> MadeImage:
        return MadeImage([base, layer(entry("version", content))])

    name = registry.push("moving", version(b"1"))
    said: list[str] = []
    old = await box_of(provider, name)
    before = image_layers(provider)
    await provider.ensure_image(name, refresh=True, on_progress=said.append)
    assert (image_layers(provider), len(said)) == (before, 1)
    registry.push("moving", version(b"2"))
    await provider.ensure_image(name)
    same = await box_of(provider, name)
    assert await output(same, "cat /version") == "1"
    await provider.ensure_image(name, refresh=True, on_progress=said.append)
    new = await box_of(provider, name)
    assert [await output(box, "cat /version") for box in (old, same, new)] == ["1", "1", "2"]
    assert len(image_layers(provider)) == 3
    assert [text.partition(" of ")[0] for text in said[1:]] == [f"looking up {name}", "pulling a layer"]
    for box in (old, same, new):
        await box.close()
    assert len(image_layers(provider)) == 2


async def test_layers_are_shared(provider: LocalProvider, registry: LiveRegistry, base: bytes) -> None:
    content = layer(entry("shared", os.urandom(1000)))
    one = registry.push("one", MadeImage([base, content]))
    two = registry.push("two", MadeImage([base, content, layer(entry("own", b"x"))], packing=""))
    said: list[str] = []
    await provider.ensure_image(one)
    await provider.ensure_image(two, on_progress=said.append)
    assert len([text for text in said if "pulling" in text]) == 1
    assert len(image_layers(provider)) == 3
    await provider.delete_image(one)
    box = await box_of(provider, two)
    assert await output(box, "cat /shared | wc -c") == "1000"
    await provider.delete_image(two)
    assert len(image_layers(provider)) == 3, "a box stands on them"
    assert await output(box, "ls /own") == "/own"
    await box.close()
    assert image_layers(provider) == set()


async def test_one_pull_for_all_who_want_it(provider: LocalProvider, faulty: FaultyRegistry) -> None:
    providers = [provider, LocalProvider(provider.state)]
    boxes: list[Box] = []

    async def make(who: LocalProvider) -> None:
        boxes.append(await box_of(who, faulty.name))

    programs = [
        subprocess.Popen([sys.executable, "-c", _PULL, provider.state, faulty.name], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(make, providers[number % 2])
    answers = [(await anyio.to_thread.run_sync(program.communicate))[0] for program in programs]
    assert answers == [b"begin\n012\n"] * 2
    asked = blobs_asked_for(faulty)
    assert sorted(asked) == sorted(faulty.blobs)
    for box in boxes:
        await box.close()
    await providers[1].aclose()


async def test_a_pull_that_fails_leaves_nothing_and_can_be_tried_again(
    provider: LocalProvider, faulty: FaultyRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = images.RegistrySettings(attempts=2, backoff_s=0.01)
    monkeypatch.setattr(images, "RegistrySettings", lambda: quick)
    faulty.answers = [lambda _handler: False, *[status(500)] * 20]
    with pytest.raises(PullFailed, match="500"):
        await box_of(provider, faulty.name)
    assert not provider.boxes
    assert provider.store.records.images() == []
    assert not [path for path in provider.store.scratch.iterdir() if path.is_dir()]
    faulty.answers = []
    box = await box_of(provider, faulty.name)
    await box.close()


async def test_who_cancels_a_pull_waits_for_nothing(provider: LocalProvider, faulty: FaultyRegistry) -> None:

    def hang(_handler: object) -> bool:
        time.sleep(1.5)
        return False

    faulty.answers = [lambda _handler: False, hang, hang, hang]
    begin = time.monotonic()
    with anyio.move_on_after(0.5) as scope:
        await box_of(provider, faulty.name)
    assert scope.cancelled_caught
    assert time.monotonic() - begin < 1.4
    assert not provider.boxes
    assert not [path for path in provider.store.scratch.iterdir() if path.is_dir()]
    box = await box_of(provider, faulty.name)
    assert await output(box, "cat /data/*") == "012"
    await box.close()


@pytest.mark.parametrize("after", [0, 1, 2, 3])
async def test_a_program_that_is_killed_in_a_pull(provider: LocalProvider, faulty: FaultyRegistry, after: int) -> None:
    """After so many requests for blobs it is gone; what it had finished is used, what it had not is swept."""

    def kill(_handler: object) -> bool:
        if len(blobs_asked_for(faulty)) > after:
            program.send_signal(signal.SIGKILL)
        return False

    faulty.answers = [kill] * 10
    program = subprocess.Popen([sys.executable, "-c", _PULL, provider.state, faulty.name], stdout=subprocess.DEVNULL)
    assert await anyio.to_thread.run_sync(program.wait) == -signal.SIGKILL
    faulty.answers = []
    with anyio.fail_after(30):  # what it has just begun to start may hold its lock a moment longer
        while provider.store.sweep() == 0:
            await anyio.sleep(0.05)
    assert list((provider.state / "trash").iterdir()) == []
    assert provider.store.records.images() == []
    box = await box_of(provider, faulty.name)
    assert await output(box, "cat /data/*") == "012"
    await box.close()


async def test_the_oldest_images_make_room(
    provider: LocalProvider, registry: LiveRegistry, base: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [registry.push(f"room-{number}", MadeImage([base, layer(entry(f"{number}", b"x"))])) for number in range(4)]
    for name in names[:3]:
        await provider.ensure_image(name)
        await anyio.sleep(0.02)
    live = await box_of(provider, names[0])
    kept = [record.image.name for record in provider.store.records.images() if record.image]
    assert kept == [names[1], names[2], names[0]]
    answers = iter([0, 0, 1 << 40])
    monkeypatch.setattr(room, "free_bytes", lambda _path: next(answers, 1 << 40))
    await provider.ensure_image(names[3])
    assert [record.image.name for record in provider.store.records.images() if record.image] == [names[0], names[3]]
    monkeypatch.setattr(room, "free_bytes", lambda _path: 0)
    with pytest.raises(NoSpace, match="it takes about"):
        await provider.ensure_image(names[1])
    assert provider.store.records.images() == []
    assert await output(live, "ls /0") == "/0"
    await live.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a disk that is small")
@pytest.mark.parametrize("size_mib", [1, 4])
async def test_a_disk_that_is_full(
    faulty: FaultyRegistry, busybox: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size_mib: int
) -> None:
    """Full while a layer is fetched, or while it is unpacked."""
    monkeypatch.setattr(room, "free_bytes", lambda _path: 1 << 40)
    large = MadeImage([system(busybox), layer(entry("zeros", bytes(20 << 20)), entry("noise", os.urandom(1 << 20)))])
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "small", tmp_path], check=False).returncode:
        lacking("no file system can be mounted here")
    try:
        provider = LocalProvider(tmp_path / "state")
        owner = provider.store.owner
        try:
            with faulty_registry(large) as server, pytest.raises(NoSpace):
                await box_of(provider, server.name)
            provider.store.sweep()
        finally:
            await provider.aclose()
        assert traces_of(tmp_path / "state", owner) == {}
    finally:
        subprocess.run(["umount", tmp_path], check=True)


async def test_a_layer_that_fills_the_disk_is_not_the_archives_fault(
    provider: LocalProvider, faulty: FaultyRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([1 << 40, 1 << 40, room.RESERVE_BYTES + 1000, 100])
    monkeypatch.setattr(room, "free_bytes", lambda _path: next(answers, 100))
    with pytest.raises(NoSpace):
        await box_of(provider, faulty.name)


async def test_a_broken_connection_is_no_reason_to_give_up(provider: LocalProvider, faulty: FaultyRegistry) -> None:
    faulty.answers = [lambda _handler: False, cut(100), cut(10), status(503), cut(1)]
    box = await box_of(provider, faulty.name)
    assert await output(box, "wc -c < /more") == "500000"
    await box.close()


async def test_an_image_whose_layer_was_lost_is_pulled_again(provider: LocalProvider, faulty: FaultyRegistry) -> None:
    """A crash of the machine may take a layer and leave the record."""
    await provider.ensure_image(faulty.name)
    lost = provider.state / "layers" / min(image_layers(provider))
    shutil.rmtree(lost)
    box = await box_of(provider, faulty.name)
    assert await output(box, "cat /data/*") == "012"
    await box.close()
    with pytest.raises(SandboxError):
        await provider.create(SandboxSpec(snapshot="image-unknown"))
