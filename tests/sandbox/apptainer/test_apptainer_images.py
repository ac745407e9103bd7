"""Images: found on the disk, pulled from a real registry, converted where boxes could not change them."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import ImageNotFound, NoSpace, PullFailed, SandboxError, SnapshotNotFound
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.images.manifest import own_platform
from swe_sdk.sandbox.images.settings import RegistrySettings
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings
from tests.leaks import processes_of
from tests.sandbox.apptainer.images import build, busybox_directory, busybox_sif, debian_sif
from tests.sandbox.boxes import output
from tests.sandbox.images.conftest import busybox, registry  # noqa: F401 - fixtures
from tests.sandbox.images.oci import LiveRegistry, MadeImage, digest_of, entry, layer, link

pytestmark = pytest.mark.anyio


PROGRAMS = (entry("bin/"), *(link(f"bin/{name}", "busybox") for name in ("sh", "cat", "id", "env", "test")))


def small_image(program: bytes, *, marked: str = "one") -> MadeImage:
    """A shell, a file of another user, and variables."""
    files = (entry("app/"), entry("app/theirs", b"x\n", uid=1000), entry("mark", marked.encode()))
    content = layer(*PROGRAMS, entry("bin/busybox", program, mode=0o755), *files)
    return MadeImage([content], settings={"Env": ["PATH=/usr/bin:/bin", "FROM_IMAGE=a b", "LD_PRELOAD=/bin/busybox"]})


def docker_archive(content: bytes) -> bytes:
    """What ``docker save`` writes of an image with one layer."""
    config = json.dumps({
        "os": "linux", "architecture": own_platform()[1], "config": {},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(content)]},
    }).encode()  # fmt: skip
    manifest = json.dumps([{"Config": "config.json", "RepoTags": ["saved:latest"], "Layers": ["layer.tar"]}]).encode()
    return layer(entry("config.json", config), entry("layer.tar", content), entry("manifest.json", manifest))


@contextmanager
def silent_server() -> Iterator[socket.socket]:
    """Somebody on the loopback interface who takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def small(registry: LiveRegistry, busybox: bytes) -> str:  # noqa: F811
    return registry.push("team/small", small_image(busybox))


async def test_an_image_is_pulled_without_a_daemon(provider: ApptainerProvider, small: str) -> None:
    for name in (f"docker://{small}", small):  # the second one finds what the first has pulled
        box = await provider.create(SandboxSpec(image=name, workdir="/"))
        assert await output(box, 'cat mark; echo; echo "$FROM_IMAGE"; id -u') == "one\na b\n0"
        assert await output(box, 'echo "${LD_PRELOAD-unset}"') == "unset"
        assert await output(box, "echo more >> app/theirs; cat app/theirs") == "x\nmore", "whoever owned it"
        await box.close()
    assert len(list((provider.state / "sif").glob("small*.sif"))) == 1


async def test_docker_hub_is_reached_through_the_mirror_of_the_settings(
    apptainer_state: Path,
    options: ApptainerSettings,
    registry: LiveRegistry,  # noqa: F811
    busybox: bytes,  # noqa: F811
) -> None:
    registry.push("mirror/library/tiny", small_image(busybox, marked="mirrored"))
    registries = RegistrySettings(mirror=f"{registry.host}/mirror")
    provider = ApptainerProvider(apptainer_state / "mirrored", options=options, registries=registries)
    box = await provider.create(SandboxSpec(image="tiny", workdir="/"))
    assert await output(box, "cat mark") == "mirrored"
    await provider.aclose()


async def test_an_image_is_pulled_again_where_that_is_asked_for(
    provider: ApptainerProvider,
    registry: LiveRegistry,  # noqa: F811
    busybox: bytes,  # noqa: F811
) -> None:
    name = registry.push("team/moving", small_image(busybox))
    before = await provider.create(SandboxSpec(image=name, workdir="/"))
    snapshot = await provider.snapshot(before)
    registry.push("team/moving", small_image(busybox, marked="two"))
    said: list[str] = []
    await provider.ensure_image(name, on_progress=said.append)
    assert said
    same = await provider.create(SandboxSpec(image=name, workdir="/"))
    assert await output(same, "cat mark") == "one"
    await provider.ensure_image(name, refresh=True)
    after = await provider.create(SandboxSpec(image=name, workdir="/"))
    assert await output(after, "cat mark") == "two"
    assert await output(before, "cat mark") == "one", "a box keeps the image that it was made on"
    with pytest.raises(SnapshotNotFound, match="has changed"):
        await provider.create(SandboxSpec(snapshot=snapshot.id))
    await provider.delete_snapshot(snapshot.id)
    for _ in range(2):  # the second time there is nothing, and nothing is pulled to delete it
        await provider.delete_image(name)
        assert not list((provider.state / "sif").glob("moving*.sif"))


async def test_what_no_registry_has_is_said_and_leaves_nothing(
    provider: ApptainerProvider,
    registry: LiveRegistry,  # noqa: F811
) -> None:
    with pytest.raises(ImageNotFound, match="no-such-image") as raised:
        await provider.create(SandboxSpec(image=f"{registry.host}/team/no-such-image"))
    assert raised.value.remedy
    assert not list(provider.store.scratch.glob("image*"))
    assert not list((provider.state / "sif").glob("*no-such*.sif"))


async def test_a_registry_that_does_not_answer_is_another_failure(provider: ApptainerProvider) -> None:
    with pytest.raises(PullFailed, match=r"127\.0\.0\.1:9"):
        await provider.create(SandboxSpec(image="docker://127.0.0.1:9/team/image"))


async def test_nothing_is_pulled_onto_a_full_disk(apptainer_state: Path, options: ApptainerSettings) -> None:
    full = options.model_copy(update={"free_bytes": 1 << 60})
    provider = ApptainerProvider(apptainer_state / "full", options=full)
    with pytest.raises(NoSpace, match="MiB are free"):
        await provider.create(SandboxSpec(image="docker://127.0.0.1:9/team/image"))
    await provider.aclose()


async def test_an_archive_of_docker_is_converted_once(
    provider: ApptainerProvider,
    tmp_path: Path,
    busybox: bytes,  # noqa: F811
) -> None:
    archive = tmp_path / "saved.tar"
    archive.write_bytes(
        docker_archive(layer(*PROGRAMS, entry("bin/busybox", busybox, mode=0o755), entry("mark", b"saved")))
    )
    for _ in range(2):
        box = await provider.create(SandboxSpec(image=f"docker-archive:{archive}", workdir="/"))
        assert await output(box, "cat mark") == "saved"
        await box.close()
    assert len(list((provider.state / "sif").glob("saved*.sif"))) == 1


async def test_files_of_other_users_can_be_changed(provider: ApptainerProvider) -> None:
    """A .sif file made by root may hold them; unconverted, they would belong to nobody, and be nobody's to change."""
    box = await provider.create(SandboxSpec(image=str(busybox_sif()), workdir="/home/worker"))
    assert await output(
        box, "cat file; echo mine > file; cat file; chmod 600 file; rm file; cd /; rm -r /home; id -u"
    ) == ("theirs\nmine\n0")


async def test_a_directory_is_an_image(provider: ApptainerProvider, tmp_path: Path) -> None:
    folder = busybox_directory(tmp_path / "root")
    before = {str(path): path.stat(follow_symlinks=False).st_mtime_ns for path in folder.rglob("*")}
    box = await provider.create(SandboxSpec(image=str(folder), workdir="/"))
    assert await output(box, "rm -r /home /etc/passwd; echo x > /bin/new; ls /") != ""
    await box.close()
    after = {str(path): path.stat(follow_symlinks=False).st_mtime_ns for path in folder.rglob("*")}
    assert after == before


async def test_a_file_is_found_by_the_name_of_its_image(provider: ApptainerProvider, tmp_path: Path) -> None:
    folder = Path(provider.options.image_dirs[0])
    (folder / "sweb.eval.x86_64.org_s_repo-1.sif").symlink_to(debian_sif())
    for name in ("swebench/sweb.eval.x86_64.org_1776_repo-1:latest", "sweb.eval.x86_64.org_s_repo-1.sif"):
        assert (await provider.find_image(name)).path == debian_sif().resolve()


async def test_a_path_without_a_file_is_no_image(provider: ApptainerProvider, tmp_path: Path) -> None:
    for name in (str(tmp_path / "missing.sif"), "missing.sif", "./missing"):
        with pytest.raises(ImageNotFound, match="missing"):
            await provider.create(SandboxSpec(image=name))


async def test_a_damaged_image_is_a_typed_error(provider: ApptainerProvider, tmp_path: Path) -> None:
    (tmp_path / "half.sif").write_bytes(debian_sif().read_bytes()[:50_000])
    (tmp_path / "text.sif").write_text("no image")
    for name in ("half", "text"):
        with pytest.raises(SandboxError, match=name) as raised:
            await provider.create(SandboxSpec(image=str(tmp_path / f"{name}.sif")))
        assert raised.value.remedy


async def test_an_image_that_changes_below_a_snapshot_is_noticed(provider: ApptainerProvider, tmp_path: Path) -> None:
    folder = busybox_directory(tmp_path / "root")
    build(tmp_path / "image.sif", folder, all_root=True)
    box = await provider.create(SandboxSpec(image=str(tmp_path / "image.sif"), workdir="/"))
    await output(box, "echo x > made")
    snapshot = await provider.snapshot(box)
    (tmp_path / "image.sif").unlink()
    with pytest.raises(SnapshotNotFound, match="gone"):
        await provider.create(SandboxSpec(snapshot=snapshot.id))
    assert await output(box, "cat made") == "x", "the box goes on"
    build(tmp_path / "image.sif", folder, all_root=True)
    with pytest.raises(SnapshotNotFound, match="changed"):
        await provider.create(SandboxSpec(snapshot=snapshot.id))
    await provider.delete_snapshot(snapshot.id)


async def test_many_who_want_the_same_image_pull_it_once(
    provider: ApptainerProvider,
    registry: LiveRegistry,  # noqa: F811
    busybox: bytes,  # noqa: F811
) -> None:
    """In one process and in two."""
    name = registry.push("team/wanted", small_image(busybox))
    program = (
        "import anyio, sys\n"
        "from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider\n"
        "from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings\n"
        "async def main():\n"
        "    provider = ApptainerProvider(sys.argv[1], options=ApptainerSettings(program=sys.argv[2]))\n"
        "    print((await provider.find_image(sys.argv[3])).key)\n"
        "    await provider.aclose()\n"
        "anyio.run(main)\n"
    )
    command = [sys.executable, "-c", program, str(provider.state), str(provider.options.program), name]
    keys: list[str] = []

    async def want() -> None:
        keys.append((await provider.find_image(name)).key)

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(want)
        assert other.stdout is not None
        keys.append(other.stdout.read().strip())
    assert len(keys) == 5
    assert len(set(keys)) == 1


async def test_a_pull_that_is_given_up_ends_its_processes(provider: ApptainerProvider) -> None:
    with silent_server() as server:
        host = f"127.0.0.1:{server.getsockname()[1]}"
        with anyio.move_on_after(1.5) as scope:
            await provider.find_image(f"docker://{host}/team/image")
        assert scope.cancelled_caught
        server.setblocking(False)
        server.accept()[0].close()  # it was asked
    assert list(processes_of(host)) == []
    assert not list(provider.store.scratch.glob("image*"))


async def test_old_images_are_unmounted(apptainer_state: Path, options: ApptainerSettings, tmp_path: Path) -> None:
    provider = ApptainerProvider(
        apptainer_state / "few", options=options.model_copy(update={"idle_images": 1, "idle_s": 0.0})
    )
    folders = [busybox_directory(tmp_path / f"root{number}") for number in range(3)]
    boxes = [await provider.create(SandboxSpec(image=str(folder), workdir="/")) for folder in folders]
    assert len(provider.images.all) == 3
    for box in boxes:
        await box.close()
    assert [zygote.image.path for zygote in provider.images.all] == [folders[-1]]
    again = await provider.create(SandboxSpec(image=str(folders[0]), workdir="/"))
    assert await output(again, "echo works") == "works"
    await provider.aclose()


def test_a_pulled_image_is_not_for_others_to_change(provider: ApptainerProvider) -> None:
    assert stat.S_IMODE(provider.state.stat().st_mode) & 0o077 == 0
    assert provider.state.stat().st_uid == os.geteuid()
